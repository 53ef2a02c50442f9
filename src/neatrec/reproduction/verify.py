"""`neatrec verify`: the numbers of a report made again from its ranks and labels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.errors import BundleError, NeatrecError
from neatrec.evaluation.summary import LevelResult
from neatrec.report.boards import LeaderboardTables, ModelFacts, derived_tables
from neatrec.report.findings import Finding, read_table, table_findings, twin_findings
from neatrec.report.folder import FORMAT, RUN, file_hash
from neatrec.report.results_json import differences, made_again, rank_hashes, result_from_json, result_json
from neatrec.report.table import ReportTable
from neatrec.reproduction.model_tables import PaperComparison, ablation_table
from neatrec.reproduction.published import paper_numbers
from neatrec.reproduction.sections import beside_tables
from neatrec.text import plural, printable

SHOWN = 20
"""Findings that an error lists."""


def verify_report(folder: str | Path) -> list[Finding]:
    """What is wrong with the report in `folder`; nothing where all is as it should be.

    Means, intervals and tests are computed again from `ranks.parquet` and `labels.parquet` and compared with `run.json`
    and with every cell of the tables made of them: CSV, Markdown, LaTeX and the page. The files of tables made of
    other things are compared with each other. Every file must be as it was written.
    """
    folder = Path(folder)
    run = _read_run(folder)
    altered = set(_altered(folder, run))
    boards: list[LeaderboardTables] = []
    findings: list[Finding] = []
    for kept in run["boards"]:
        board, found = _board(folder, kept, altered)
        boards.append(board)
        findings += found
    findings += _tables(folder, run, boards, altered)
    named = {finding.file for finding in findings}
    return findings + [_whole_file(folder, name) for name in sorted(altered - named)]


def check_report(folder: str | Path) -> dict[str, Any]:
    """What was checked; raises `BundleError` naming files and cells where something is wrong."""
    findings = verify_report(folder)
    if findings:
        raise BundleError(
            f"{printable(folder)} is not as it was written: {in_words(findings)}",
            file=findings[0].file,
            cell=findings[0].cell or None,
            findings=[vars(finding) for finding in findings],
            hint="Write the report again, or take these numbers for what they are.",
        )
    run = _read_run(Path(folder))
    return {"report": str(folder), "files": len(run["files"]), "tables": len(run["tables"]), "findings": []}


def in_words(findings: Sequence[Finding]) -> str:
    """One line for people.

    >>> in_words([])
    'every number follows from ranks and labels, every file is as it was written'
    """
    if not findings:
        return "every number follows from ranks and labels, every file is as it was written"
    more = f"; and {len(findings) - SHOWN} more" if len(findings) > SHOWN else ""
    return f"{plural(len(findings), 'finding')}: " + "; ".join(str(f) for f in findings[:SHOWN]) + more


def _read_run(folder: Path) -> dict[str, Any]:
    file = folder / RUN
    try:
        run: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if run["format"] != FORMAT:
            raise BundleError(
                f"{printable(file)} has report format {printable(run['format'])}, this version reads {FORMAT}",
                file=str(file),
            )
        missing = [part for part in ("files", "tables", "boards") if part not in run]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(
            f"{printable(folder)} is no report that can be verified: {RUN}: {printable(error)}", file=str(file)
        ) from error
    if missing:
        raise BundleError(f"{printable(file)} does not say {', '.join(missing)}", file=str(file))
    return run


def _altered(folder: Path, run: Mapping[str, Any]) -> Iterator[str]:
    """Files that are not there, or not as they were written."""
    for name, right in run["files"].items():
        file = folder / name
        if not file.is_file() or file_hash(file) != right:
            yield name


def _whole_file(folder: Path, name: str) -> Finding:
    there = (folder / name).is_file()
    return Finding(name, "", "something else" if there else "nothing: it is not there", "what was written")


def _board(folder: Path, kept: Mapping[str, Any], altered: set[str]) -> tuple[LeaderboardTables, list[Finding]]:
    """The board that the tables must show, and what is wrong with its ranks, its labels and `run.json`.

    Where ranks or labels were altered, which is a finding, the tables are held to what `run.json` says.
    """
    about = {name: ModelFacts(**facts) for name, facts in kept["models"].items()}
    where = {float(level): words for level, words in kept["where"].items()}
    board = LeaderboardTables(tuple(result_from_json(each) for each in kept["results"]), about, where, kept["name"])
    files = {what: f"{board.file(what)}.parquet" for what in ("ranks", "labels")}
    guilty = [name for name in files.values() if name in altered]
    try:
        ranks, labels = (pq.read_table(folder / name) for name in files.values())
        now, again = rank_hashes(ranks), made_again(kept, ranks, labels)
    except (OSError, pa.ArrowException, NeatrecError, KeyError, StopIteration, IndexError) as error:
        says = printable(error, 200) or type(error).__name__
        return board, [Finding((guilty or [files["ranks"]])[0], "", says, f"ranks of the labels in {files['labels']}")]
    findings = [
        Finding(files["ranks"], key, "other ranks", "the ranks that were written")
        for key in dict.fromkeys([*kept["rank_hashes"], *now])
        if now.get(key) != kept["rank_hashes"].get(key)
    ]
    if not findings:
        # altered ranks are named already; each of the numbers that hang on them need not be
        findings += _differences(kept, again, guilty)
    return (board if guilty else replace(board, results=again)), findings


def _differences(kept: Mapping[str, Any], again: Sequence[LevelResult], guilty: Sequence[str]) -> Iterator[Finding]:
    """Numbers of `run.json` that ranks and labels do not give."""
    for old_result, result in zip(kept["results"], again, strict=True):
        for path, old, new in differences(old_result, result_json(result)):
            cell = f"{old_result['level']:g}, {old_result['candidates']}: {' '.join(path)}"
            if guilty:
                yield Finding(guilty[0], cell, f"what gives {new}", f"what gives {old}")
            else:
                yield Finding(RUN, cell, str(old), str(new))


def _tables(
    folder: Path, run: Mapping[str, Any], boards: Sequence[LeaderboardTables], altered: set[str]
) -> Iterator[Finding]:
    """Cells that do not follow from the results; of other tables, cells in which their files contradict each other."""
    derived = {name: table for board in boards for name, table in derived_tables(board).items()}
    derived |= _beside_the_paper(run, boards)
    for name, schema in run["tables"].items():
        if name in derived:
            yield from table_findings(folder, derived[name])
            continue
        table = read_table(folder, name, schema)
        if isinstance(table, Finding):
            yield table
        else:
            yield from twin_findings(folder, table, csv_altered=f"tables/{name}.csv" in altered)


def _beside_the_paper(run: Mapping[str, Any], boards: Sequence[LeaderboardTables]) -> dict[str, ReportTable]:
    """The tables of a reproduction that follow from ranks, labels and the paper's numbers."""
    beside = [PaperComparison(**kept["beside"]) for kept in run["boards"] if "beside" in kept]
    if len(beside) != len(boards):
        return {}
    paper = paper_numbers()
    out: dict[str, ReportTable] = {}
    for board, how in zip(boards, beside, strict=True):
        out |= beside_tables(paper, board, how)
    table = ablation_table(paper, list(zip(boards, beside, strict=True)))
    return {**out, table.name: table}
