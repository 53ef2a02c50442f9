"""`neatrec verify`: the results of a report recomputed from its ranks and labels, and the hash of every file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.errors import BundleError, NeatrecError
from neatrec.report.folder import RUN, file_hash, file_name, read_run
from neatrec.report.run_record import differences, recomputed_results
from neatrec.text import plural, printable

LISTED = 20
"""Mismatches that an error message lists."""


@dataclass(frozen=True)
class Mismatch:
    """A file or a number of a report that is not what it must be."""

    file: str
    where: str
    """Which number of the file; "" for the file as a whole."""
    found: str
    expected: str

    def __str__(self) -> str:
        where = f"{self.file}, {self.where}" if self.where else self.file
        return printable(f"{where}: found {self.found}, expected {self.expected}", 400)


def verify_report(folder: str | Path) -> list[Mismatch]:
    """All mismatches of the report in `folder`; empty where there are none.

    Every file must have the SHA-256 of `run.json`. Means, intervals and tests of `run.json` must be those that
    `ranks.parquet` and `labels.parquet` give.
    """
    folder = Path(folder)
    run = read_run(folder)
    mismatches = list(changed_files(folder, run["files"]))
    for leaderboard in run["leaderboards"]:
        mismatches += _changed_results(folder, leaderboard)
    return mismatches


def check_report(folder: str | Path) -> dict[str, Any]:
    """How many files and tables were verified; raises `BundleError` naming the mismatches."""
    mismatches = verify_report(folder)
    if mismatches:
        raise BundleError(
            f"{printable(folder)} is not as it was written: {mismatch_text(mismatches)}",
            file=mismatches[0].file,
            where=mismatches[0].where or None,
            mismatches=[vars(mismatch) for mismatch in mismatches],
            hint="Write the report again.",
        )
    run = read_run(folder)
    return {"report": str(folder), "files": len(run["files"]), "tables": len(run["tables"]), "mismatches": []}


def mismatch_text(mismatches: Sequence[Mismatch]) -> str:
    """All mismatches in one line, or as many as fit."""
    more = f"; and {len(mismatches) - LISTED} more" if len(mismatches) > LISTED else ""
    text = "; ".join(str(mismatch) for mismatch in mismatches[:LISTED])
    return f"{plural(len(mismatches), 'mismatch', 'mismatches')}: {text}{more}"


def changed_files(folder: Path, hashes: Mapping[str, str]) -> Iterator[Mismatch]:
    """Files that are missing or have another SHA-256."""
    for name, expected in hashes.items():
        file = folder / name
        if not file.is_file():
            yield Mismatch(name, "", "no file", f"SHA-256 {expected}")
        elif (found := file_hash(file)) != expected:
            yield Mismatch(name, "", f"SHA-256 {found}", expected)


def _changed_results(folder: Path, leaderboard: Mapping[str, Any]) -> Iterator[Mismatch]:
    """Numbers of `run.json` that ranks and labels do not give."""
    ranks_file, labels_file = (f"{file_name(name, leaderboard['name'])}.parquet" for name in ("ranks", "labels"))
    try:
        ranks, labels = (pq.read_table(folder / name) for name in (ranks_file, labels_file))
        recomputed = recomputed_results(leaderboard, ranks, labels)
    except (OSError, pa.ArrowException, NeatrecError, KeyError, StopIteration, IndexError) as error:
        found = printable(error, 200) or type(error).__name__
        yield Mismatch(ranks_file, "", found, f"ranks of the labels in {labels_file}")
        return
    for kept, result in zip(leaderboard["results"], recomputed, strict=True):
        for path, found, expected in differences(kept, result):
            where = f"{kept['level']:g}, {kept['candidates']}: {' '.join(path)}"
            yield Mismatch(RUN, where, str(found), str(expected))
