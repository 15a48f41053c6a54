"""The notebooks of the documentation: what they assert holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(NOTEBOOKS)
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert sum("assert" in cell for cell in code) >= 2
    # Without a kernel, whose start takes longer than the cells; "make notebooks" has one.
    names: dict[str, object] = {}
    for cell in code:
        exec(compile(cell, notebook.name, "exec"), names)
    assert notebook.with_suffix(".html").stat().st_size < 1_000_000
