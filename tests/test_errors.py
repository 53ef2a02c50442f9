import pytest

from neatrec.data import as_generator
from neatrec.errors import (
    InputError,
    ParameterError,
    SourceError,
    must_be,
)


def test_an_error_carries_its_place_and_next_step_into_json() -> None:
    error = SourceError(
        "no such column", hint="Use --item sku.", file="orders.csv", line=3, column=None
    )
    assert str(error) == "no such column. Use --item sku."
    assert error.to_dict() == {
        "error": {
            "kind": "SourceError",
            "message": "no such column",
            "hint": "Use --item sku.",
            "file": "orders.csv",
            "line": 3,
        }
    }
    assert isinstance(error, InputError)
    assert error.exit_code == 2


def test_bad_values_are_shown_without_their_control_characters() -> None:
    assert "\x1b" not in str(must_be("name", "text", "\x1b[31m"))
    assert isinstance(must_be("level", "between 0 and 1", 5), ParameterError)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True])
def test_a_seed_that_is_none_is_refused(seed: object) -> None:
    with pytest.raises(ParameterError, match="`rng` must be an integer of at least 0"):
        as_generator(seed)
