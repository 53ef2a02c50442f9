"""Options that several commands share: SOURCE and its description, the engine that counts.

A command names a group of options by a parameter of the group's type; `with_groups` replaces that
parameter by the group's options on the command line and hands the command one object. `panel` of a
group is its heading in `--help`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import wraps
from glob import glob
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from neatrec.errors import ParameterError, must_be
from neatrec.io.addresses import holds_password
from neatrec.io.options import OptionInfo, SourceOptions

if TYPE_CHECKING:
    from neatrec.cooccurrence import Engine
    from neatrec.io.read import LoadedSource

STRATA_HELP = (
    "Strata of the evidence: size, month, columns such as store. "
    "Default: size,month,store where known."
)


def option(default: Any, *names: str, **how: Any) -> Any:
    """A field of a group: its default, and the option as `typer.Option` takes it."""
    return field(default=default, metadata={"typer": typer.Option(*names, **how)})


def argument(**how: Any) -> Any:
    """A field of a group that is a required argument, as `typer.Argument` takes it."""
    return field(metadata={"typer": typer.Argument(**how)})


@dataclass(frozen=True)
class SourceArguments:
    """The SOURCE argument and the options that describe it."""

    source: str = argument(
        metavar="SOURCE",
        help="Orders: file, folder or glob (CSV, Parquet, JSON lines, Arrow), "
        "postgresql://HOST/NAME, Instacart folder, source.toml, supermarket[:key=value,...], "
        "complete-journey. `neatrec check --help` lists the options that describe it.",
        show_default=False,
    )
    options: SourceOptions = field(default_factory=SourceOptions)

    def read(self, attributes: tuple[str, ...] = ()) -> LoadedSource:
        """The baskets of SOURCE, with the named columns as attributes."""
        from neatrec.io.read import load

        return load(self.source, replace(self.options, attributes=attributes))


@dataclass(frozen=True)
class EngineArguments:
    """The engine that counts pairs."""

    panel = "Counting"
    engine: str = option("memory", metavar="memory|spark", help="Engine that counts pairs.")
    spark_master: str | None = option(
        None, metavar="URL", help="Spark cluster. Default: SPARK_MASTER, or this machine."
    )

    def start(self, threads: int | None = None) -> Engine:
        """The engine, and with --engine spark a session, before anything is read."""
        from neatrec.cooccurrence import Engine

        found = Engine(self.engine, threads)
        if found.on_spark:
            from neatrec.cooccurrence.spark import connect

            connect(self.spark_master, threads=threads)
        elif self.spark_master is not None:
            raise must_be("--spark-master", "given with --engine spark", self.spark_master)
        return found


THREADS: dict[str, Any] = {
    "metavar": "N",
    "help": "Number of threads. Default: all cores.",
    "min": 1,
    "max": 1024,
}


def require_device(device: str) -> None:
    """Refuse `gpu` where there is none, before anything is read."""
    if device == "gpu":
        from neatrec.models.embeddings.kernels.gpu import cupy

        cupy()


def same_category_option(whose: str) -> Any:
    """`--same-category` of the commands that answer."""
    return typer.Option(
        None,
        metavar="last|exclude|mix",
        help=f"Place of answers of the {whose} own category. Default: as trained, or last.",
    )


def output_file(path: Path | None, endings: tuple[str, ...], source: str) -> Path | None:
    """`path`, refused before any work where it cannot be written or is one of the files to read."""
    if path is None:
        return None
    if path.suffix not in endings or path.is_dir():
        raise must_be("--out", f"a file ending in {' or '.join(endings)}", str(path))
    if _is_read(path, source):
        hint = "Choose another name."
        raise must_be("--out", "none of the files that are read", str(path), hint=hint)
    probe = path.with_name(f".{path.name}.part")
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        wanted = f"a file that can be written ({error.strerror})"
        raise must_be("--out", wanted, str(path)) from error
    return path


def _is_read(path: Path, source: str) -> bool:
    if not path.exists():
        return False
    try:
        if Path(source).is_dir():
            return path.resolve().is_relative_to(Path(source).resolve())
        return path.resolve() in {Path(match).resolve() for match in [source, *glob(source)]}
    except OSError:
        # the reader refuses such a SOURCE with its own sentence
        return False


def output_folder(path: Path) -> Path:
    """`path`, refused before any work where no file can be written into it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            pass
    except OSError as error:
        wanted = f"a folder that can be written ({error.strerror})"
        raise must_be("--out", wanted, str(path)) from error
    return path


