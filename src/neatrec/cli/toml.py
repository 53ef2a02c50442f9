"""Training settings from a TOML file; an unknown key is an error with a suggestion."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neatrec.errors import ParameterError, SourceError
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.training.train import ModelChoice


def read_toml(path: Path) -> dict[str, Any]:
    """The file's tables; a file that is none is named with the line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceError(f"cannot read {printable(path)}: {error.strerror}", file=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"{printable(path)} is not TOML: {printable(error)}", file=str(path)) from error


def read_training_toml(path: Path) -> ModelChoice:
    """`model`, `preset` and a `[parameters]` table."""
    from pydantic import BaseModel, ConfigDict, ValidationError

    from neatrec.training.train import ModelChoice

    class TrainingFile(BaseModel):
        model_config = ConfigDict(extra="forbid")
        model: str | None = None
        preset: str | None = None
        parameters: dict[str, Any] = {}

    try:
        file = TrainingFile.model_validate(read_toml(path))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ParameterError(
            f"{printable(path)}: key {printable(key)!r}: {printable(first['msg'])}",
            file=str(path),
            hint="The file may hold model, preset and a [parameters] table.",
        ) from error
    return ModelChoice(model=file.model, preset=file.preset, parameters=file.parameters)
