"""The public front is complete, sorted and real."""

import pytest

import neatrec


def test_every_public_name_exists_and_says_what_it_is() -> None:
    for name in neatrec.__all__:
        thing = getattr(neatrec, name)
        if name != "__version__":
            assert (thing.__doc__ or "").strip(), f"{name} has no docstring"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = neatrec.no_such_thing
