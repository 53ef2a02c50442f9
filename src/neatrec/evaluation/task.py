"""`Exam`: the questions every model gets, made once; `sit`: a model's answers to them; `Answers`, which can be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.splits import refuse_overlap
from neatrec.errors import LeakError, ParameterError
from neatrec.evaluation.candidates import (
    Candidates,
    Catalogue,
    Numbers,
    Partners,
    RecallSet,
    catalogue,
    partners,
    recall_set,
)
from neatrec.evaluation.cart_completion import CARTS, LeftOut, Places, leave_one_out, places
from neatrec.evaluation.held_out_lift import QUERIES, HeldOut, best_sellers, held_out
from neatrec.evaluation.metrics import KS
from neatrec.evaluation.ranks import Asked, Judged, Scorer, best_of, judge
from neatrec.labels import Labels

TOP = max(KS)
"""Answers kept for each query."""


@dataclass(frozen=True)
class Exam:
    """Label records with their candidate sets, queries for the held-out lift, carts to complete."""

    labels: Labels
    asked: Asked
    recall: RecallSet
    catalogue: Catalogue
    purchases: Numbers
    """Lines of each item in the training baskets, shape (items,)."""
    pair_count: Numbers
    """Times each label's pair was bought together in training, shape (labels,)."""
    held_out: HeldOut | None
    held_out_recall: RecallSet | None
    """What competes in the held-out measure: the recall sets of its queries."""
    left_out: LeftOut | None
    train_hash: str
    test_hash: str

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        return self.recall, self.catalogue

    def mask(self, level: float) -> npt.NDArray[np.bool_]:
        """Which label records hold at `level`, shape (labels,)."""
        return self.labels.at(level)


def make_exam(
    train: Baskets,
    test: Baskets,
    labels: Labels,
    *,
    recall: int = 200,
    queries: int = QUERIES,
    carts: int = CARTS,
    seed: int = 0,
) -> Exam:
    """The questions: `labels` come from `test`, candidates from `train`; the two must not share a basket.

    `queries` best sellers are asked for the held-out lift and `carts` baskets completed; 0 leaves a measure out.
    """
    refuse_overlap(train, test)
    _check_origin(labels, train, test)
    asked = Asked.from_pairs(labels.query, labels.item)
    best = best_sellers(train, queries) if queries else np.zeros(0, dtype=np.int32)
    counted = partners(train, np.union1d(asked.queries, best))
    return Exam(
        labels=labels,
        asked=asked,
        recall=recall_set(_only(counted, asked.queries), recall),
        catalogue=catalogue(train, asked.queries),
        purchases=train.item_counts,
        pair_count=counted.count_of(asked.query, asked.item),
        held_out=held_out(test, best) if queries else None,
        held_out_recall=recall_set(_only(counted, best), recall) if queries else None,
        left_out=leave_one_out(train, test, carts=carts, rng=seed) if carts else None,
        train_hash=train.hash,
        test_hash=test.hash,
    )


def _check_origin(labels: Labels, train: Baskets, test: Baskets) -> None:
    if train.catalog.hash != test.catalog.hash or labels.catalog.hash != test.catalog.hash:
        raise ParameterError("`train`, `test` and `labels` must be over one catalogue")
    if labels.basket_hash == train.hash:
        raise LeakError("the labels come from the training baskets", hint="Make them from the test baskets.")
    if labels.basket_hash != test.hash:
        raise ParameterError("the labels come from other baskets than `test`", hint="Make them from the test baskets.")


def _only(counted: Partners, queries: npt.NDArray[np.int32]) -> Partners:
    """The partners of some of the queries."""
    rows = np.searchsorted(counted.queries, queries)
    sizes = np.diff(counted.offsets)[rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    pairs = np.repeat(counted.offsets[rows] - offsets[:-1], sizes) + np.arange(offsets[-1])
    return Partners(queries, offsets, counted.items[pairs], counted.counts[pairs], counted.margins, counted.catalog)


@dataclass(frozen=True)
class Answers:
    """What one training of a model did with the exam."""

    judged: Mapping[str, Judged]
    """By name of the candidate set."""
    held_out: npt.NDArray[np.int32] | None = None
    """Recommendations for the queries of the held-out lift, shape (queries, TOP)."""
    completed: Places | None = None
    """Where the hidden items came back, shape (carts,)."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as named arrays, for a file."""
        out: dict[str, npt.NDArray[Any]] = {}
        for name, judged in self.judged.items():
            out |= {f"{name}.higher": judged.higher, f"{name}.equal": judged.equal, f"{name}.best": judged.best}
        extra = {"held_out": self.held_out, "completed": self.completed}
        return out | {name: array for name, array in extra.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Answers:
        """What `arrays` came from."""
        names = [name.removesuffix(".higher") for name in arrays if name.endswith(".higher")]
        judged = {name: Judged(*(arrays[f"{name}.{part}"] for part in ("higher", "equal", "best"))) for name in names}
        return cls(judged, arrays.get("held_out"), arrays.get("completed"))


def sit(model: Scorer, exam: Exam, *, label_free: bool = True, device: str = "cpu") -> Answers:
    """The answers of `model`. The label-free questions can be left out: a second training need not answer them.

    A model that gives scores but no recommendations (`recommend`) completes no carts. `device` is for `judge`; carts
    are completed on the CPU.
    """
    judged = {
        candidates.name: judge(model, candidates, exam.asked, top=TOP, device=device) for candidates in exam.candidates
    }
    answers = Answers(judged)
    return with_label_free(model, exam, answers, device=device) if label_free else answers


def with_label_free(model: Scorer, exam: Exam, answers: Answers, *, device: str = "cpu") -> Answers:
    """`answers`, and what the model answers to the questions that need no labels."""
    recall = exam.held_out_recall
    best = None if recall is None else best_of(model, recall, top=TOP, device=device)
    recommends = exam.left_out is not None and callable(getattr(model, "recommend", None))
    completed = places(model, exam.left_out) if recommends else None  # type: ignore[arg-type]
    return Answers(answers.judged, best, completed)
