"""The notebook: its cells are run in order."""

import json

import pytest

from tests.support.sources import ROOT

NOTEBOOK = ROOT / "examples" / "state.ipynb"


def test_every_cell_of_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = ["".join(each["source"]) for each in book["cells"] if each["cell_type"] == "code"]
    names: dict[str, object] = {}
    for number, cell in enumerate(cells, 1):
        exec(compile(cell, f"cell {number} of {NOTEBOOK.name}", "exec"), names)
    assert len(cells) == 5
    assert len(names["producers"]) == 6  # type: ignore[arg-type]
    assert names["lag"].num_rows == 2  # type: ignore[attr-defined]
    assert all(each["outputs"] == [] for each in book["cells"] if "outputs" in each)
