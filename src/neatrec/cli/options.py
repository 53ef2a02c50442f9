"""Options that several commands share, written once: SOURCE and what describes it, the engine that counts.

A command names a group of options by a parameter of the group's type; `with_groups` replaces that parameter by the
group's options on the command line and hands the command one object. `panel` of a group is its heading in `--help`.
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

from neatrec.errors import must_be, must_be_one_of
from neatrec.io.options import OptionInfo, SourceOptions
from neatrec.text import parse_size, printable

if TYPE_CHECKING:
    from neatrec.io.read import LoadedSource

ENGINES = ("auto", "memory", "disk", "spark")
STRATA_HELP = (
    "Measure evidence within baskets of one size, month, or value of a column such as store. Default: "
    "size,month,store, as far as SOURCE has them."
)
HALF_LIFE_HELP = (
    "Let a basket count half after so many days (90d), weeks (12w) or years (1y), by its age at the newest basket. "
    "Default: none, all count the same."
)


def option(default: Any, *names: str, **how: Any) -> Any:
    """A field of a group: its default, and the option on the command line, as `typer.Option` takes it."""
    return field(default=default, metadata={"typer": typer.Option(*names, **how)})


def argument(**how: Any) -> Any:
    """A field of a group that is a required argument, as `typer.Argument` takes it."""
    return field(metadata={"typer": typer.Argument(**how)})


@dataclass(frozen=True)
class SourceArguments:
    """The SOURCE argument and the options that describe it."""

    source: str = argument(
        metavar="SOURCE",
        help="Read a file, folder or glob of CSV, Parquet, JSON lines or Arrow; an SQLite or DuckDB file; a "
        "database such as postgresql://HOST/NAME; a folder that `neatrec import` wrote; an Instacart-layout "
        "folder; a source.toml; supermarket[:key=value,...]; or complete-journey. "
        "`neatrec help data` lists the options that describe it.",
        show_default=False,
    )
    options: SourceOptions = field(default_factory=SourceOptions)

    def read(self, attributes: tuple[str, ...] = ()) -> LoadedSource:
        """The baskets of SOURCE (and the truth, where it is simulated), with the named columns as attributes."""
        from neatrec.io.read import load

        return load(self.source, replace(self.options, attributes=attributes))


SPARK_MASTER = {"metavar": "URL", "help": "Use this cluster with --engine spark. Default: SPARK_MASTER, else here."}


@dataclass(frozen=True)
class EngineArguments:
    """Options of everything that counts pairs."""

    panel = "Counting"
    engine: str = option("auto", metavar="auto|memory|disk|spark", help="Count the pairs with this engine.")
    spark_master: str | None = option(None, **SPARK_MASTER)
    memory_limit: str | None = option(
        None,
        metavar="SIZE",
        help="Use so much memory, such as 2GiB, for counting pairs; with --engine spark of its Java process.",
    )
    threads: int | None = option(None, help="Use so many threads. Default: all cores.")
    max_basket_pairs: int = option(200_000_000, help="Refuse a basket with more pairs.", min=1)

    def choices(self) -> dict[str, Any]:
        """What counting functions take, checked."""
        if self.threads is not None and not 1 <= self.threads <= 1024:
            raise must_be("--threads", "from 1 to 1024", self.threads)
        limit = parse_memory_limit(self.memory_limit)
        connect_spark(self.engine, self.spark_master, self.threads, limit)
        return {
            "engine": self.engine,
            "memory_limit": limit,
            "threads": self.threads,
            "max_basket_pairs": self.max_basket_pairs,
        }


def parse_memory_limit(text: str | None) -> int | None:
    try:
        return None if text is None else parse_size(text)
    except ValueError as error:
        raise must_be("--memory-limit", "a size such as 2GiB", text) from error


def connect_spark(engine: str, master: str | None, threads: int | None, memory: int | None) -> None:
    """With --engine spark: a session at the master that was named, or a sentence, before anything is read."""
    if engine not in ENGINES:
        raise must_be_one_of("--engine", ENGINES, engine)
    if engine == "spark":
        from neatrec.cooccurrence.spark import connect

        connect(master, threads=threads, memory=memory)
    elif master is not None:
        raise must_be("--spark-master", "given with --engine spark", master)


def output_file(path: Path | None, endings: tuple[str, ...], source: str) -> Path | None:
    """`path` when it can be written and is none of the files to read, before any work is done."""
    if path is None:
        return None
    if path.suffix not in endings:
        raise must_be("--out", f"a file ending in {' or '.join(endings)}", str(path))
    if not path.parent.is_dir():
        raise must_be("--out", "in a folder that exists", str(path), hint=f"Make {printable(path.parent)} first.")
    if path.is_dir():
        raise must_be("--out", "a file", str(path), hint="A folder of that name stands there.")
    if _is_read(path, source):
        raise must_be("--out", "none of the files that are read", str(path), hint="Choose another name.")
    probe = path.with_name(f".{path.name}.part")
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise must_be("--out", f"a file that can be written ({error.strerror})", str(path)) from error
    return path


def _is_read(path: Path, source: str) -> bool:
    if not path.exists():
        return False
    try:
        named = Path(source)
        if named.is_dir():
            return path.resolve().is_relative_to(named.resolve())
        return path.resolve() in {Path(match).resolve() for match in [source, *glob(source)]}
    except OSError:
        # a SOURCE that cannot be looked at is refused by its reader, with its own sentence
        return False


def output_folder(path: Path) -> Path:
    """`path` when files can go there, before any work is done."""
    if path.exists() and not path.is_dir():
        raise must_be("--out", "a folder", str(path), hint="A file of that name stands there.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise must_be("--out", f"a folder that can be written ({error.strerror})", str(path)) from error
    return path


def parse_strata(strata: list[str] | None) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The names of `--strata`, each once (None: the default), and those among them that are columns of the source."""
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


