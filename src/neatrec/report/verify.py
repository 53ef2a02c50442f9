"""The content of `run.json`, and `neatrec verify`: results recomputed from ranks and labels, the hash of every file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.errors import BundleError, NeatrecError
from neatrec.evaluation.metrics import ceiling
from neatrec.evaluation.ranks import label_queries_from_table, label_ranks_from_table
from neatrec.evaluation.summary import LevelResult, RecommendationStats, SummaryOptions, summarize_ranks
from neatrec.report.folder import RUN, file_hash, file_name, read_run
from neatrec.report.page import FactList, Paragraph, Section
from neatrec.report.table import format_number, format_seconds
from neatrec.text import plural, printable

TOLERANCE = 1e-9
"""Sums in another order differ in their last bits; nothing else may."""


def result_json(result: LevelResult) -> dict[str, Any]:
    """All numbers of a result; NaN as null."""
    summary = result.summary
    out = {
        "level": result.level,
        "candidates": result.candidates,
        "labels": summary.labels,
        "queries": summary.queries,
        "ceiling": {str(k): value for k, value in result.ceiling.items()},
        "models": {model.name: asdict(model) for model in summary.models},
        "tests": {f"{t.metric}: {t.better} > {t.worse}": asdict(t) for t in summary.tests},
        "recommended": {name: asdict(each) for name, each in result.recommended.items()},
    }
    plain: dict[str, Any] = plain_json(out)
    return plain


def plain_json(value: Any, digits: int | None = None) -> Any:
    """`value` with keys as text, tuples as lists, NumPy scalars as numbers, rounded to `digits`, and null for what is
    no number."""
    if isinstance(value, Mapping):
        return {str(key): plain_json(each, digits) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(each, digits) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, float):
        return value
    return None if not math.isfinite(value) else value if digits is None else round(value, digits)


def recomputed_results(leaderboard: Mapping[str, Any], ranks: pa.Table, labels: pa.Table) -> list[dict[str, Any]]:
    """The results of `leaderboard` (as `run.json` has it), recomputed from ranks and labels.

    Coverage and popularity of recommendations do not follow from ranks and are copied; so is everything where there
    are neither labels nor ranks.
    """
    kept: list[dict[str, Any]] = leaderboard["results"]
    if not len(labels) and not len(ranks):
        return kept
    label_queries = label_queries_from_table(labels["query"], labels["item"])
    level_of = labels["level"].to_numpy()
    options = SummaryOptions(tuple(leaderboard["options"]["ks"]))
    out = []
    for old in kept:
        label_ranks = label_ranks_from_table(ranks, labels["query"], labels["item"], old["candidates"])
        chosen = level_of <= old["level"]
        is_candidate = next(iter(label_ranks.values()))[0].equal[chosen] > 0
        summary = summarize_ranks(label_ranks, label_queries, chosen, options)
        highest = ceiling(label_queries.row[chosen], is_candidate, options.ks)
        stats = {name: RecommendationStats(**each) for name, each in old["recommended"].items()}
        out.append(result_json(LevelResult(old["level"], old["candidates"], summary, highest, stats)))
    return out


def differences(one: Any, other: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Where two JSON values differ: path, this, that. Numbers may differ by `TOLERANCE`."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            yield from differences(one.get(key), other.get(key), (*path, str(key)))
    elif _is_list(one) and _is_list(other) and len(one) == len(other):
        for place, (this, that) in enumerate(zip(one, other, strict=True)):
            yield from differences(this, that, (*path, str(place)))
    elif not _alike(one, other):
        yield path, one, other


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool) or not isinstance(one, int | float):
        return bool(one == other)
    return isinstance(other, int | float) and math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def run_section(run: Mapping[str, Any], how_to_verify: str) -> Section:
    """The facts of `run` (the content of `run.json`) as people read them."""
    facts: list[tuple[str, str]] = [("Source", str(run["source"]))]
    for leaderboard in run["leaderboards"]:
        where = f" ({leaderboard['name']})" if leaderboard["name"] else ""
        facts += [(f"SHA-256 of the {name}{where}", str(value)) for name, value in leaderboard["hashes"].items()]
        facts += [(name.capitalize() + where, _words(value)) for name, value in leaderboard["options"].items()]
    facts += [(f"Time for {name}", format_seconds(value)) for name, value in run["seconds"].items()]
    if run.get("peak_mb") is not None:
        facts.append(("Peak memory", f"{format_number(run['peak_mb'], 0)} MB"))
    facts.append(("Versions", ", ".join(f"{name} {version}" for name, version in run["versions"].items())))
    facts.append(("Machine", ", ".join(f"{name} {value}" for name, value in run["machine"].items())))
    return Section("run", "Run card", (FactList(tuple(facts)), Paragraph(how_to_verify, "note")))


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(each)}" for key, each in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_words(each) for each in value) or "none"
    return "none" if value is None else str(value)


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
