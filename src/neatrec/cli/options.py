"""Options that several commands share: SOURCE and its description, the engine that counts.

A command names a group of options by a parameter of the group's type; `with_groups` replaces that
parameter by the group's options on the command line and hands the command one object. `panel` of a
group is its heading in `--help`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
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
    from neatrec.data.baskets import Baskets

STRATA_HELP = (
    "Strata of the evidence: size, month, columns such as store. "
    "Default: size,month,store if the orders have them."
)


def option(default: Any, *names: str, **how: Any) -> Any:
    """A field of a group: its default, and the option as `typer.Option` takes it."""
    return field(default=default, metadata={"typer": typer.Option(*names, **how)})


def argument(**how: Any) -> Any:
    """A required argument as a field of a group, as `typer.Argument` takes it."""
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

    def described(self, strata: Sequence[str] | None) -> SourceOptions:
        """The options of SOURCE, with the strata that are columns as attributes of a basket."""
        from neatrec.cooccurrence.strata import BUILT_IN

        columns = tuple(name for name in strata or () if name not in BUILT_IN)
        return replace(self.options, attributes=columns)

    def read(self, strata: Sequence[str] | None = None) -> Baskets:
        """The baskets of SOURCE."""
        from neatrec.io.read import load

        return load(self.source, self.described(strata)).baskets


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

        engine = Engine(self.engine, threads)
        if engine.on_spark:
            from neatrec.cooccurrence.spark import connect

            connect(self.spark_master, threads=threads)
        elif self.spark_master is not None:
            raise must_be("--spark-master", "given with --engine spark", self.spark_master)
        return engine


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


SAME_CATEGORY: Any = typer.Option(
    None,
    metavar="last|exclude|mix",
    help="Position of answers from the item's own category. Default: as trained, or last.",
)
K: Any = typer.Option(10, "-k", help="Number of answers per item or cart.", min=1)
MIN_EVIDENCE: Any = typer.Option(
    None,
    metavar="certain|likely|guess",
    help="Lowest grade of an answer. Default: likely; for an item without buyers, category.",
)
"""Options of the commands that answer."""


def output_file(path: Path | None, source: str) -> Path | None:
    """A file for a table, refused before any work if it cannot be written or is read."""
    if path is None:
        return None
    if path.suffix not in (".parquet", ".csv") or path.is_dir():
        raise must_be("--out", "a file ending in .parquet or .csv", str(path))
    folder = Path(source).resolve()
    files = {Path(match).resolve() for match in [source, *glob(source)]}
    if path.exists() and (path.resolve() in files or folder in path.resolve().parents):
        hint = "Choose another name."
        raise must_be("--out", "none of the files that are read", str(path), hint=hint)
    _require_writable(path.parent, path, "a file that can be written")
    return path


def output_folder(path: Path) -> Path:
    """A folder for output, made if needed, refused before any work if it cannot be written."""
    _require_writable(path, path, "a folder that can be written", make=True)
    return path


def _require_writable(folder: Path, out: Path, wanted: str, *, make: bool = False) -> None:
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise must_be("--out", f"{wanted} ({error.strerror})", str(out)) from error


def strata_names(strata: list[str] | None) -> tuple[str, ...] | None:
    """The names of `--strata`, each entry one or several; None: the default."""
    from neatrec.cooccurrence.strata import parse_strata

    if strata is None:
        return None
    return parse_strata(split_list(strata)) or ()


def split_list(entries: list[str] | None) -> list[str]:
    """The names of a repeatable option whose values may hold several, with commas between."""
    names = (name.strip() for entry in entries or () for name in entry.split(","))
    return [name for name in names if name]


COMMAND_LINE_TYPES: dict[str, Any] = {
    "columns": list[str] | None,
    "file": Path | None,
    "query": Path | None,
    "flag": bool,
}
"""The type that typer parses for an `OptionInfo` of each kind; text for the others."""


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
    """A parameter for each field of a group, with its option of the command line."""
    hints = get_type_hints(group)
    flat: list[inspect.Parameter] = []
    for entry in fields(group):
        hint, default = hints[entry.name], entry.default
        info: OptionInfo | None = entry.metadata.get("info")
        if is_dataclass(hint):
            flat += _parameters_of(hint, show_source_options)
            continue
        if info is not None:
            if info.panel is None:
                continue
            hint, default = _described(entry.name, info, show_source_options)
        else:
            shown = copy(entry.metadata["typer"])
            shown.rich_help_panel = shown.rich_help_panel or getattr(group, "panel", None)
            hint = Annotated[hint, shown]
        default = inspect.Parameter.empty if default is MISSING else default
        kind = inspect.Parameter.KEYWORD_ONLY
        flat.append(inspect.Parameter(entry.name, kind, default=default, annotation=hint))
    return flat


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
    """The group, made from its values, which are taken out of `values`."""
    arguments = {}
    for name, hint in get_type_hints(group).items():
        if is_dataclass(hint):
            arguments[name] = _built(hint, values)
        elif name in values:
            arguments[name] = values.pop(name)
    return group(**arguments)
