"""Patterns of Oniguruma, as `Split` has them, read into a tree.

Only what a table can match exactly is read; for the rest the error names what it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hf_scaffold.splitting.alphabet import Alphabet, Boundaries

MOST_CHARACTERS = 5_000
DEEPEST = 40
CODES = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7, "e": 27}
SHORT = {"s": r"\s", "w": r"\w", "d": r"\d"}
NAMED = {"b": "word boundary", "B": "word boundary", "A": "start of the text", "G": "start of the search"}
# What a lower-case letter matches, too, where case is ignored.
FOLDS = {"s": [0x17F], "k": [0x212A]}


class RefusedError(LookupError):
    """There is no exact table for this; says for what."""


class Chars(NamedTuple):
    """One character of a set."""

    chars: int


class Ahead(NamedTuple):
    """Nothing, where the next character is one of a set, or where the text ends if `at_end`."""

    chars: int
    at_end: bool


class Concat(NamedTuple):
    items: tuple[Node, ...]


class Choice(NamedTuple):
    """One of the items; those before are preferred."""

    items: tuple[Node, ...]


class Repeat(NamedTuple):
    """`least` to `most` times the item, as often as possible if `greedy`."""

    item: Node
    least: int
    most: int | None
    greedy: bool = True


Node = Chars | Ahead | Concat | Choice | Repeat


def parse(pattern: str) -> tuple[Node, Alphabet]:
    """The tree of a pattern, and the alphabet of its sets.

    Raises:
        RefusedError: it has something that is not compiled, or is no pattern.
    Example:
        >>> tree, alphabet = parse("a{2,}")
        >>> tree == Repeat(Chars(alphabet.between(97, 97)), 2, None)
        True
    """
    if len(pattern) > MOST_CHARACTERS:
        raise RefusedError(f"has more than {MOST_CHARACTERS} characters")
    boundaries = Boundaries()
    Parser(pattern, boundaries).parse()
    alphabet = Alphabet(boundaries.found)
    return Parser(pattern, alphabet).parse(), alphabet


def is_nullable(node: Node) -> bool:
    """Whether it may match nothing."""
    if isinstance(node, Chars):
        return False
    if isinstance(node, Ahead):
        return True
    if isinstance(node, Repeat):
        return node.least == 0 or is_nullable(node.item)
    return (all if isinstance(node, Concat) else any)(map(is_nullable, node.items))


class Parser:
    """A recursive-descent parser. `fold`: case is ignored."""

    def __init__(self, pattern: str, alphabet: Alphabet | Boundaries) -> None:
        self.pattern = pattern
        self.alphabet = alphabet
        self.at = 0
        self.fold = False
        self.depth = 0

    def parse(self) -> Node:
        node = self.choice()
        if self.at < len(self.pattern):
            raise RefusedError("has an unmatched )")
        return node

    # ---- reading

    def peek(self, n: int = 1) -> str:
        return self.pattern[self.at : self.at + n]

    def take(self, token: str) -> bool:
        if not self.pattern.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def next(self) -> str:
        if self.at >= len(self.pattern):
            raise RefusedError("ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def take_match(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern).match(self.pattern, self.at)
        if found:
            self.at = found.end()
        return found

    # ---- structure

    def choice(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise RefusedError(f"nests more than {DEEPEST} groups")
        items = [self.concat()]
        while self.take("|"):
            items.append(self.concat())
        self.depth -= 1
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def concat(self) -> Node:
        items: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            items.append(self.repeated(self.item()))
        return items[0] if len(items) == 1 else Concat(tuple(items))

    def repeated(self, item: Node) -> Node:
        bounds = self.bounds()
        if bounds is None:
            return item
        least, most, is_counted = bounds
        if isinstance(item, Ahead) or (is_nullable(item) and (least, most) != (0, 1)):
            raise RefusedError("repeats what may be empty")
        if is_counted:
            if self.peek() == "?":
                raise RefusedError("has a lazy count")
            made: Node = Repeat(item, least, most)
            return Repeat(made, 1, None) if self.take("+") else self.not_repeated(made)
        if self.take("?"):
            return self.not_repeated(Repeat(item, least, most, greedy=False))
        if self.take("+"):
            return self.not_repeated(self.possessive(item, least, most))
        return self.not_repeated(Repeat(item, least, most))

    def bounds(self) -> tuple[int, int | None, bool] | None:
        """The least and the greatest number of a repeat, and whether they are written as numbers."""
        for sign, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self.take(sign):
                return least, most, False
        if self.peek() != "{":
            return None
        found = self.take_match(r"\{([0-9]{1,6})\}|\{([0-9]{0,6}),([0-9]{0,6})\}")
        if found is None or found.group(2, 3) == ("", ""):
            raise RefusedError("has a { that begins no count")
        if found[1] is not None:
            return int(found[1]), int(found[1]), True
        least, most = int(found[2] or 0), int(found[3]) if found[3] else None
        if most is not None and least > most:
            raise RefusedError("has a count from more to less")
        return least, most, True

    def not_repeated(self, node: Node) -> Node:
        if self.peek() in ("*", "+", "?", "{"):
            raise RefusedError("repeats a repeat")
        return node

    def possessive(self, item: Node, least: int, most: int | None) -> Node:
        """A repeat that gives nothing back: for single characters, the next one is then no more of them."""
        if not isinstance(item, Chars):
            raise RefusedError("has a possessive group")
        no_more = Ahead(self.alphabet.everything ^ item.chars, True)
        if most == 1:
            return Choice((item, no_more))
        return Concat((Repeat(item, least, most), no_more))

    # ---- items

    def item(self) -> Node:
        char = self.next()
        if char == "(":
            return self.group()
        if char == "[":
            return Chars(self.char_class())
        if char == "\\":
            return self.escaped()
        if char == ".":
            return Chars(self.alphabet.everything ^ self.alphabet.between(10, 10))
        if char == "$":
            return Ahead(self.alphabet.between(10, 10), True)
        if char == "^":
            raise RefusedError("has ^, the start of a line")
        if char in "*+?{":
            raise RefusedError("repeats nothing")
        return Chars(self.literal(ord(char)))

    def group(self) -> Node:
        for sign, what in (
            ("?<=", "looks behind"),
            ("?<!", "looks behind"),
            ("?>", "has an atomic group"),
            ("?<", "has a named group"),
            ("?~", "has an absence operator"),
            ("?(", "has a condition"),
            ("?#", "has a comment"),
        ):
            if self.take(sign):
                raise RefusedError(what)
        if self.take("?="):
            return self.ahead(False)
        if self.take("?!"):
            return self.ahead(True)
        if self.fold:
            raise RefusedError("has groups where case is ignored")
        if self.take("?i:"):
            self.fold = True
            node = self.closed(self.choice())
            self.fold = False
            return node
        if not self.take("?:") and self.peek() == "?":
            raise RefusedError("sets an option")
        return self.closed(self.choice())

    def closed(self, node: Node) -> Node:
        if not self.take(")"):
            raise RefusedError("has an unmatched (")
        return node

    def ahead(self, is_negative: bool) -> Node:
        chars, at_end = self.one_ahead(self.closed(self.choice()))
        if is_negative:
            return Ahead(self.alphabet.everything ^ chars, not at_end)
        return Ahead(chars, at_end)

    def one_ahead(self, node: Node) -> tuple[int, bool]:
        """What a look-ahead at one character at most asks for."""
        if isinstance(node, Chars):
            return node.chars, False
        if isinstance(node, Ahead):
            return node
        if isinstance(node, Choice):
            found = [self.one_ahead(item) for item in node.items]
            chars = 0
            for some, _ in found:
                chars |= some
            return chars, any(at_end for _, at_end in found)
        raise RefusedError("looks ahead by more than one character")

    # ---- characters

    def escaped(self) -> Node:
        char = self.next()
        if char in NAMED:
            raise RefusedError(f"has \\{char}, a {NAMED[char]}")
        if char == "z":
            return Ahead(0, True)
        if char.isdigit() or char in "kg":
            raise RefusedError("has a backreference")
        chars = self.class_escape(char)
        if chars is not None:
            return Chars(chars)
        return Chars(self.literal(self.code(char)))

    def literal(self, code: int) -> int:
        if not self.fold:
            return self.alphabet.between(code, code)
        # Oniguruma takes two of these letters for one character, such as U+FB06.
        following = self.peek()
        if chr(code) in "sSfF" and following not in ("|", ")") and following in "sStTfFiIlL([{\\?*+.^$":
            raise RefusedError(f"ignores the case of {chr(code)!r} and what follows")
        return self.folded(code)

    def folded(self, code: int) -> int:
        if code > 0x7F:
            raise RefusedError(f"ignores the case of {chr(code)!r}")
        chars = 0
        for twin in {code, ord(chr(code).lower()), ord(chr(code).upper()), *FOLDS.get(chr(code).lower(), ())}:
            chars |= self.alphabet.between(twin, twin)
        return chars

    def code(self, char: str) -> int:
        """The code point that an escape stands for, given the character after the backslash."""
        if char in CODES:
            return CODES[char]
        found = None
        if char == "x":
            found = self.take_match(r"\{([0-9A-Fa-f]{1,6})\}|([0-7][0-9A-Fa-f])")
        elif char == "u":
            found = self.take_match("([0-9A-Fa-f]{4})")
        elif not char.isalnum():
            return ord(char)
        if found is None:
            raise RefusedError(f"has the unknown escape \\{char}")
        code = int(next(filter(None, found.groups())), 16)
        if code >= 0x110000 or 0xD800 <= code < 0xE000:
            raise RefusedError("has an escape that is no character")
        return code

    def class_escape(self, char: str) -> int | None:
        r"""The set of an escape such as \s or \p{L}, given what follows the backslash; None for others."""
        if char in "pP":
            return self.property(char == "P")
        if char in "hH":
            chars = (
                self.alphabet.between(48, 57) | self.alphabet.between(65, 70) | self.alphabet.between(97, 102)
            )
        elif char.lower() in SHORT:
            chars = self.alphabet.having(SHORT[char.lower()])
        else:
            return None
        if self.fold:
            raise RefusedError("ignores the case of a class")
        return chars if char.islower() else self.alphabet.everything ^ chars

    def property(self, is_negative: bool) -> int:
        found = self.take_match(r"\{(\^?)([A-Za-z]+)\}")
        if found is None:
            raise RefusedError(r"has a \p without {name}")
        if self.fold:
            raise RefusedError("ignores the case of a class")
        try:
            chars = self.alphabet.everything if found[2] == "Any" else self.alphabet.having(found[2])
        except KeyError:
            raise RefusedError(f"has \\p{{{found[2]}}}, which is not known natively") from None
        return self.alphabet.everything ^ chars if is_negative != bool(found[1]) else chars

    def char_class(self) -> int:
        """The set of a class, after its [."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise RefusedError(f"nests more than {DEEPEST} groups")
        is_negative = self.take("^")
        if self.fold and is_negative:
            raise RefusedError("ignores the case of a class")
        if self.peek() == "]":
            raise RefusedError("has a class that begins with ]")
        chars = self.union()
        while self.take("&&"):
            chars &= self.union()
        if not self.take("]"):
            raise RefusedError("has an unmatched [")
        if self.fold and self.peek() not in ("|", ")"):
            raise RefusedError("ignores the case of a class and what follows")
        self.depth -= 1
        return self.alphabet.everything ^ chars if is_negative else chars

    def union(self) -> int:
        chars = 0
        start = self.at
        while self.peek() not in ("", "]") and self.peek(2) != "&&":
            chars |= self.class_item()
        if self.at == start:
            raise RefusedError("has an empty class")
        return chars

    def class_item(self) -> int:
        char = self.next()
        if char == "[":
            if self.peek() == ":":
                raise RefusedError("has a POSIX bracket")
            if self.fold:
                raise RefusedError("ignores the case of a class")
            return self.char_class()
        if char == "\\":
            char = self.next()
            chars = self.class_escape(char)
            if chars is not None:
                if self.peek() == "-" and self.peek(2) != "-]":
                    raise RefusedError("has a range from a class")
                return chars
            if char == "b":
                raise RefusedError(r"has \b in a class")
            first = self.code(char)
        else:
            if char == "-" and not (self.peek() == "]" or self.pattern[self.at - 2] in "[^"):
                raise RefusedError("has a - between others in a class")
            first = ord(char)
        last = self.range_end()
        if last is None:
            return self.folded(first) if self.fold else self.alphabet.between(first, first)
        if self.fold:
            raise RefusedError("ignores the case of a range")
        if last < first:
            raise RefusedError("has an empty range")
        return self.alphabet.between(first, last)

    def range_end(self) -> int | None:
        if self.peek() != "-" or self.peek(2) == "-]":
            return None
        self.at += 1
        char = self.next()
        if char == "[" or self.pattern.startswith("&&", self.at - 1):
            raise RefusedError("has a range without an end")
        if char != "\\":
            return ord(char)
        char = self.next()
        if char in "pPhHsSwWdDb":
            raise RefusedError("has a range to a class")
        return self.code(char)
