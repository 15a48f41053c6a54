"""What is written about the package holds: types and style, as far as the programs are there that check it, and its documentation."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import latscope

PYTHON = Path(__file__).parents[1]
NOTEBOOKS = PYTHON.parent / "docs" / "notebooks"


@pytest.mark.parametrize(
    "words", [["mypy", "--strict", "latscope"], ["ruff", "check", "."], ["ruff", "format", "--check", "."]]
)
def test_sources(words: list[str], tmp_path: Path) -> None:
    if not importlib.util.find_spec(words[0]):
        pytest.skip(f"Python lacks {words[0]}")
    cache = ["--cache-dir", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, "-m", *words, *cache], cwd=PYTHON, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_stubs_name_what_is_there() -> None:
    native = sys.modules["latscope._native"]
    stubs = (PYTHON / "latscope" / "_native.pyi").read_text(encoding="utf-8")
    for name in ("Capture", "Trace", "Series", "Stream"):
        methods = [method for method in vars(getattr(native, name)) if not method.startswith("_")]
        assert methods and all(f"def {method}(" in stubs for method in methods)
    assert latscope.__version__ == native.__version__


def test_the_page_about_notebooks_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (PYTHON.parent / "docs" / "how-to" / "notebook.md").read_text(encoding="utf-8")
    before_spark = text.partition("## Spark")[0]
    code = [line[4:] for line in before_spark.splitlines() if line.startswith("    ")]
    shutil.copy(PYTHON.parent / "testdata" / "perf_script" / "story_2s.txt.gz", tmp_path / "perf.data")
    monkeypatch.chdir(tmp_path)
    run = [line for line in code if not line.startswith(("make ", "pip "))]
    assert len(run) > 8
    exec(compile("\n".join(run), "notebook.md", "exec"), {})
    assert (tmp_path / "latency.svg").read_text(encoding="utf-8").startswith("<svg")


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
