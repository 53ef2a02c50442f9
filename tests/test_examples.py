"""The notebooks in `examples` run from top to bottom and print the outputs they are kept with."""

import json
from pathlib import Path
from typing import Any

import pytest
from examples.__main__ import NOTEBOOKS, run

CUT = {"paper": 1}
"""Outputs that are compared: trained vectors differ in the last digits between machines."""


def texts(notebook: dict[str, Any]) -> list[str]:
    """The plain text of all outputs."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return ["".join(output.get("text") or output["data"]["text/plain"]) for output in outputs]


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_prints_its_outputs(file: Path) -> None:
    kept = json.loads(file.read_text())
    made, expected = texts(run(kept)), texts(kept)
    assert len(made) == len(expected) > 3
    cut = CUT.get(file.stem)
    assert made[:cut] == expected[:cut], "run `python -m examples`, and read what changed"
