"""Tables added up by weight: exactly, and in proportion."""

import math
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hf_scaffold as hs
from hf_scaffold.errors import ConfigurationError, CountOverflowError
from hf_scaffold.tables import merging
from hf_scaffold.tables.mixing import whole_numbers

MAX = 2**63 - 1

numbers = st.fractions(Fraction(1, 50), 50, max_denominator=50)
tables = st.dictionaries(st.text("abcé", min_size=1, max_size=2), st.integers(1, 1000), min_size=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mixing")


def write(folder, **mappings):
    paths = {name: str(folder / f"{name}.parquet") for name in mappings}
    for name, mapping in mappings.items():
        hs.PreTokenCounts.from_mapping(mapping).save(paths[name])
    return paths.values()


@given(st.lists(st.tuples(tables, numbers), min_size=1, max_size=4), st.randoms())
@settings(max_examples=40)
def test_mixes_as_fractions_do(folder, given_tables, rng):
    paths = write(folder, **{f"t{i}": mapping for i, (mapping, _) in enumerate(given_tables)})
    sums = {}
    for mapping, weight in given_tables:
        for pretoken, n in mapping.items():
            sums[pretoken] = sums.get(pretoken, Fraction(0)) + n * weight
    weights = [*zip(paths, (weight for _, weight in given_tables), strict=True)]
    rng.shuffle(weights)
    found = hs.mix(dict(weights))
    scale = found[next(iter(sums))] / sums[next(iter(sums))]
    assert dict(found) == {pretoken.encode(): n * scale for pretoken, n in sums.items()}
    factors = [weight * scale for _, weight in weights]
    assert all(factor.denominator == 1 for factor in factors)
    assert math.gcd(*map(int, factors)) == 1


def test_equal_weights_merge(tmp_path, monkeypatch):
    """Also where tables are merged again."""
    mappings = [{f"word {i * j % 50}": i + 1 for i in range(60)} for j in range(1, 7)]
    paths = write(tmp_path, **{f"t{i}": mapping for i, mapping in enumerate(mappings)})
    hs.merge_counts(paths, tmp_path / "merged")
    for n_files, weights in ((256, [1] * 6), (2, [0.5] * 6)):
        monkeypatch.setattr(merging, "_MOST_FILES", n_files)
        size = hs.mix_counts(dict(zip(paths, weights, strict=True)), tmp_path / "mixed")
        assert (tmp_path / "mixed").read_bytes() == (tmp_path / "merged").read_bytes()
        assert size.n_pretokens == sum(sum(mapping.values()) for mapping in mappings)
    expected = hs.mix(dict(zip(paths, range(1, 7), strict=True)))
    monkeypatch.setattr(merging, "_MOST_FILES", 256)
    assert hs.mix(dict(zip(paths, range(1, 7), strict=True))) == expected


def test_a_pattern_gives_all_its_tables_one_weight(tmp_path):
    write(tmp_path, web1={"a": 1}, web2={"a": 2, "b": 1}, code={"a": 5})
    weights = {f"{tmp_path}/web*.parquet": 3, tmp_path / "code.parquet": 2}
    assert dict(hs.mix(weights)) == {b"a": 19, b"b": 3}
    with pytest.raises(ConfigurationError, match="are one file, whose counts would be added twice"):
        hs.mix({f"{tmp_path}/web*.parquet": 3, f"{tmp_path}/web1.parquet": 2})


@pytest.mark.parametrize(
    "weight", [0.1, "0.1", "1/10", "1e-1", Fraction(1, 10), Decimal("0.1"), np.float64(0.1), np.float32(0.1)]
)
def test_a_weight_is_the_decimal_that_was_written(weight):
    assert whole_numbers({"a": weight, "b": np.int64(1)}) == {"a": 1, "b": 10}


NO_NUMBERS = [
    "",
    "x",
    "1/0",
    "-1/2",
    "nan",
    "1e999999999",
    "1e-999999999",
    b"1",
    True,
    np.True_,
    None,
    1j,
    [1],
]


def test_parts_of_one_corpus_are_weighted_alike(tmp_path):
    """Else their sum would pass for the table of the corpus: at once, or once other parts are merged in."""
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 9)
    for i in range(3):
        hs.count(tmp_path / "text.txt", part=(i, 3), output=tmp_path / f"part-{i}.parquet")
    write(tmp_path, other={"a": 1})
    parts, other = [f"{tmp_path}/part-{i}.parquet" for i in range(3)], f"{tmp_path}/other.parquet"
    message = r"part-0\.parquet and .*part-1\.parquet count parts of different corpora: .* weights or"
    with pytest.raises(ConfigurationError, match=message):
        hs.mix({parts[0]: 2, parts[1]: 1, parts[2]: 1})
    some = tmp_path / "some.parquet"
    hs.mix_counts({parts[0]: 2, parts[1]: 2, other: 1}, some)
    with pytest.raises(ConfigurationError, match=r"some\.parquet and .*part-2\.parquet count parts of diff"):
        hs.merge_counts([some, parts[2]], tmp_path / "all.parquet")
    whole = hs.mix({f"{tmp_path}/part-*.parquet": 2, other: 1})
    assert whole.parts == ()
    assert hs.mix({some: 1, parts[2]: 2}) == whole


@pytest.mark.parametrize("weight", [0, -1, 0.0, -0.5, math.nan, math.inf, *NO_NUMBERS])
def test_what_is_no_weight(weight):
    with pytest.raises(ConfigurationError, match=r"the weight of b is .*; weights are numbers above 0, such"):
        whole_numbers({"a": 1, "b": weight})


def test_weights_of_any_size():
    smallest, largest = 5e-324, sys.float_info.max
    factors = whole_numbers({"a": smallest, "b": largest})
    assert Fraction(factors["b"], factors["a"]) == Fraction(str(largest)) / Fraction(str(smallest))
    for wrong in ({}, {"a": 1}.items(), "a", 1):
        with pytest.raises((ConfigurationError, TypeError), match="weights"):
            hs.mix(wrong)


def test_counts_that_pass_64_bits(tmp_path):
    a, b = write(tmp_path, a={"x": MAX // 3, "y": 2}, b={"x": 1})
    assert hs.mix({a: 3, b: 1})["x"] == MAX // 3 * 3 + 1
    with pytest.raises(CountOverflowError, match=rf"{a}: pre-token b'x' has count {MAX // 3}, times 4"):
        hs.mix({a: 4, b: 1})
    with pytest.raises(CountOverflowError, match="pre-token b'x'"):
        hs.mix({a: 3, b: 2})
    with pytest.raises(CountOverflowError, match="proportion of smaller whole numbers"):
        hs.mix({a: 1e30, b: 1e-30})
