import numpy as np
import pytest

from neatrec.data import as_generator, children, kernel_seed
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


def test_a_seed_and_its_generator_give_the_same_numbers() -> None:
    assert as_generator(7).integers(1000) == as_generator(np.random.default_rng(7)).integers(1000)
    assert as_generator(None).integers(1000) == as_generator(0).integers(1000)
    first, second = (kernel_seed(child) for child in children(3, 2))
    assert first != second


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True])
def test_a_seed_that_is_none_is_refused(seed: object) -> None:
    with pytest.raises(ParameterError, match="`rng` must be an integer of at least 0"):
        as_generator(seed)
