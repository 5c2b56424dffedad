"""Every notebook runs from a clean kernel, and is kept with the outputs of a run."""

import re
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# A reader of the outputs is not shown where somebody's files lie.
MACHINE_PATH = re.compile(r"(?:/(?:home|root|tmp|work|Users|opt|mnt)/|[A-Z]:\\\\)")

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("nbclient", "nbformat", "ipykernel")),
    reason="needs ipykernel and nbclient",
)
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    import nbformat

    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def test_there_are_notebooks():
    assert NOTEBOOKS


@each
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::RuntimeWarning:zmq")
def test_it_runs_within_a_minute(path):
    from nbclient import NotebookClient

    client = NotebookClient(
        read(path), timeout=60, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    )
    start = time.monotonic()
    ran = client.execute()  # raises where a cell does
    assert time.monotonic() - start < 60
    assert [cell.execution_count for cell in code_cells(ran)] == list(range(1, len(code_cells(ran)) + 1))


@each
def test_its_outputs_are_kept_in_order_without_an_error_or_a_machine_path(path):
    cells = code_cells(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    texts = [str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", "")) for output in outputs]
    assert not [found.group() for text in texts if (found := MACHINE_PATH.search(text))]


@each
def test_it_is_a_valid_notebook_without_times_of_its_run(path):
    import nbformat

    notebook = read(path)
    nbformat.validate(notebook)
    assert not [cell.id for cell in notebook.cells if "execution" in cell.metadata]
