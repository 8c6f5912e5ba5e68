"""Write normalization_tables.hpp: what the normalizers of the installed `tokenizers` make of every character.

They have tables of several Unicode versions (Python's unicodedata has another one), so all is probed, even
the order of combining marks. From that, compiled code composes texts by the algorithms of UAX #15.

Run it after an update of `tokenizers`; a test tells when that is necessary.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import tokenizers
from tokenizers.normalizers import NFC, NFD, NFKC, NFKD, BertNormalizer, Lowercase, Nmt, StripAccents

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from make_unicode_classes import CODE_POINTS, SCALARS

HEADER = Path(__file__).with_name("normalization_tables.hpp")
BLOCK_SIZE = 128
SYLLABLES = range(0xAC00, 0xD7A4)  # of Hangul, (de)composed by arithmetic
FORMS = {"NFC": NFC(), "NFD": NFD(), "NFKC": NFKC(), "NFKD": NFKD()}
RANK_BITS = 6


def each(normalizer: object) -> dict[int, str]:
    """What a normalizer makes of each character alone, if it isn't the character itself."""
    normalize: Callable[[str], str] = normalizer.normalize_str  # type: ignore[attr-defined]
    made = {code: normalize(chr(code)) for code in SCALARS}
    return {code: text for code, text in made.items() if text != chr(code)}


def bert(**options: bool) -> BertNormalizer:
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return BertNormalizer(**off | options)


# ---- normal forms


def ranks(decomposed: dict[int, str]) -> dict[int, int]:
    """The combining marks; those of a lower rank come first, those of one rank keep their order."""
    plain = [code for code in SCALARS if code not in decomposed]
    # These are of the lowest and of the highest class: any other mark changes places with one of them.
    low, high = "\u0334", "\u0345"
    texts = [f"x{high}{chr(code)}x{chr(code)}{low}" for code in plain]
    made = NFD().normalize_str("".join(texts))
    moved = {code for i, code in enumerate(plain) if made[6 * i : 6 * i + 6] != texts[i]}
    marks = [code for code in plain if code in moved or chr(code) in (low, high)]
    before = {mark: n_before(mark, marks) for mark in marks}
    counts = sorted({*before.values()})
    return {mark: 1 + counts.index(count) for mark, count in before.items()}


def n_before(mark: int, marks: list[int]) -> int:
    """How many of the marks must come before this one: the same for all marks of a class."""
    made = NFD().normalize_str("".join(f"x{chr(mark)}{chr(other)}" for other in marks))
    return sum(first != chr(mark) for first in made[1::3])


def compositions(decomposed: dict[int, str]) -> dict[tuple[int, int], int]:
    """Two characters that NFC composes, and what to."""
    pairs = {}
    compose = NFC().normalize_str
    for code, parts in decomposed.items():
        if compose(parts) == chr(code) and len(parts) > 1:
            first = compose(parts[:-1])
            if len(first) != 1 or compose(first + parts[-1]) != chr(code):
                raise AssertionError(f"U+{code:04X} is composed of more than two characters")
            pairs[ord(first), ord(parts[-1])] = code
    return pairs


def check_syllables(decomposed: dict[int, str], pairs: dict[tuple[int, int], int]) -> None:
    for code in SYLLABLES:
        initial, medial, final = (code - 0xAC00) // 588, (code - 0xAC00) // 28 % 21, (code - 0xAC00) % 28
        parts = [0x1100 + initial, 0x1161 + medial, 0x11A7 + final][: 3 if final else 2]
        pair = (parts[0], parts[1]) if final == 0 else (code - final, parts[2])
        if decomposed[code] != "".join(map(chr, parts)) or pairs[pair] != code:
            raise AssertionError(f"the syllable U+{code:04X} is no sum of its parts")


# ---- tables


def two_stages(values: list[int], name: str, kind: str) -> list[str]:
    """A table as block numbers and distinct blocks."""
    blocks: dict[tuple[int, ...], int] = {}
    block_of = [
        blocks.setdefault(tuple(values[start : start + BLOCK_SIZE]), len(blocks))
        for start in range(0, CODE_POINTS, BLOCK_SIZE)
    ]
    lines = [f"constexpr std::uint8_t {name}_BLOCK[] = {{", *rows(block_of), "};"]
    lines += [f"constexpr {kind} {name}[][{BLOCK_SIZE}] = {{"]
    for block in blocks:
        lines += ["    {", *rows(block), "    },"]
    return [*lines, "};", ""]


def rows(values: Iterable[int]) -> Iterator[str]:
    listed = list(values)
    for start in range(0, len(listed), 32):
        yield "    " + ",".join(map(str, listed[start : start + 32])) + ","


