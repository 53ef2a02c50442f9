"""`EvaluationTask`: the same queries and candidates for each model; `evaluate_model` ranks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from neatrec.data.baskets import Baskets
from neatrec.data.splits import refuse_overlap
from neatrec.errors import LeakError, ParameterError
from neatrec.evaluation.candidates import (
    Candidates,
    CandidateSet,
    CatalogCandidates,
    Codes,
    Numbers,
    candidate_set,
    catalogue,
    partners,
)
from neatrec.evaluation.label_free import (
    CARTS,
    QUERIES,
    HeldOutPairs,
    HiddenItems,
    answer_hidden,
    best_sellers,
    leave_one_out,
)
from neatrec.evaluation.ranks import LabelQueries, LabelRanks, Scorer, best_of, rank_labels
from neatrec.labels import Labels
from neatrec.models import Model, rank_carts


@dataclass(frozen=True)
class EvaluationTask:
    """Label records with their candidate sets, queries for the held-out lift, carts to complete."""

    labels: Labels
    label_queries: LabelQueries
    candidate_set: CandidateSet
    """The items bought most often with each query."""
    catalogue: CatalogCandidates
    purchases: Numbers
    """Lines of each item in the training baskets, shape (items,)."""
    pair_count: Numbers
    """Count of the pair of each label in training, shape (labels,)."""
    held_out: HeldOutPairs | None
    held_out_candidates: CandidateSet | None
    """The candidate sets of the held-out queries."""
    hidden_items: HiddenItems | None
    train_hash: str
    test_hash: str

    @property
    def candidate_sets(self) -> tuple[Candidates, ...]:
        """Both candidate sets of the labels."""
        return self.candidate_set, self.catalogue


def build_task(
    train: Baskets,
    test: Baskets,
    labels: Labels,
    *,
    candidates: int = 200,
    queries: int = QUERIES,
    carts: int = CARTS,
    seed: int = 0,
) -> EvaluationTask:
    """Build the task: `labels` from `test`, candidates from `train`, without a common basket.

    `candidates` is the size of the candidate set. The held-out lift uses `queries` best sellers,
    cart completion `carts` test baskets; 0 leaves a measure out.
    """
    refuse_overlap(train, test)
    if train.catalog.hash != test.catalog.hash or labels.catalog.hash != test.catalog.hash:
        raise ParameterError("`train`, `test` and `labels` must share one catalogue")
    if labels.basket_hash != test.hash:
        raise LeakError("the labels must come from the baskets of `test`")
    label_queries = LabelQueries.from_pairs(labels.query, labels.item)
    best = best_sellers(train, queries)
    counted = partners(train, np.union1d(label_queries.queries, best))
    return EvaluationTask(
        labels=labels,
        label_queries=label_queries,
        candidate_set=candidate_set(counted, label_queries.queries, candidates),
        catalogue=catalogue(train, label_queries.queries),
        purchases=train.item_counts,
        pair_count=counted.values("count", label_queries.query, label_queries.item),
        held_out=HeldOutPairs.of(test, best) if queries else None,
        held_out_candidates=candidate_set(counted, best, candidates) if queries else None,
        hidden_items=leave_one_out(train, test, carts=carts, rng=seed) if carts else None,
        train_hash=train.hash,
        test_hash=test.hash,
    )


@dataclass(frozen=True)
class ModelRanks:
    """The ranks and answers of one training of a model."""

    label_ranks: Mapping[str, LabelRanks]
    """By name of the candidate set."""
    held_out: Codes | None = None
    """Answers to the queries of the held-out lift, shape (queries, TOP)."""
    cart_answers: Codes | None = None
    """Answers to the carts, shape (carts, TOP)."""


def evaluate_model(model: Scorer, task: EvaluationTask, *, label_free: bool = True) -> ModelRanks:
    """Rank the labels by `model`; the label-free measures need one training of a model only.

    Only a `Model` completes carts.
    """
    label_ranks = {
        candidates.name: rank_labels(model, candidates, task.label_queries)
        for candidates in task.candidate_sets
    }
    if not label_free:
        return ModelRanks(label_ranks)
    candidates, hidden = task.held_out_candidates, task.hidden_items
    best = None if candidates is None else best_of(model, candidates)
    answers = None
    if hidden is not None and isinstance(model, Model):
        answers = answer_hidden(partial(rank_carts, model), hidden)
    return ModelRanks(label_ranks, best, answers)
