"""The figures: what they draw is what was measured, and tokens stay text."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import hf_scaffold as hs
from hf_scaffold.report.figures import frequency_curve
from hf_scaffold.report.svg import Bar, _ticks, bar_chart, line_chart

SVG = "{http://www.w3.org/2000/svg}"
BARS_BEGIN = 150


def elements(figure, tag):
    return list(ElementTree.fromstring(figure.svg).iter(SVG + tag))


def texts(figure):
    return [element.text for element in elements(figure, "text")]


def test_bars_are_as_long_as_their_values():
    figure = bar_chart(
        "t", "d", {"": [Bar("a", 1, "one"), Bar("b", 4, "four", 1)], "more": [Bar("c", 2, "two")]}
    )
    widths = [float(bar.get("width")) for bar in elements(figure, "rect")]
    assert widths[1] == pytest.approx(4 * widths[0], abs=0.2)
    assert widths[2] == pytest.approx(2 * widths[0], abs=0.2)
    assert texts(figure) == ["a", "one", "b", "four", "more", "c", "two"]
    colors = [bar.get("fill") for bar in elements(figure, "rect")]
    assert colors[0] == colors[2] != colors[1]


def test_standalone_shares_are_drawn_against_all_occurrences():
    rows = [hs.Standalone("ing", 50, 100), hs.Standalone("zona", 0, 70)]
    figure = hs.figure_standalone({"normal": rows[:1], "scaffold": rows[1:]})
    ing, zona = (float(bar.get("width")) for bar in elements(figure, "rect"))
    half = (720 - BARS_BEGIN - 150) / 2
    assert ing == pytest.approx(half, abs=0.1)
    assert zona == 1  # to be seen at all
    assert texts(figure) == ["normal", "ing", "50.0 %, 50 of 100", "scaffold", "zona", "0.0 %, 0 of 70"]


def test_lines_fall_by_decades():
    figure = line_chart("t", "d", {"one": [(0, 1000), (5, 10), (10, 1)]}, "x", "y")
    line, _ = elements(figure, "polyline")
    points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x2 - x1 == pytest.approx(x1 - x0, abs=0.2)
    assert y1 - y0 == pytest.approx(2 * (y2 - y1), abs=0.2)
    assert {"1", "10", "100", "1,000"} <= set(texts(figure))


def test_lines_can_be_told_apart_without_colours():
    names = [f"tokenizer {i}" for i in range(7)]
    figure = line_chart("t", "d", {name: [(1, 9), (2, 1)] for name in names}, "x", "y")
    lines = elements(figure, "polyline")
    assert len({line.get("stroke-dasharray") for line in lines}) == len(names)
    assert len({line.get("stroke") for line in lines}) == len(names)
    assert set(names) <= set(texts(figure))


def test_a_frequency_curve_keeps_both_ends():
    frequencies = np.concatenate([np.arange(5000, 0, -1), np.zeros(3000, np.int64)])
    evaluation = hs.Evaluation("many", tuple(map(str, range(8000))), frequencies, n_bytes=1)
    curve = frequency_curve(evaluation, 100)
    assert 90 <= len(curve) <= 110
    assert [rank for rank, _ in curve] == sorted({rank for rank, _ in curve})
    assert {(1, 5000), (5000, 1), (5001, 0), (8000, 0)} <= set(curve)
    assert all(n == frequencies[rank - 1] for rank, n in curve)


def test_the_tail_of_a_frequency_curve_is_the_rarest_tokens():
    frequencies = np.concatenate([np.arange(5000, 0, -1), np.zeros(3000, np.int64)])
    evaluation = hs.Evaluation("many", tuple(map(str, range(8000))), frequencies, n_bytes=1)
    curve = frequency_curve(evaluation, 100, tail=0.5)
    assert curve[0] == (4001, 1000)
    assert {(5000, 1), (5001, 0), (8000, 0)} <= set(curve)
    assert all(n == frequencies[rank - 1] for rank, n in curve)


def test_the_tail_fills_its_figure():
    evaluation = hs.Evaluation("many", tuple(map(str, range(1000))), np.arange(1000, 0, -1), n_bytes=1)
    whole, tail = (hs.figure_frequencies([evaluation], tail=share) for share in (1, 0.1))
    ends = []
    for figure in (whole, tail):
        line, _ = elements(figure, "polyline")
        points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        ends.append((points[0][0], points[-1][0]))
    assert ends[0] == pytest.approx(ends[1], abs=1)
    assert {"1,000", "900", "920"} & set(texts(tail)) == {"1,000", "920"}
    assert "rarest 10 %" in tail.title


@pytest.mark.parametrize("smallest", [0, 1, 1234, 90_001])
def test_an_axis_of_any_length_has_some_ticks(smallest):
    """From 91 to 99, 901 to 999 and so on, there once was an error."""
    for extent in [*range(1, 2000), *range(9_000, 10_100, 7), 95_000, 999_999]:
        ticks = [*_ticks(smallest, smallest + extent)]
        assert (2 if extent > 3 else 1) <= len(ticks) <= 11
        assert all(smallest <= tick <= smallest + extent and tick % 1 == 0 for tick in ticks)
        assert len({after - before for before, after in pairwise(ticks)}) <= 1


def test_the_gain_is_in_the_figure():
    change = hs.VocabularyChange(("a",), ("b", "c"), np.array([4]), np.array([9, 3]))
    figure = hs.figure_gain({"8,000": change})
    assert texts(figure) == ["8,000", "1 removed", "4.0", "2 added", "6.0 (+50.0 %)"]
    removed, added = (float(bar.get("width")) for bar in elements(figure, "rect"))
    assert added == pytest.approx(1.5 * removed, abs=0.2)


@pytest.mark.parametrize(
    "figure",
    [
        hs.figure_gain({"": hs.VocabularyChange((), (), np.array([]), np.array([]))}),
        hs.figure_standalone({}),
        hs.figure_standalone({"none": []}),
        hs.figure_frequencies([]),
        hs.figure_frequencies([hs.Evaluation("empty", (), np.array([], np.int64), n_bytes=0)]),
        hs.figure_frequencies([hs.Evaluation("unused", ("a", "b"), np.array([0, 0]), n_bytes=0)]),
        hs.figure_frequencies([hs.Evaluation("one", ("a",), np.array([10**15]), n_bytes=0)]),
    ],
)
def test_there_may_be_nothing_to_draw(figure):
    assert ElementTree.fromstring(figure.svg).tag == SVG + "svg"
    assert not re.search(r"\bnan\b|\binf\b", figure.svg)


def test_tokens_stay_text_in_any_script():
    tokens = ["<b>&", "$x$", "日本", "Ġ'\"", "\n", "ĠпÑĢ"]
    figure = hs.figure_standalone({"<i>": [hs.Standalone(token, 1, 2) for token in tokens]})
    assert texts(figure)[0] == "<i>"
    assert texts(figure)[1::2] == ["<b>&", "$x$", "日本", "Ġ'\"", "\\n", "ĠпÑĢ"]


def test_long_names_are_shortened():
    figure = hs.figure_standalone({"": [hs.Standalone("a" * 60, 1, 2)]})
    assert texts(figure)[0] == "a" * 17 + "…"
    assert "a" * 60 in figure.description


def test_a_figure_says_what_it_shows():
    figure = hs.figure_standalone({"": [hs.Standalone("zona", 0, 50)]})
    svg = ElementTree.fromstring(figure.svg)
    assert svg.get("role") == "img"
    assert svg.get("aria-label") == f"{figure.title}. {figure.description}"
    assert figure._repr_svg_() == figure.svg


def test_a_figure_is_saved(tmp_path):
    figure = hs.figure_gain({})
    figure.save(tmp_path / "gain.svg")
    assert (tmp_path / "gain.svg").read_text(encoding="utf-8") == figure.svg
