"""Run the notebooks of this folder and keep their outputs: `python -m examples`."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOKS = sorted(Path(__file__).parent.glob("*.ipynb"))
Notebook = dict[str, Any]


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a cell, as a notebook keeps them: the text printed, then the last value."""
    if source.startswith("!neatrec "):
        words = [sys.executable, "-m", "neatrec", *source.removeprefix("!neatrec ").split()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
        return _stream(done.stdout)
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(last, "cell", "eval"), names)
    if value is None:
        return _stream(printed.getvalue())
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    shown = {"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}
    return [*_stream(printed.getvalue()), shown]


def _stream(text: str) -> list[dict[str, Any]]:
    lines = text.splitlines(keepends=True)
    return [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []


def run(notebook: Notebook) -> Notebook:
    """The notebook with the outputs of a run in an empty folder."""
    names: dict[str, Any] = {}
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            cells = [
                {**cell, "outputs": run_cell("".join(cell["source"]), names)}
                if cell["cell_type"] == "code"
                else cell
                for cell in notebook["cells"]
            ]
        finally:
            os.chdir(before)
    return {**notebook, "cells": cells}


if __name__ == "__main__":
    for file in NOTEBOOKS:
        made = run(json.loads(file.read_text()))
        file.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
        print(file.name)
