"""Tokens in colour, tables, trees and lattices, for the notebooks that teach.

A drawing is HTML or SVG, the same on every run, and has a plain text that says as much. Tokens are dark on
pale, lines are grey: both show on light pages and on dark ones.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

INK, LINE, SYMBOL, BEST = "#1a1a1a", "#808080", "#e4e4e4", "#d55e00"
GROUNDS = (
    *("#b3dcf7", "#fbd7a8", "#d3ecaa", "#f5c4ea", "#f3e7a1", "#c3cdf9"),
    *("#b5e8c3", "#f9c7c7", "#aee6e0", "#dac6f7", "#e3d5c5", "#c9dce6"),
)
COLORED: dict[str, int] = {}  # tokens in the order in which they were first drawn
LETTER, HEIGHT, GAP = 9, 26, 8  # of a token in SVG, in pixels


@dataclass(frozen=True)
class Drawing:
    """What a notebook shows as HTML or SVG, and anything else as text."""

    text: str
    html: str | None = None
    svg: str | None = None

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str | None:
        return self.html

    def _repr_svg_(self) -> str | None:
        return self.svg


def ground(token: str) -> str:
    """A token's colour, one for the whole notebook; symbols are grey."""
    if len(token.removeprefix("##")) < 2:
        return SYMBOL
    return GROUNDS[COLORED.setdefault(token, len(COLORED)) % len(GROUNDS)]


def tokens(sequence: Collection[str], scaffolds: Collection[str] = (), note: object = "") -> Drawing:
    """Tokens in colour, and a note after them; scaffold tokens have a dashed border."""

    def span(token: str) -> str:
        border = f"1.5px dashed {INK}" if token in scaffolds else "1.5px solid transparent"
        style = f"background:{ground(token)};color:{INK};border:{border};border-radius:4px;padding:0 4px"
        return f'<span style="{style};font-family:monospace;white-space:pre">{escape(token)}</span>'

    named = (f"[{token}]" if token in scaffolds else token for token in sequence)
    text = " ".join(filter(None, [*named, str(note)]))
    return Drawing(text, html=" ".join([*map(span, sequence), escape(str(note))]))


def table(header: Sequence[str], rows: Collection[Sequence[Any]]) -> Drawing:
    """A table; its cells are drawings or whatever has a text."""

    def cell(value: Any) -> str:
        shown = value.html if isinstance(value, Drawing) else escape(str(value))
        return f'<td style="text-align:left">{shown}</td>'

    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    text = "\n".join(" | ".join(map(str, row)) for row in (header, *rows))
    return Drawing(text, html=f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def trees(
    words: Collection[str], parts: Mapping[str, Sequence[str]], scaffolds: Collection[str] = ()
) -> Drawing:
    """How each word is merged from its symbols, which stand at the bottom.

    Args:
        parts: Each merged token and the two it was merged from.
    """

    def height(token: str) -> int:
        return 1 + max(map(height, parts[token])) if token in parts else 0

    def spelled(token: str) -> str:
        return f"({' '.join(map(spelled, parts[token]))})" if token in parts else token

    def draw(token: str) -> float:
        """Draws the token above its parts; the middle of its box."""
        nonlocal right
        y = GAP + (top - height(token)) * (HEIGHT + 18)
        width = box_width(token)
        if token in parts:
            middles = [draw(part) for part in parts[token]]
            x = sum(middles) / 2
            for middle, part in zip(middles, parts[token], strict=True):
                y_part = GAP + (top - height(part)) * (HEIGHT + 18)
                line(svg, x, y + HEIGHT, middle, y_part)
        else:
            x = right + width / 2
            right += width + GAP
        box(svg, token, x - width / 2, y, width, dashed=token in scaffolds)
        return x

    svg = Element("svg")
    top = max(map(height, words))
    right = float(GAP)
    for word in words:
        draw(word)
        right += 4 * GAP
    text = "; ".join(f"{word} = {spelled(word)}" for word in words)
    return finished(svg, right, GAP * 2 + top * (HEIGHT + 18) + HEIGHT, text)


def lattice(
    word: str, notes: Mapping[tuple[int, int], str], best: Collection[tuple[int, int]] = ()
) -> Drawing:
    """Every token that fits into a word, below the letters that it covers.

    Args:
        notes: By the token's start and end in the word: what is written beside it.
        best: Those with an orange border.
    """
    svg = Element("svg")
    column = max(LETTER * (len(word[i:j]) + len(note) + 4) / (j - i) for (i, j), note in notes.items())
    for i, letter in enumerate(word):
        label(svg, letter, GAP + (i + 0.5) * column, 18, LINE)
    rows: list[int] = []  # where each row is free from
    for (i, j), note in sorted(notes.items(), key=lambda item: (item[0][1] - item[0][0], item[0])):
        row = next((r for r, end in enumerate(rows) if end <= i), len(rows))
        rows[row : row + 1] = [j]
        x, y = GAP + i * column + 2, 30 + row * (HEIGHT + GAP)
        box(svg, word[i:j], x, y, (j - i) * column - 4, note=note, best=(i, j) in best)
    text = ", ".join(f"{word[i:j]}{'*' if (i, j) in best else ''} {note}" for (i, j), note in notes.items())
    return finished(svg, len(word) * column + 2 * GAP, 30 + len(rows) * (HEIGHT + GAP), text)


def check(answer: Any, expected: Any) -> None:
    """Say whether an answer is right. None is no answer yet.

    Raises:
        AssertionError: it is wrong.
    """
    if answer is None:
        print("No answer yet.")
    elif answer == expected:
        print("Right.")
    else:
        raise AssertionError(f"{answer!r} is not right; have another look")


# ---- parts of an SVG


def box_width(token: str) -> float:
    return LETTER * len(token) + 14


def box(
    svg: Element,
    token: str,
    x: float,
    y: float,
    width: float,
    *,
    note: str = "",
    dashed: bool = False,
    best: bool = False,
) -> None:
    frame = {"stroke": INK, "stroke-width": "1.5", "stroke-dasharray": "4 3"} if dashed else {}
    if best:
        frame = {"stroke": BEST, "stroke-width": "3"}
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": str(HEIGHT), "rx": "5"}
    SubElement(svg, "rect", {**place, "fill": ground(token), **frame})
    label(svg, f"{token}  {note}" if note else token, x + width / 2, y + HEIGHT / 2 + 5, INK)


def label(svg: Element, text: str, x: float, y: float, color: str) -> None:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": "middle", "fill": color}
    SubElement(svg, "text", {**place, "style": "white-space:pre"}).text = text


def line(svg: Element, x1: float, y1: float, x2: float, y2: float) -> None:
    ends = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
    SubElement(svg, "line", {**ends, "stroke": LINE, "stroke-width": "1.5"})


def finished(svg: Element, width: float, height: float, text: str) -> Drawing:
    size = {"width": f"{width:.0f}", "height": f"{height:.0f}", "viewBox": f"0 0 {width:.0f} {height:.0f}"}
    svg.attrib |= {"xmlns": "http://www.w3.org/2000/svg", **size, "role": "img", "aria-label": text}
    svg.attrib |= {"font-family": "monospace", "font-size": "15"}
    return Drawing(text, svg=tostring(svg, encoding="unicode"))
