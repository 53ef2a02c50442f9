"""The paper's studies of one model: the margin, three items, one dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.evaluation.metrics import metric_names, metric_values
from neatrec.evaluation.ranks import LabelRanks
from neatrec.evaluation.task import EvaluationTask
from neatrec.leaderboard.model_specs import model_specs
from neatrec.leaderboard.result_cache import FitContext, ResultCache, fit_and_evaluate, task_key
from neatrec.models import Model, Run, make_model
from neatrec.reproduction.model_tables import CaseStudy, MarginStudy, case_study
from neatrec.reproduction.sections import Concept

Floats = npt.NDArray[np.float64]
GAUSSIAN = "neat"


def gaussians_of(model: Model) -> tuple[Floats, Floats]:
    """The means and log-variances of a trained model, shapes (items, dim) and (items,) or (items, dim)."""
    means, log_variance = model.item_vectors(), model.arrays()["log_variance"]
    return np.asarray(means, dtype=np.float64), np.asarray(log_variance, dtype=np.float64)


def _codes(catalog: Catalog, paper: Mapping[str, Any]) -> list[int] | None:
    """The paper's three items in a catalogue; None where it does not have them."""
    codes = [catalog.code_of.get(item["product_id"]) for item in paper["case_study"]["items"]]
    found = [code for code in codes if code is not None]
    return found if len(found) == len(codes) else None


def margin_cache(task: EvaluationTask, folder: Path | None) -> ResultCache:
    """Where the trainings of the margin study are cached."""
    return ResultCache(folder, task_key(task, {"study": "margin"}))


def margin_study(
    data: str,
    context: FitContext,
    paper: Mapping[str, Any],
    seeds: Sequence[int],
    report: Callable[[str], None],
    **settings: Any,
) -> MarginStudy:
    """NEAT trained with each margin of the paper, evaluated on the candidate set at every level of the task's labels.

    `settings` are parameters of NEAT that stay the same.
    """
    study, task = paper["margin_study"], context.task
    by_margin = []
    for margin in study["margins"]:
        label_ranks = []
        model = make_model(GAUSSIAN, settings, margin=margin)
        [spec], _ = model_specs({f"margin-{margin:g}": model}, {}, context.train)
        for seed in seeds:
            report(f"margin {margin:g} on {data}: seed {seed}")
            own = replace(context, run=replace(context.run, rng=seed))
            training = fit_and_evaluate(spec, seed, own, label_free=False)
            label_ranks.append(training.ranks.label_ranks[task.candidate_set.name])
        by_margin.append(label_ranks)
    keys = [f"{metric}@{k}" for metric in ("hr", "ndcg") for k in study["k"]]
    values = {level: _metrics(by_margin, task.mask(level), study["k"], keys) for level in task.labels.levels}
    return MarginStudy(data, tuple(study["margins"]), values, len(seeds))


def _metrics(
    by_margin: Sequence[Sequence[LabelRanks]], chosen: npt.NDArray[np.bool_], ks: Sequence[int], keys: Sequence[str]
) -> dict[str, list[float]]:
    names = metric_names(ks)
    out: dict[str, list[float]] = {key: [] for key in keys}
    for runs in by_margin:
        tables = [metric_values(run.higher[chosen], run.equal[chosen], ks).mean(axis=0) for run in runs]
        means = np.mean(tables, axis=0)
        for key in keys:
            out[key].append(float(means[names.index(key)]))
    return out


def case_of(model: Model, paper: Mapping[str, Any]) -> CaseStudy | None:
    """The paper's three items in a trained model; None where the catalogue does not have them."""
    if (codes := _codes(model.catalog, paper)) is None:
        return None
    names = [item["name"] for item in paper["case_study"]["items"]]
    return case_study(names, codes, model.item_count, *gaussians_of(model), model.name)


def concept_of(train: Baskets, paper: Mapping[str, Any], run: Run, **settings: Any) -> Concept | None:
    """The paper's three items in a NEAT of one dimension, trained on `train`; None where they are not in it."""
    if (codes := _codes(train.catalog, paper)) is None:
        return None
    means, log_variance = gaussians_of(make_model(GAUSSIAN, settings, dim=1).fit(train, run))
    variances = np.exp(log_variance.reshape(len(means), -1)[codes, 0])
    return Concept(tuple(item["name"] for item in paper["case_study"]["items"]), means[codes, 0], variances)
