"""The report as a folder: the page, tables as CSV, Markdown and LaTeX, figures as SVG, ranks, labels, `run.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.bundle.folder import replacing
from neatrec.errors import BundleError, SourceError
from neatrec.report.page import Page, render
from neatrec.report.table import ReportTable, to_csv, to_latex, to_markdown
from neatrec.text import printable

FORMAT = 2
RUN, PAGE = "run.json", "index.html"
TABLE_FORMATS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


def write_folder(
    page: Page,
    out: str | Path,
    *,
    run: Mapping[str, Any],
    parquet: Mapping[str, pa.Table],
    more_tables: Iterable[ReportTable] = (),
) -> Path:
    """The folder `out` with everything in it; `parquet` are tables by name, `more_tables` are files only.

    A folder that is not empty is replaced only where it is a report.
    """
    out = Path(out)
    _refuse_foreign(out)
    tables = [*page.tables(), *more_tables]
    with replacing(out, parents=True) as folder:
        for name in ("tables", "figures"):
            (folder / name).mkdir(parents=True)
        for table in tables:
            for ending, write in TABLE_FORMATS.items():
                (folder / "tables" / f"{table.name}.{ending}").write_text(write(table), encoding="utf-8")
        for figure in page.figures():
            (folder / "figures" / f"{figure.name}.svg").write_text(figure.file(), encoding="utf-8")
        for name, content in parquet.items():
            pq.write_table(content, folder / f"{name}.parquet", compression="zstd")
        (folder / PAGE).write_text(render(page), encoding="utf-8")
        content_of = {table.name: table.to_json() for table in tables}
        record = {"format": FORMAT, **run, "tables": content_of, "files": file_hashes(folder)}
        (folder / RUN).write_text(json.dumps(record, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    return out


def _refuse_foreign(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()) and not (out / RUN).is_file():
        raise SourceError(
            f"{printable(out)} is not empty and no report",
            file=str(out),
            hint="Name a folder that is not there yet, or a report to replace.",
        )
    if out.exists() and not out.is_dir():
        raise SourceError(f"{printable(out)} is a file, a report is a folder", file=str(out))


def read_run(folder: str | Path) -> dict[str, Any]:
    """The content of `run.json`; `BundleError` where the folder is no report of this format."""
    file = Path(folder) / RUN
    try:
        run: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        problem = "" if run["format"] == FORMAT else f"format {printable(run['format'])}, this version reads {FORMAT}"
        problem = problem or ", ".join(f"no {part}" for part in ("files", "tables", "leaderboards") if part not in run)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_report(folder, printable(repr(error))) from error
    if problem:
        raise _no_report(folder, problem)
    return run


def _no_report(folder: str | Path, problem: str) -> BundleError:
    text = f"{printable(folder)} is no report that can be read: {RUN}: {problem}"
    return BundleError(text, file=str(folder), hint="`neatrec report` writes one.")


def file_name(what: str, *parts: str) -> str:
    """The name of a file of a report, without its ending.

    >>> file_name("ranks", "journey"), file_name("ranks", "")
    ('ranks-journey', 'ranks')
    """
    return "-".join(part for part in (what, *parts) if part)


def file_hashes(folder: Path) -> dict[str, str]:
    """Path in the folder -> SHA-256, for every file but `run.json`."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != RUN)
    return {file.relative_to(folder).as_posix(): file_hash(file) for file in files}


def file_hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
