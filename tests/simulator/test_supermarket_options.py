"""Keys and values of `supermarket:key=value,...`, and errors."""

import re

import pytest

from neatrec.errors import ParameterError
from neatrec.simulator import parse_supermarket_spec, supermarket


def test_the_bare_name_means_all_defaults() -> None:
    assert parse_supermarket_spec("supermarket") == parse_supermarket_spec("supermarket:") == {}


def test_keys_and_values_become_arguments() -> None:
    spec = "supermarket:baskets=5_000, items=800,households=90,stores=4,seed=3,strength=0.5"
    assert parse_supermarket_spec(spec) == {
        "baskets": 5_000, "items": 800, "households": 90, "stores": 4, "seed": 3, "strength": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("market", "`source` must be `supermarket` or `supermarket:key=value,...`, got 'market'"),
        ("supermarket:basket=5", "got 'basket'. Did you mean 'baskets'?"),
        ("supermarket:\x1b[31m=5", r"got '\x1b[31m'"),
        ("supermarket:baskets", "`supermarket:baskets` must be followed by a value"),
        ("supermarket:seed=1,seed=2", "`supermarket:seed` must be given once"),
        ("supermarket:items=many", "`supermarket:items` must be an integer, got 'many'"),
        ("supermarket:strength=nan", "`strength` must be a number from 0"),
        ("supermarket:items=12", "`items` must be an integer from 60 to 1,000,000, got 12"),
        ("supermarket:baskets=10,households=11", "`households` must be an integer from 1 to 10"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_sentence(spec: str, message: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(message)):
        supermarket(**parse_supermarket_spec(spec))


def test_arguments_from_python_are_checked_alike() -> None:
    with pytest.raises(ParameterError, match="`threads` must be an integer of at least 1, got 0"):
        supermarket(baskets=10, items=60, threads=0)
