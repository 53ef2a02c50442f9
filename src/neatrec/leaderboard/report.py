"""`neatrec report`: a leaderboard, the audit of its labels and the record of the run, as one folder."""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from neatrec.bundle import load_bundle, read_manifest
from neatrec.bundle.store import versions
from neatrec.cooccurrence.recency import parse_half_life
from neatrec.data.baskets import Baskets
from neatrec.data.splits import split_baskets
from neatrec.errors import require_extra
from neatrec.labels.audit import Audit, audit_labels
from neatrec.labels.record import GroundTruth
from neatrec.leaderboard.model_specs import Models
from neatrec.leaderboard.result_cache import ResultCache
from neatrec.leaderboard.run import DEFAULT_OPTIONS, LeaderboardOptions, LeaderboardResult, run_leaderboard
from neatrec.models import Model
from neatrec.models.run import available_processors
from neatrec.report.audit_report import audit_section, level_text
from neatrec.report.folder import write_folder
from neatrec.report.leaderboard_tables import LeaderboardTables, ModelFacts, all_tables
from neatrec.report.model_sections import (
    curves_section,
    examples_section,
    highlighted_models,
    label_free_section,
    leaderboard_section,
    slices_section,
    variance_section,
)
from neatrec.report.page import Page, Section
from neatrec.report.summary import FoundPairs, pairs_section, recommended_goal, summary_section
from neatrec.report.table import ReportTable
from neatrec.report.verify import plain_json, result_json, run_section
from neatrec.serving.evidence import CERTAIN, LIKELY, grade_names
from neatrec.serving.pairs import PairTable
from neatrec.serving.table import ItemFacts
from neatrec.text import printable
from neatrec.training.measure import peak_mb
from neatrec.training.train import DEFAULT_MODEL

log = logging.getLogger(__name__)

LISTED = 25
"""Pairs of the table of the strongest."""
GAUSSIAN = "neat"
"""The model whose variances are shown against popularity."""
VERIFY = "`neatrec verify` recomputes these results from ranks and labels and checks the SHA-256 of every file."


def write_report(
    result: LeaderboardResult,
    out: str | Path,
    *,
    source: str,
    audit: Audit | None = None,
    gaussian: Model | None = None,
    found: FoundPairs | None = None,
    goal: tuple[str, str] | None = None,
    seconds: Mapping[str, float] | None = None,
) -> Path:
    """The report of `result` in the folder `out`: page, tables, figures, ranks, labels, `run.json`.

    `audit` is the audit of the test baskets' labels; `gaussian` a model with variances, shown against popularity;
    `found` the pairs with evidence; `goal` that of `recommended_goal`; `seconds` those of further steps, by name. An
    earlier report is replaced.
    """
    leaderboard = leaderboard_tables(result)
    run = run_record(source, [leaderboard_record(leaderboard, result)], {**result.seconds, **(seconds or {})})
    sections, files_only = report_sections(leaderboard, result, audit, gaussian)
    sections.append(run_section(run, VERIFY))
    first = [summary_section(leaderboard, found, goal, _warnings(result)), *([pairs_section(found)] if found else [])]
    folded = tuple(replace(section, folded=True) for section in sections)
    page = Page("What goes together", (f"The baskets: {source}.",) if source else (), (*first, *folded))
    return write_folder(
        page,
        out,
        run=run,
        parquet={"ranks": result.ranks(), "labels": result.task.labels.table()},
        more_tables=files_only,
    )


def leaderboard_tables(result: LeaderboardResult, name: str = "") -> LeaderboardTables:
    words = {level: level_text(result.task.labels, level) for level in result.options.levels}
    facts = {spec.name: ModelFacts(spec.kind, *result.cost(spec.name)) for spec in result.model_specs}
    return LeaderboardTables(result.evaluation.results, facts, words, name)


def report_sections(
    leaderboard: LeaderboardTables,
    result: LeaderboardResult,
    audit: Audit | None,
    gaussian: Model | None,
    without: Sequence[str] = (),
) -> tuple[list[Section], list[ReportTable]]:
    """The sections of the page, and tables that are files only; `without` names parts of the audit to leave out."""
    evaluation, task, candidates = result.evaluation, result.task, leaderboard.first.candidates
    sections = [leaderboard_section(leaderboard), curves_section(leaderboard)]
    sections.append(slices_section(leaderboard, evaluation.slices.get(candidates, ())))
    if (free := label_free_section(evaluation)) is not None:
        sections.append(free)
    files_only: list[ReportTable] = []
    if audit is not None:
        section, files_only = audit_section(audit, without)
        sections.append(section)
    if gaussian is not None:
        sections.append(variance_section(task.purchases, gaussian.arrays()["log_variance"], gaussian.name))
    best = {n: result.trainings[n][0].ranks.label_ranks[candidates].best for n in highlighted_models(leaderboard)}
    sections.append(examples_section(task.label_queries, best, task.labels.catalog, task.purchases))
    shown = {table.name for table in Page("", (), tuple(sections)).tables()}
    return sections, files_only + [table for name, table in all_tables(leaderboard).items() if name not in shown]


def leaderboard_record(leaderboard: LeaderboardTables, result: LeaderboardResult) -> dict[str, Any]:
    """What `run.json` keeps of a leaderboard: options, hashes, all results with all digits."""
    task = result.task
    record = {
        "name": leaderboard.name,
        "hashes": {"training baskets": task.train_hash, "test baskets": task.test_hash, "labels": task.labels.hash},
        "options": {**result.options.to_json(), "split": dict(result.split)},
        "skipped": dict(result.skipped),
        "level_text": {str(level): words for level, words in leaderboard.level_text.items()},
        "models": {name: asdict(facts) for name, facts in leaderboard.facts.items()},
        "results": [result_json(each) for each in leaderboard.results],
    }
    plain: dict[str, Any] = plain_json(record)
    return plain