class Strings:
    """Strings of code points one after another, each after its length; 0 is none."""

    def __init__(self) -> None:
        self.codes = [0]
        self.places: dict[str, int] = {}

    def place(self, text: str) -> int:
        if text not in self.places:
            self.places[text] = len(self.codes)
            self.codes += [len(text), *map(ord, text)]
        return self.places[text]

    def table(self, mapping: dict[int, str]) -> list[int]:
        values = [0] * CODE_POINTS
        for code, text in mapping.items():
            values[code] = self.place(text)
        return values


def bits(members: dict[str, set[int]], first: int = 0) -> tuple[list[int], list[str]]:
    """For each code point the sets that it is in, and the bits' names."""
    values = [0] * CODE_POINTS
    lines = []
    for position, (name, codes) in enumerate(members.items(), first):
        lines.append(f"constexpr unsigned {name} = {1 << position};")
        for code in codes:
            values[code] |= 1 << position
    return values, lines


def normal_table(made: dict[str, dict[int, str]], seconds: set[int]) -> list[str]:
    """Ranks, and a bit for each form: of what changes, or may compose with a character before it."""
    absent = {
        f"NOT_{name}": {*changed, *(seconds if name.endswith("C") else ())} for name, changed in made.items()
    }
    values, names = bits(absent, RANK_BITS)
    for code, rank in ranks(made["NFD"]).items():
        if rank >= 1 << RANK_BITS:
            raise AssertionError("more classes of combining marks than a rank has bits for")
        values[code] |= rank
    return [
        f"constexpr unsigned RANK = {(1 << RANK_BITS) - 1};  // of combining marks; 0 for all else",
        "// A text has the form if no character in it has the bit and the marks are in order.",
        *names,
        *two_stages(values, "NORMAL", "std::uint16_t"),
    ]


def kinds_table(lower: dict[int, str]) -> list[str]:
    cleaned, nmt, stripped = each(bert(clean_text=True)), each(Nmt()), each(StripAccents())
    spaced, accents = each(bert(handle_chinese_chars=True)), each(bert(strip_accents=True))
    if {*cleaned.values(), *nmt.values()} != {"", " "} or {*stripped.values()} != {""}:
        raise AssertionError("characters become something else than spaces")
    if any(text != f" {chr(code)} " for code, text in spaced.items()):
        raise AssertionError("spaces are not around characters")
    members = {
        "CLEANED_AWAY": {code for code, text in cleaned.items() if not text},
        "CLEANED_TO_SPACE": {code for code, text in cleaned.items() if text},
        "CHINESE": {*spaced},
        "NONSPACING": {code for code, text in accents.items() if not text},
        "COMBINING": {*stripped},
        "NMT_AWAY": {code for code, text in nmt.items() if not text},
        "NMT_TO_SPACE": {code for code, text in nmt.items() if text},
        "LOWERED": {*lower},
    }
    values, names = bits(members)
    what = "// What BertNormalizer, StripAccents, Nmt and Lowercase change."
    return [what, *names, *two_stages(values, "KINDS", "std::uint8_t")]


def string_tables(mappings: dict[str, dict[int, str]]) -> list[str]:
    strings, lines = Strings(), []
    for name, mapping in mappings.items():
        values = strings.table({code: text for code, text in mapping.items() if code not in SYLLABLES})
        lines += two_stages(values, name, "std::uint16_t")
    if len(strings.codes) >= 1 << 16:
        raise AssertionError("more strings than 16 bits can tell apart")
    return [
        "// Strings of code points, each after its length.",
        "constexpr std::uint32_t STRINGS[] = {",
        *rows(strings.codes),
        "};",
        "// Where in STRINGS a code point's full decomposition or lower case is; 0 if it stays.",
        *lines,
    ]


def pair_tables(pairs: dict[tuple[int, int], int]) -> list[str]:
    composed = sorted((a << 32 | b, code) for (a, b), code in pairs.items() if code not in SYLLABLES)
    return [
        f"constexpr std::size_t N_COMPOSED = {len(composed)};",
        "// Pairs of code points, the first in the upper 32 bits, in order; and what each composes to.",
        "constexpr std::uint64_t PAIRS[] = {",
        *rows(pair for pair, _ in composed),
        "};",
        "constexpr std::uint32_t COMPOSED[] = {",
        *rows(code for _, code in composed),
        "};",
    ]


def render() -> str:
    made = {name: each(normalizer) for name, normalizer in FORMS.items()}
    lower = each(Lowercase())
    pairs = compositions(made["NFD"])
    check_syllables(made["NFD"], pairs)
    lines = [
        f"// GENERATED by make_normalization_tables.py from tokenizers {tokenizers.__version__}; don't edit.",
        *["#pragma once", "", "#include <cstddef>", "#include <cstdint>", "", "namespace hf_scaffold {", ""],
        *normal_table(made, {second for _, second in pairs}),
        *kinds_table(lower),
        *string_tables({"DECOMPOSED": made["NFD"], "COMPATIBLE": made["NFKD"], "LOWER_CASE": lower}),
        *pair_tables(pairs),
        *["", "}  // namespace hf_scaffold", ""],
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    HEADER.write_text(render(), encoding="utf-8")