def with_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """`command` with each parameter whose type is a dataclass replaced by an option for each of its fields.

    Fields carry their options by `option` or `argument`, or an `OptionInfo`; a field may be a group itself.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if name != "return" and is_dataclass(kind)}
    flat: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            flat += _parameters_of(groups[name])
        else:
            flat.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def call(**values: Any) -> Any:
        for name, kind in groups.items():
            values[name] = _built(kind, values)
        return command(**values)

    call.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    del call.__wrapped__  # inspect would look through to the grouped signature
    return call


def _parameters_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group)
    found: list[inspect.Parameter] = []
    for entry in fields(group):
        hint, default = hints[entry.name], entry.default
        if is_dataclass(hint):
            found += _parameters_of(hint)
            continue
        info: OptionInfo | None = entry.metadata.get("info")
        if info is not None:
            if info.panel is None:
                continue
            # `neatrec help data` lists them once; in the help of every command they would hide its own options
            names = [f"--{entry.name.replace('_', '-')}"] if info.kind == "flag" else []  # without a --no-... beside it
            # hidden options are not completed either, so a shell that asks gets them all
            hidden = "_NEATREC_COMPLETE" not in os.environ
            shown = typer.Option(*names, metavar=info.metavar or None, help=info.help, hidden=hidden)
            hint = Annotated[COMMAND_LINE_TYPES.get(info.kind, str | None), shown]
            default = False if info.kind == "flag" else None
        elif "typer" in entry.metadata:
            shown = copy(entry.metadata["typer"])
            shown.rich_help_panel = shown.rich_help_panel or getattr(group, "panel", None)
            hint = Annotated[hint, shown]
        default = inspect.Parameter.empty if default is MISSING else default
        found.append(inspect.Parameter(entry.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    return found


def _built(group: Any, values: dict[str, Any]) -> Any:
    hints = get_type_hints(group)
    chosen = {}
    for entry in fields(group):
        if is_dataclass(hints[entry.name]):
            chosen[entry.name] = _built(hints[entry.name], values)
        elif entry.name in values:
            chosen[entry.name] = values.pop(entry.name)
    return group(**chosen)