def run_record(source: str, leaderboards: Sequence[Mapping[str, Any]], seconds: Mapping[str, float]) -> dict[str, Any]:
    """The content of `run.json` but for what the folder adds."""
    return {
        "source": source,
        "leaderboards": list(leaderboards),
        "seconds": dict(seconds),
        "peak_mb": peak_mb(),
        "versions": versions("numpy", "scipy", "numba", "pyarrow", "duckdb", "implicit", "matplotlib", "jinja2"),
        "machine": {"system": sys.platform, "processors": available_processors()},  # no names of machines or people
    }


def _warnings(result: LeaderboardResult) -> tuple[str, ...]:
    out = [result.advice] if result.advice else []
    if result.options.seeds == 1:
        out.append("Each model was trained once: the intervals cover the choice of items, not the spread of trainings.")
    out += [f"{name} is left out: {reason}." for name, reason in result.skipped.items()]
    return tuple(out)


def make_report(
    baskets: Baskets,
    out: str | Path,
    models: Models | None = None,
    options: LeaderboardOptions = DEFAULT_OPTIONS,
    *,
    split: str = "half",
    split_options: Mapping[str, Any] | None = None,
    null_rounds: int = 3,
    truth: GroundTruth | None = None,
    scores: Mapping[str, str | Path] | None = None,
    keep: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> LeaderboardResult:
    """The leaderboard of `baskets` and its report in `out`: split, train, evaluate, audit the labels, write.

    `keep` is a folder where trainings are cached; `truth` the true complements, where they are known; `models`,
    `options` and `scores` are those of `run_leaderboard`.
    """
    require_extra("report", "a report")
    report = progress or log.info
    parts = split_baskets(baskets, split, **(split_options or {}))
    method = {"method": parts.method, **parts.options}
    with cache_folder(keep) as cache:
        result = run_leaderboard(
            parts.train, parts.test, models, options, scores=scores, split=method, out=cache, progress=progress
        )
        gaussian = trained_gaussian(result, cache)
        bundle = _bundle(result, cache, DEFAULT_MODEL)
        learned = {} if bundle is None else read_manifest(bundle).learned
    report("auditing the labels")
    start = time.perf_counter()
    audit = audit_labels(
        parts.test,
        levels=options.levels,
        truth=truth,
        null_rounds=null_rounds,
        seed=options.seed,
        threads=options.threads,
        strata=options.strata,
    )
    audited = time.perf_counter()
    report("finding the pairs with evidence")
    found = find_pairs(baskets, options.strata, parse_half_life(options.half_life), threads=options.threads)
    spent = {"the audit of the labels": audited - start, "the pairs with evidence": time.perf_counter() - audited}
    goal = recommended_goal(learned) if "comparison" in learned else None
    write_report(
        result, out, source=baskets.source, audit=audit, gaussian=gaussian, found=found, goal=goal, seconds=spent
    )
    report(f"wrote {printable(out)}")
    return result


def find_pairs(
    baskets: Baskets,
    strata: Sequence[str] | None = None,
    half_life: float | None = None,
    *,
    threads: int | None = None,
) -> FoundPairs:
    """The pairs with evidence in all of `baskets`, by the code of the serving table."""
    pairs = PairTable.of(baskets, strata=strata, half_life=half_life, threads=threads)
    one, other, columns = pairs.with_evidence()
    covered = np.zeros(len(baskets.catalog), dtype=np.bool_)
    covered[one] = covered[other] = True
    lines = baskets.item_counts
    facts = ItemFacts(lines, None, "counts", grade_names(pairs.strata))
    strongest = []
    best = {name: values[:LISTED] for name, values in columns.items()}
    for first, second, found in zip(one, other, facts.evidence(one[:LISTED], other[:LISTED], best), strict=False):
        names = baskets.catalog.name(first), baskets.catalog.name(second)
        lift = found.lift, found.lift_low, found.lift_high
        strongest.append((*names, found.grade, found.strength, found.times_words(), lift, found.words()))
    return FoundPairs(
        certain=int((columns["grade"] == CERTAIN).sum()),
        likely=int((columns["grade"] == LIKELY).sum()),
        explained=0 if pairs.explained is None else int((pairs.explained > 0).sum()),
        items=int(covered.sum()),
        bought=int((lines > 0).sum()),
        sales=float(lines[covered].sum() / max(lines.sum(), 1)),
        strongest=tuple(strongest),
        strata=pairs.words(),
    )


def cache_folder(keep: str | Path | None) -> AbstractContextManager[str]:
    """A folder for trainings: `keep`, or a temporary one."""
    return tempfile.TemporaryDirectory(prefix="neatrec-") if keep is None else nullcontext(str(keep))


def trained_gaussian(result: LeaderboardResult, cache: str | Path) -> Model | None:
    """The first training of `neat` from the cached bundles; None where it took no part."""
    bundle = _bundle(result, cache, GAUSSIAN)
    return None if bundle is None else load_bundle(bundle)


def _bundle(result: LeaderboardResult, cache: str | Path, model: str) -> Path | None:
    spec = next((each for each in result.model_specs if each.name == model and each.ours), None)
    bundle = None if spec is None else ResultCache(Path(cache), "").bundle(spec, result.options.seed)
    return bundle if bundle is not None and bundle.exists() else None
