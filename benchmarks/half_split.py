"""The half-split of the Instacart orders, and trainings of many models side by side."""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.harness import data_folder
from neatrec.data.baskets import Baskets
from neatrec.data.splits import half
from neatrec.evaluation.metrics import hit_rate, ndcg
from neatrec.evaluation.ranks import LabelRanks, rank_labels
from neatrec.evaluation.task import EvaluationTask, build_task
from neatrec.labels import make_labels
from neatrec.models import Model, Run, make_model
from neatrec.models.embeddings.models import Neat


@dataclass(frozen=True)
class Trial:
    """One model to train and to ask."""

    model: str
    settings: Mapping[str, Any]
    preset: str | None = None
    seed: int = 0
    device: str = "cpu"


@dataclass(frozen=True)
class Outcome:
    trial: Trial
    ranks: LabelRanks
    correlation: float | None
    """Of log-variance with log popularity, where there is a variance."""
    seconds: float

    def means(self) -> tuple[float, float]:
        """HR@10 and NDCG@10."""
        of = self.ranks.higher, self.ranks.equal, 10
        return round(float(hit_rate(*of).mean()), 4), round(float(ndcg(*of).mean()), 4)


@dataclass(frozen=True)
class Part:
    """Baskets to learn from and the questions about the others."""

    train: Baskets
    task: EvaluationTask


@cache
def orders(file: Path | None = None) -> Baskets:
    """The orders, or a file of pickled `Baskets`: a machine that only trains may lack DuckDB."""
    if file is not None:
        return cast(Baskets, pickle.loads(file.read_bytes()))
    from neatrec.io import read_baskets

    return read_baskets(str(data_folder("instacart", [])))


@cache
def half_part(file: Path | None) -> Part:
    """The half-split with the paper's labels of its test half."""
    split = half(orders(file))
    labels = make_labels(split.test, protocol="paper", levels=(0.05,))
    return Part(split.train, build_task(split.train, split.test, labels, queries=0, carts=0))


def attempt(trial: Trial, file: Path | None, threads: int | None) -> Outcome:
    """Train and rank the labels in candidate sets."""
    logging.disable(logging.INFO)
    began, part = time.perf_counter(), half_part(file)
    run = Run(rng=trial.seed, device=trial.device, threads=threads)
    model = _model(trial).fit(part.train, run)
    follows = variance_against_popularity(model) if isinstance(model, Neat) else None
    ranks = rank_labels(model, part.task.candidate_set, part.task.label_queries)
    return Outcome(trial, ranks, follows, round(time.perf_counter() - began, 2))


def _model(trial: Trial) -> Model:
    if trial.model in ("gensim", "popco within"):
        from benchmarks.gensim_model import Gensim, GensimParameters, PopCoWithin

        if trial.model == "gensim":
            return Gensim(GensimParameters(**trial.settings))
        return PopCoWithin()
    return make_model(trial.model, trial.settings, preset=trial.preset)


def variance_against_popularity(model: Neat) -> float:
    """Correlation of log-variance with log popularity over the items that were bought."""
    bought = model.item_count > 0
    spread = model.log_variance[bought].reshape(int(bought.sum()), -1).mean(axis=1)
    return float(np.corrcoef(spread, np.log(model.item_count[bought]))[0, 1])


def attempts(
    trials: list[Trial], file: Path | None, jobs: int, threads: int | None
) -> Iterator[Outcome]:
    """The outcomes as they come, in `jobs` processes."""
    one = partial(attempt, file=file, threads=threads)
    if jobs == 1:
        yield from map(one, trials)
        return
    half_part(file)  # compiled code is kept before many processes ask for it
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(one, trials)
