"""Run the notebooks and store their outputs.

    python notebooks/run.py                                   # all of them
    python notebooks/run.py notebooks/01_train_and_use.ipynb

Each runs from start to end, in a kernel of this very Python and in an empty folder; what it writes there is
gone afterwards. It may import what is beside it: drawing.py. Stored outputs hold no times, paths or warnings:
the same code stores the same file.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def run(path: Path) -> Any:
    """The notebook with the outputs of a fresh run.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised an error; the message shows it.
    """
    notebook = nbformat.read(path, as_version=4)
    search_path = filter(None, [str(FOLDER.resolve()), os.environ.get("PYTHONPATH")])
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        ).execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(search_path)})
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in code_cells(notebook):
        cell.metadata = nbformat.from_dict({})
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            keep_picture(output)
    return notebook


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def keep_picture(output: Any) -> None:
    """What is shown as a picture needs no second form as text."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        data.pop("text/plain", None)


def main(paths: list[str]) -> None:
    for path in map(Path, paths) if paths else sorted(FOLDER.glob("*.ipynb")):
        notebook = run(path)
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
