"""docs/quickstart.ipynb runs completely in its own Ray session."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from nanotok_ray.job.journal import read_journal
from nanotok_ray.storage import Folder
from tests.support.machine_speed import scaled

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "quickstart.ipynb"


def test_the_notebook_runs_and_is_stored_without_results(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=round(scaled(120)), resources=resources).execute()
    shown = "".join(
        output.get("text", "") or output["data"]["text/plain"]
        for cell in code
        for output in cell.outputs
        if output.output_type in {"stream", "execute_result"}
    )
    assert "((4, 256), dtype('int32'))" in shown
    assert "tokenize (4 of 5): done in " in shown
    assert read_journal(Folder(str(tmp_path / "quickstart/out"))).head.executor == "ray"