def parse_strata(strata: list[str] | None) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The names of `--strata` (None: the default), and those that are columns of the source."""
    from neatrec.cooccurrence import strata as strata_module

    if strata is None:
        return None, ()
    names = (name.strip() for entry in strata for name in entry.split(","))
    named = strata_module.parse_strata([name for name in names if name]) or ()
    return named, tuple(name for name in named if name not in strata_module.BUILT_IN)


COMMAND_LINE_TYPES: dict[str, Any] = {
    "columns": list[str] | None,
    "file": Path | None,
    "query": Path | None,
    "flag": bool,
}
"""What typer parses for an `OptionInfo` of each kind; text for the others."""


def with_groups(
    command: Callable[..., Any], *, show_source_options: bool = False
) -> Callable[..., Any]:
    """`command` with each parameter whose type is a dataclass replaced by an option per field.

    Fields carry their options by `option` or `argument`, or an `OptionInfo`; a field may be a group
    itself. The options that describe SOURCE are in the help of one command and hidden in others.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if name != "return" and is_dataclass(kind)}
    flat: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            flat += _parameters_of(groups[name], show_source_options)
        else:
            flat.append(
                parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            )

    @wraps(command)
    def call(**values: Any) -> Any:
        for name, value in values.items():
            _refuse_login(name, value)
        for name, kind in groups.items():
            values[name] = _built(kind, values)
        return command(**values)

    call.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    del call.__wrapped__  # inspect would look through to the grouped signature
    return call


def _refuse_login(name: str, value: Any) -> None:
    """An error for a path written like user:password@host, which would be printed."""
    for path in value if isinstance(value, list) else [value]:
        if isinstance(path, Path) and holds_password(str(path)) and not os.path.exists(path):
            hint = "A password would be shown to others. Choose another name."
            message = f"`{name}` must be a path on this machine, not a login"
            raise ParameterError(message, argument=name, hint=hint)


def _parameters_of(group: Any, show_source_options: bool) -> list[inspect.Parameter]:
    hints = get_type_hints(group)
    found: list[inspect.Parameter] = []
    for entry in fields(group):
        hint, default = hints[entry.name], entry.default
        info: OptionInfo | None = entry.metadata.get("info")
        if is_dataclass(hint):
            found += _parameters_of(hint, show_source_options)
            continue
        if info is not None and info.panel is None:
            continue
        if info is not None:
            hint, default = _described(entry.name, info, show_source_options)
        elif "typer" in entry.metadata:
            shown = copy(entry.metadata["typer"])
            shown.rich_help_panel = shown.rich_help_panel or getattr(group, "panel", None)
            hint = Annotated[hint, shown]
        default = inspect.Parameter.empty if default is MISSING else default
        kind = inspect.Parameter.KEYWORD_ONLY
        found.append(inspect.Parameter(entry.name, kind, default=default, annotation=hint))
    return found


def _described(name: str, info: OptionInfo, show: bool) -> tuple[Any, Any]:
    """The annotation and the default of an option that describes SOURCE."""
    is_flag = info.kind == "flag"
    shown = typer.Option(
        # a flag has no --no-... beside it
        *([f"--{name.replace('_', '-')}"] if is_flag else []),
        metavar=info.metavar or None,
        help=info.help,
        # hidden options are not completed either, so a shell that asks gets them all
        hidden=not show and "_NEATREC_COMPLETE" not in os.environ,
        rich_help_panel=info.panel,
    )
    kind = COMMAND_LINE_TYPES.get(info.kind, str | None)
    return Annotated[kind, shown], False if is_flag else None


def _built(group: Any, values: dict[str, Any]) -> Any:
    hints = get_type_hints(group)
    chosen = {}
    for entry in fields(group):
        if is_dataclass(hints[entry.name]):
            chosen[entry.name] = _built(hints[entry.name], values)
        elif entry.name in values:
            chosen[entry.name] = values.pop(entry.name)
    return group(**chosen)
