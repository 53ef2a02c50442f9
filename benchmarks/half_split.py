"""The half-split of the Instacart orders for studies of quality, and trainings of many models side by side."""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import data_folder
from neatrec.data.baskets import Baskets
from neatrec.data.splits import Split, half
from neatrec.evaluation.metrics import hit_rate, ndcg
from neatrec.evaluation.ranks import LabelRanks, rank_labels
from neatrec.evaluation.task import EvaluationTask, build_task
from neatrec.labels import make_labels
from neatrec.leaderboard.result_cache import bundle_of, load_training
from neatrec.models import Model, Run, make_model
from neatrec.models.embeddings.neat import Neat


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
    ranks: list[LabelRanks]
    """One a part, in the order of `parts`."""
    correlation: float | None
    """Of log-variance with log popularity, where there is a variance."""
    seconds: float

    def means(self) -> dict[str, Any]:
        """HR@10 and NDCG@10, means over the parts."""
        hr = [float(hit_rate(j.higher, j.equal, 10).mean()) for j in self.ranks]
        gain = [float(ndcg(j.higher, j.equal, 10).mean()) for j in self.ranks]
        return {"hr@10": round(float(np.mean(hr)), 4), "ndcg@10": round(float(np.mean(gain)), 4), "parts": hr}


@dataclass(frozen=True)
class Part:
    """Baskets to learn from and the questions about the others."""

    train: Baskets
    task: EvaluationTask


@cache
def orders(folder: Path | None) -> Baskets:
    """The orders, or what `Baskets.save` wrote of them: a machine that only trains may have no DuckDB to read with."""
    if folder is not None:
        return Baskets.load(folder)
    from neatrec.io import read_baskets

    return read_baskets(str(data_folder("instacart", [])))


@cache
def parts(folder: Path | None, validation: bool) -> list[Part]:
    """The half-split, or the validation splits inside its training half, both ways round."""
    whole = half(orders(folder))
    splits: Iterable[Split] = whole.validation() if validation else [whole]
    return [
        Part(
            s.train,
            build_task(s.train, s.test, make_labels(s.test, protocol="paper", levels=(0.05,)), queries=0, carts=0),
        )
        for s in splits
    ]


def attempt(
    trial: Trial, folder: Path | None, validation: bool, threads: int | None, kept: Path | None = None
) -> Outcome:
    """Train on each part (or load from the folder `kept` of a leaderboard) and rank the labels in candidate sets."""
    ranks, follows, seconds = [], [], 0.0
    for part in parts(folder, validation):
        model, took = _fitted(trial, part.train, Run(rng=trial.seed, device=trial.device, threads=threads), kept)
        seconds += took
        if isinstance(model, Neat):
            follows.append(variance_against_popularity(model))
        ranks.append(rank_labels(model, part.task.candidate_set, part.task.label_queries))
    return Outcome(trial, ranks, float(np.mean(follows)) if follows else None, round(seconds, 2))


def _fitted(trial: Trial, train: Baskets, run: Run, kept: Path | None) -> tuple[Model, float]:
    """The model, and the seconds it took to train: now, or when it was put among the bundles of a leaderboard."""
    model = _model(trial)
    if kept is not None and trial.device == "cpu" and not trial.settings:
        name = f"{trial.model}@{trial.preset}" if trial.preset else trial.model
        found = load_training(bundle_of(kept, name, trial.seed), model, trial.seed, train)
        if found is not None and found[1]["train_seconds"] is not None:
            return found[0], found[1]["train_seconds"]
    began = time.perf_counter()
    model.fit(train, run)
    return model, time.perf_counter() - began


def _model(trial: Trial) -> Model:
    if trial.model == "gensim":
        from benchmarks.gensim_model import Gensim, GensimParameters

        return Gensim(GensimParameters(**trial.settings))
    return make_model(trial.model, trial.settings, preset=trial.preset)


def variance_against_popularity(model: Neat) -> float:
    """Correlation of log-variance with log popularity over the items that were bought."""
    bought = model.item_count > 0
    spread = model.log_variance[bought].reshape(int(bought.sum()), -1).mean(axis=1)
    return float(np.corrcoef(spread, np.log(model.item_count[bought]))[0, 1])


def attempts(
    trials: list[Trial],
    folder: Path | None,
    validation: bool,
    jobs: int,
    threads: int | None,
    kept: Path | None = None,
) -> Iterator[Outcome]:
    """The outcomes as they come, in `jobs` processes."""
    logging.disable(logging.INFO)
    if jobs == 1:
        for trial in trials:
            yield attempt(trial, folder, validation, threads, kept)
        return
    parts(folder, validation)  # compiled code is kept before many processes ask for it
    work = [(trial, folder, validation, threads, kept) for trial in trials]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_attempt, work)


def _attempt(work: tuple[Trial, Path | None, bool, int | None, Path | None]) -> Outcome:
    logging.disable(logging.INFO)
    return attempt(*work)
