"""The numbers printed in the paper, with their table numbers."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def paper_numbers() -> dict[str, Any]:
    """Tables and constants of the paper, read from `paper_numbers.json`.

    >>> paper_numbers()["label_counts"]["INS-E"]["0.05"]
    7961
    """
    text = files("neatrec.reproduction").joinpath("published.json").read_text(encoding="utf-8")
    numbers: dict[str, Any] = json.loads(text)
    return numbers
