"""The notebooks run from start to end, and show what they would show if they were run now."""

import importlib
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


@pytest.fixture(scope="module")
def runner():
    """The module of notebooks/run.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("run")


def stored(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def shown(notebook):
    """For each cell of code what it shows: printed text, tables and pictures."""
    return [
        "".join(text for output in cell["outputs"] for text in texts(output))
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def texts(output):
    yield "".join(output.get("text", ""))
    for kind in ("image/svg+xml", "text/markdown", "text/html", "text/plain"):
        yield "".join(output.get("data", {}).get(kind, ""))


def test_the_readme_lists_them():
    prose = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 9
    assert re.findall(r"^\| \[.+?\]\((\S+)\)", prose, re.MULTILINE) == NOTEBOOKS


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_fresh_run_shows_what_is_stored(name, runner):
    fresh = json.loads(json.dumps(runner.run(FOLDER / name)))
    assert shown(fresh) == shown(stored(name))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_stored_outputs_tell_nothing_of_who_ran_them(name):
    outputs = [o for cell in stored(name)["cells"] for o in cell.get("outputs", [])]
    assert outputs
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert not [output for output in outputs if output.get("name") == "stderr"]
    told = re.sub(r"http://www\.w3\.org/2000/svg", "", json.dumps(outputs))
    assert not re.search(r"(?<![\w.])/(home|root|tmp|usr|opt|Users)/|site-packages|0x[0-9a-f]{6,}", told)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_lead_to_notebooks_that_are_there(name):
    prose = "".join("".join(cell["source"]) for cell in stored(name)["cells"])
    assert set(re.findall(r"\]\(([\w.]+\.ipynb)\)", prose)) <= set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS[3:8])  # the course
def test_each_exercise_awaits_an_answer_and_has_a_right_one(name):
    code = ["".join(cell["source"]) for cell in stored(name)["cells"] if cell["cell_type"] == "code"]
    outputs = shown(stored(name))
    exercises = [output for source, output in zip(code, outputs, strict=True) if "return None" in source]
    assert len(exercises) >= 3
    verdicts = "".join(exercises).splitlines()
    assert set(verdicts) == {"No answer yet."}
    assert outputs[-1].splitlines() == ["Right."] * len(verdicts)


def test_the_first_takes_ten_cells():
    assert len(shown(stored("01_train_and_use.ipynb"))) == 10
    assert all(shown(stored("01_train_and_use.ipynb")))


def test_a_cell_that_fails_is_an_error(runner, tmp_path):
    import nbformat
    from nbclient.exceptions import CellExecutionError

    path = tmp_path / "broken.ipynb"
    cell = nbformat.v4.new_code_cell("raise ValueError('no such corpus')")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    with pytest.raises(CellExecutionError, match="no such corpus"):
        runner.run(path)


@pytest.fixture
def drawing():
    """The module of notebooks/drawing.py, which has drawn nothing yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        patch.delitem(sys.modules, "drawing", raising=False)
        yield importlib.import_module("drawing")


def test_answers_are_checked(drawing, capsys):
    drawing.check(None, 1)
    drawing.check(1, 1)
    assert capsys.readouterr().out == "No answer yet.\nRight.\n"
    with pytest.raises(AssertionError, match="2 is not right"):
        drawing.check(2, 1)


def test_drawings_spell_every_token(drawing):
    assert repr(drawing.tokens(["<b>", "&"], {"&"})) == "<b> [&]"
    cell = drawing.tokens(["<b>"], note=5)
    shown = drawing.table(["a", "b<"], [[cell, "<i>"]])
    assert repr(shown) == "a | b<\n<b> 5 | <i>"
    table = ElementTree.fromstring(shown.html)
    assert ["".join(cell.itertext()) for cell in table.iter("td")] == ["<b> 5", "<i>"]


def test_a_tree_stands_on_its_symbols(drawing):
    picture = drawing.trees(["hug<"], {"ug": ("u", "g"), "hug": ("h", "ug"), "hug<": ("hug", "<")}, {"ug"})
    assert repr(picture) == "hug< = ((h (u g)) <)"
    svg = ElementTree.fromstring(picture.svg)
    boxes = [element for element in svg if element.tag.endswith("rect")]
    labels = [element.text for element in svg if element.tag.endswith("text")]
    heights = {label: float(box.get("y")) for label, box in zip(labels, boxes, strict=True)}
    assert heights["hug<"] < heights["hug"] < heights["ug"] < heights["u"] == heights["<"]
    assert [label for label, box in zip(labels, boxes, strict=True) if box.get("stroke-dasharray")] == ["ug"]


def test_a_lattice_puts_tokens_below_their_letters(drawing):
    picture = drawing.lattice("ab", {(0, 1): "1", (1, 2): "2", (0, 2): "3"}, best=[(0, 2)])
    assert repr(picture) == "a 1, b 2, ab* 3"
    svg = ElementTree.fromstring(picture.svg)
    a, b, ab = (element for element in svg if element.tag.endswith("rect"))
    assert a.get("y") == b.get("y") != ab.get("y")
    assert a.get("x") == ab.get("x") != b.get("x")


def test_a_token_keeps_its_colour_and_symbols_are_grey(drawing):
    first = [drawing.ground(token) for token in ("ug", "un", "##gs", "▁h", "ug")]
    assert len(set(first)) == 4
    assert first[0] == first[-1]
    assert {drawing.ground(symbol) for symbol in ("u", "##u", "▁", "#")} == {drawing.SYMBOL}
