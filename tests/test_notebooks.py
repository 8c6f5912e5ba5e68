"""The notebooks run from start to end, and show what they would show if they were run now."""

import importlib
import json
import re
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
    """For each cell of code what it shows: printed text, tables, and what pictures say of themselves."""
    return [
        "".join(text for output in cell["outputs"] for text in texts(output))
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def texts(output):
    data = output.get("data", {})
    if "image/svg+xml" in data:
        yield ElementTree.fromstring("".join(data["image/svg+xml"])).get("aria-label")
    for text in (output.get("text", ""), data.get("text/markdown", ""), data.get("text/plain", "")):
        yield "".join(text)


def test_there_are_three():
    assert NOTEBOOKS == ["01_train_and_use.ipynb", "02_what_scaffolds_are.ipynb", "03_paper_tables.ipynb"]


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
