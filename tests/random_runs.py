"""Random trainings: counts over few letters, and options."""

from hypothesis import strategies as st

many_counts = st.one_of(st.integers(1, 3), st.integers(1, 40), st.integers(1, 2**40))


@st.composite
def runs(draw, scaffold=None):
    """Counts over one to four letters, where ties are everywhere, with every option of the loop.

    scaffold: None for either.
    """
    letters = "abcd"[: draw(st.integers(1, 4))]
    counts = draw(
        st.dictionaries(st.text(letters, min_size=1, max_size=12), many_counts, min_size=1, max_size=12)
    )
    alphabet = set("".join(counts))
    specials = draw(st.lists(st.sampled_from(["aa", "ab", "abc", "bab", "<s>"]), unique=True, max_size=2))
    options = {
        "special_tokens": [token for token in specials if token not in alphabet],
        "min_frequency": draw(st.sampled_from([0, 0, 1, 2, 5])),
        "max_token_length": draw(st.sampled_from([None, None, 2, 3, 4])),
        "scaffold": draw(st.sampled_from([True, True, True, False])) if scaffold is None else scaffold,
    }
    fixed = len(options["special_tokens"]) + len(alphabet)
    return counts, draw(st.integers(fixed, fixed + 40)), options
