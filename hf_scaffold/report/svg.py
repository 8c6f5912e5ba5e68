"""Charts as SVG: text stays text, in any script, and ink follows the page, light or dark.

`xml.etree` writes it, so whatever a token spells is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from hf_scaffold._utils.files import write_files

Point = tuple[float, float]

WIDTH = 720
ROW = 22  # height of a bar with the room around it
LINES_HEIGHT = 340
LABELS = 150  # left of bars

# Each shows on white and on black; lines have dashes besides.
COLORS = ("#2a7fd4", "#d55e00", "#1a8f63", "#a05fc4", "#7f7f7f", "#c2478d", "#1787a0")
DASHES = ("none", "7 3", "2 3", "10 3 2 3", "4 4", "12 4", "1 4")

_CSS = """
.hf-figure { font: 13px system-ui, sans-serif; width: 100%; max-width: 720px; height: auto; }
.hf-figure text { fill: currentColor; }
.hf-figure .soft { opacity: 0.75; }
.hf-figure .group { font-weight: 600; }
.hf-figure .grid { stroke: currentColor; opacity: 0.15; }
.hf-figure .axis { stroke: currentColor; opacity: 0.6; }
.hf-figure polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
"""


@dataclass(frozen=True)
class Figure:
    """A chart; notebooks show it.

    Args:
        description: What it shows, for those who can't see it.
        svg: Complete, in a page or as a file.
    """

    title: str
    description: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write it as an SVG file."""
        path = Path(path)
        write_files(path.parent, {path.name: self.svg.encode()})


@dataclass(frozen=True)
class Bar:
    """One bar, with a label before and a text after it; `series` chooses the colour."""

    label: str
    value: float
    text: str
    series: int = 0


def bar_chart(
    title: str, description: str, groups: Mapping[str, Sequence[Bar]], largest: float | None = None
) -> Figure:
    """Horizontal bars in groups under their names.

    Args:
        groups: Name, or "", to bars.
        largest: What the full width stands for. None: the longest bar.
    """
    bars = [bar for group in groups.values() for bar in group]
    largest = largest or max((bar.value for bar in bars), default=0) or 1
    scale = (WIDTH - LABELS - 150) / largest
    svg = _drawing(title, description, ROW * (len(bars) + sum(1.5 if name else 0.5 for name in groups)))
    y = 0.0
    for name, group in groups.items():
        if name:
            y += ROW
            _text(svg, 0, y, name, "group")
        y += ROW / 2
        for bar in group:
            _bar(svg, y, bar, bar.value * scale)
            y += ROW
    return _figure(title, description, svg)


def _bar(svg: ElementTree.Element, y: float, bar: Bar, length: float) -> None:
    middle = y + ROW / 2 - 2
    _text(svg, LABELS - 8, middle, _shortened(bar.label), anchor="end")
    shape = {"x": LABELS, "y": y, "width": max(1.0, length), "height": ROW - 6, "rx": 2}
    _add(svg, "rect", **shape, fill=COLORS[bar.series % len(COLORS)])
    _text(svg, LABELS + max(1.0, length) + 6, middle, bar.text, "soft")


def line_chart(
    title: str, description: str, curves: Mapping[str, Sequence[Point]], x_label: str, y_label: str
) -> Figure:
    """Lines over a linear x and a logarithmic y; every y is 1 or more.

    x begins at 0 unless all points are far from it; y begins at 1.

    Args:
        curves: Name to points, by ascending x. The first is drawn last, on top.
    """
    x_max = max((x for points in curves.values() for x, _ in points), default=1)
    x_min = min((x for points in curves.values() for x, _ in points), default=0)
    x_min = x_min if x_min > x_max / 2 else 0
    y_max = max((y for points in curves.values() for _, y in points), default=1)
    decades = max(1, math.ceil(math.log10(y_max)))
    left, right, top, bottom = 66, WIDTH - 16, 26, LINES_HEIGHT - 44

    def place(x: float, y: float) -> Point:
        right_share, up_share = (x - x_min) / (x_max - x_min or 1), math.log10(y) / decades
        return left + right_share * (right - left), bottom - up_share * (bottom - top)

    svg = _drawing(title, description, LINES_HEIGHT)
    for decade in range(decades + 1):
        _, y = place(x_min, 10**decade)
        _line(svg, left, y, right, y, "grid" if decade else "axis")
        _text(svg, left - 8, y, _power_of_ten(decade), "soft", "end")
    for tick in _ticks(x_min, x_max):
        x, _ = place(tick, 1)
        _line(svg, x, bottom, x, bottom + 5, "axis")
        _text(svg, x, bottom + 16, f"{tick:,.0f}", "soft", "middle")
    _text(svg, (left + right) / 2, LINES_HEIGHT - 8, x_label, "soft", "middle")
    _text(svg, left, top - 14, y_label, "soft")
    for number, (name, points) in reversed([*enumerate(curves.items())]):
        stroke = {"stroke": COLORS[number % len(COLORS)], "stroke-dasharray": DASHES[number % len(DASHES)]}
        shown = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        _add(svg, "polyline", points=shown, **stroke)
        y = top + ROW * (number + 0.5)
        _add(svg, "polyline", points=f"{right - 190},{y:.1f} {right - 150},{y:.1f}", **stroke)
        _text(svg, right - 142, y, _shortened(name, 24))
    return _figure(title, description, svg)


def _power_of_ten(exponent: int) -> str:
    return f"{10**exponent:,}" if exponent < 6 else f"{10 ** (exponent % 3)}{'MGTPE'[exponent // 3 - 2]}"


def _ticks(smallest: float, largest: float) -> Iterator[float]:
    """Round numbers between the two, at most eleven."""
    extent = max(1, largest - smallest)
    power = 10 ** math.floor(math.log10(extent))
    step = next(step for step in (power / 5, power / 2, power) if step >= 1 and extent / step <= 10)
    for number in range(math.ceil(smallest / step), int(largest / step) + 1):
        yield number * step


def _drawing(title: str, description: str, height: float) -> ElementTree.Element:
    svg = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",  # a name, not a place: nothing is fetched from it
            "class": "hf-figure",
            "viewBox": f"0 0 {WIDTH} {height:g}",
            "role": "img",
            "aria-label": f"{title}. {description}",
        },
    )
    _add(svg, "style").text = _CSS
    return svg


def _figure(title: str, description: str, svg: ElementTree.Element) -> Figure:
    return Figure(title, description, ElementTree.tostring(svg, encoding="unicode"))


def _add(parent: ElementTree.Element, tag: str, **attributes: str | float) -> ElementTree.Element:
    written = {name: v if isinstance(v, str) else f"{v:.1f}" for name, v in attributes.items()}
    return ElementTree.SubElement(parent, tag, written)


def _line(parent: ElementTree.Element, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
    _add(parent, "line", x1=x1, y1=y1, x2=x2, y2=y2, **{"class": kind})


def _text(
    parent: ElementTree.Element, x: float, y: float, text: str, kind: str = "", anchor: str = "start"
) -> None:
    kinds = {"class": kind} if kind else {}
    placed = _add(parent, "text", x=x, y=y, **kinds, **{"text-anchor": anchor, "dominant-baseline": "middle"})
    placed.text = text


def _shortened(text: str, length: int = 18) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
