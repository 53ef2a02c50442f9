"""The examples in docstrings are true."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # some fit models
ROOT = Path(__file__).parents[1]


def modules_with_examples() -> list[str]:
    found = [(root, file) for root in (ROOT / "src", ROOT) for file in root.glob("[bn]*/**/*.py")]
    places = [file.relative_to(root) for root, file in found if ">>> " in file.read_text()]
    return sorted(".".join(place.with_suffix("").parts) for place in places)


@pytest.mark.parametrize("module", modules_with_examples())
def test_the_examples_of_a_docstring_are_true(module: str) -> None:
    assert not doctest.testmod(import_module(module.removesuffix(".__init__"))).failed
