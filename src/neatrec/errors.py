"""Everything neatrec raises on purpose.

NeatrecError                    exit 1   something of ours failed
├── DivergedError               exit 1   training diverged; the message names the setting
├── GateError                   exit 3   a publish gate refused
└── InputError                  exit 2   the caller can fix it
    ├── SourceError                      a file, table or column cannot be read as asked
    ├── ParameterError                   an invalid argument
    ├── UnknownItemError                 an item id or name that the catalogue does not hold
    ├── LeakError                        training and evaluation share baskets
    ├── BundleError                      a bundle is damaged, cut off or of another version
    ├── ResourceError                    a memory limit, disk or cap is too small for the task
    └── MissingDependencyError           an extra is not installed

Each says which argument or which file and line, must be what, got what, and what to do next.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from numbers import Integral
from typing import Any, ClassVar

from neatrec.text import printable, without_passwords

__all__ = [
    "BundleError",
    "DivergedError",
    "GateError",
    "InputError",
    "LeakError",
    "MissingDependencyError",
    "NeatrecError",
    "ParameterError",
    "ResourceError",
    "SourceError",
    "UnknownItemError",
]

EXTRAS = {
    "serve": ("fastapi", "jinja2", "prometheus_client", "uvicorn"),
    "report": ("jinja2",),
    "als": ("implicit",),
    "database": ("adbc_driver_manager", "adbc_driver_postgresql"),
    "redis": ("redis",),
}
"""Extra of the package -> the modules it brings; a bare install has none of them."""


class NeatrecError(Exception):
    """The root of the family: catching it catches everything neatrec raises on purpose."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None, **where: Any) -> None:
        """`where` says where the fault lies: file, line, column, argument."""
        self.message = without_passwords(message)
        super().__init__(self.message)
        self.hint = None if hint is None else without_passwords(hint)
        self.where = {
            key: without_passwords(value) if isinstance(value, str) else value
            for key, value in where.items()
            if value is not None
        }

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message

    def to_dict(self) -> dict[str, Any]:
        """The error as `--json` prints it."""
        return {
            "error": {
                "kind": type(self).__name__,
                "message": self.message,
                "hint": self.hint,
                **self.where,
            }
        }


class DivergedError(NeatrecError):
    """Training produced NaN or a runaway variance."""


class GateError(NeatrecError):
    """A publish gate refused the new bundle; the live one stays."""

    exit_code = 3


class InputError(NeatrecError):
    """The caller can fix it: bad input, bad usage."""

    exit_code = 2


class SourceError(InputError):
    """A file, table or column cannot be read as asked."""


class ParameterError(InputError):
    """An invalid argument."""


class UnknownItemError(InputError):
    """An item id or name that the catalogue does not hold."""


class LeakError(InputError):
    """Training and evaluation share baskets."""


class BundleError(InputError):
    """A bundle or saved file is damaged, cut off or of another version."""


class ResourceError(InputError):
    """A memory limit, a disk or a cap is too small for the task."""


class MissingDependencyError(InputError):
    """An optional library is needed here and not installed."""


def require_extra(extra: str, task: str) -> None:
    """Refuse a task before it begins where the libraries of its extra are not installed."""
    missing = [module for module in EXTRAS[extra] if find_spec(module) is None]
    if missing:
        raise MissingDependencyError(
            f"{task} needs {', '.join(missing)}, not installed here",
            hint=f"pip install 'neatrec[{extra}]'",
        )


def must_be(argument: str, wanted: str, got: Any, *, hint: str | None = None) -> ParameterError:
    """The one sentence form for bad parameters.

    >>> str(must_be("level", "between 0 and 1", 5.0))
    '`level` must be between 0 and 1, got 5.0'
    """
    return ParameterError(
        f"`{argument}` must be {wanted}, got {printable(repr(got))}", argument=argument, hint=hint
    )


def bad_file(
    file: object,
    trouble: str,
    *,
    line: int | None = None,
    unit: str = "line",
    column: str | None = None,
    argument: str | None = None,
    hint: str | None = None,
) -> SourceError:
    """The one sentence form of errors about a file, a line or a column.

    >>> str(bad_file("orders.csv", "must be a number, got 'x'", line=3, column="pos"))
    "orders.csv, line 3, column 'pos': must be a number, got 'x'"
    >>> str(bad_file("orders.csv", "is empty"))
    'orders.csv is empty'
    """
    where = "" if line is None else f", {unit} {line:,}"
    where += "" if column is None else f", column {printable(repr(column))}"
    message = f"{printable(file)}{where}{':' if where else ''} {trouble}"
    return SourceError(
        message, file=str(file), line=line, column=column, argument=argument, hint=hint
    )


@contextmanager
def writing(what: str, place: object, hint: str | None = None) -> Iterator[None]:
    """A refusal of the system meanwhile, as a `ResourceError`: `what` cannot be written there."""
    try:
        yield
    except OSError as error:
        # PyArrow gives the number of the error, and words of its own
        reason = os.strerror(error.errno) if error.errno else printable(error)
        raise ResourceError(
            f"cannot write {what} {printable(place)}: {reason}", file=str(place), hint=hint
        ) from error


def require_whole(
    argument: str,
    value: Any,
    least: int = 1,
    most: int | None = None,
    *,
    or_none: bool = False,
    hint: str | None = None,
) -> Any:
    """`value`, which must be an integer from `least` to `most`; True is none.

    >>> require_whole("k", 0)
    Traceback (most recent call last):
    neatrec.errors.ParameterError: `k` must be an integer of at least 1, got 0
    """
    if or_none and value is None:
        return None
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if is_whole and least <= int(value) and (most is None or int(value) <= most):
        return int(value)
    bounds = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
    raise must_be(argument, f"{'None or ' * or_none}an integer {bounds}", value, hint=hint)


def must_be_one_of(argument: str, choices: Iterable[str], got: Any) -> ParameterError:
    """`must_be` for a choice, with the nearest choice as the next step.

    >>> str(must_be_one_of("protocol", ["calibrated", "paper"], "papr"))
    "`protocol` must be one of calibrated, paper, got 'papr'. Did you mean 'paper'?"
    """
    options = list(choices)
    return must_be(
        argument, f"one of {', '.join(options)}", got, hint=did_you_mean(str(got), options)
    )


def did_you_mean(given: str, choices: Iterable[str], otherwise: str | None = None) -> str | None:
    """The hint that names the nearest choice, where one is near."""
    from difflib import get_close_matches

    near = get_close_matches(given, list(choices), n=1, cutoff=0.5)
    return f"Did you mean {printable(near[0])!r}?" if near else otherwise
