"""The notebooks in `examples` run from top to bottom, and what their cells end with can be shown."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def run_cell(source: str, names: dict[str, Any]) -> str:
    """Run a cell as a notebook does: what its last line shows, as HTML where it has some."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    shown = None if last is None else eval(compile(last, "cell", "eval"), names)
    html = shown._repr_html_() if hasattr(shown, "_repr_html_") else None  # a figure has none outside of a notebook
    return html or repr(shown)


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cells = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    shown = [run_cell("".join(cell["source"]), names) for cell in cells]
    assert sum("<table" in text for text in shown) >= 3
    assert all(cell["outputs"] == [] for cell in cells)  # committed without outputs


def test_the_first_notebooks_are_there() -> None:
    assert {"quickstart", "own_orders"} <= {file.stem for file in NOTEBOOKS}
