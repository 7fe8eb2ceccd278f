"""The notebook among the examples, executed from its first cell to its last."""

import base64
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("matplotlib")

pytestmark = pytest.mark.thorough  # It starts a Java of its own.

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "films.ipynb"
PNG = b"\x89PNG\r\n\x1a\n"


def test_the_notebook_runs_and_draws(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    drawn = [
        output["data"]["image/png"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(drawn) == 1
    assert base64.b64decode(drawn[0]).startswith(PNG)
