"""A quarter of the items hidden from the training baskets, but for a few lines: asked for, and looked for as answers.

    NEATREC_DATA=FOLDER python -m benchmarks.bayes_cold --folds     # settings are chosen here
    NEATREC_DATA=FOLDER python -m benchmarks.bayes_cold --save      # once, at the end: the folds and the test half

*Queries*: HR@10 and NDCG@10 of the labels that ask for a hidden item, whole catalogue, by the best sellers of its
category, by items with similar names too, and by vectors too (a hashed n-gram SVD of the names: no encoder is at hand).
*Answers*: HR@10 of the labels whose item is hidden and of all others, with and without new items among the answers.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import svds

from benchmarks.half_split import orders
from benchmarks.harness import save
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.data.splits import Split, half, uniform_of_ids
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.labels import Labels, make_labels
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes
from neatrec.models.bayes.cold_start import StandIns
from neatrec.models.recommendations import best
from neatrec.serving.answers import place_new
from neatrec.serving.evidence import GRADES
from neatrec.serving.pairs import PairTable

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]

HIDDEN, K, LEVEL = 0.25, 10, 0.05
PROTOCOLS = ("paper", "calibrated")
BUCKETS, DIM = 2**16, 128
BASELINE, NAMES, VECTORS = "best sellers", "names", "names and vectors"


class Answer(NamedTuple):
    """As `place_new` takes it."""

    item: int
    score: float
    grade: str


def name_vectors(catalog: Catalog) -> npt.NDArray[np.float32]:
    """Vectors of names, (items, DIM): the largest factors of their hashed words and runs of 3 to 5 characters."""
    row, column = [], []
    for code in range(len(catalog)):
        name = f" {catalog.name(code).casefold()} "
        pieces = {name[place : place + size] for size in (3, 4, 5) for place in range(len(name) - size + 1)}
        pieces |= set(name.split())
        row += [code] * len(pieces)
        column += [zlib.crc32(piece.encode()) % BUCKETS for piece in pieces]
    table = sparse.csr_matrix((np.ones(len(row)), (row, column)), shape=(len(catalog), BUCKETS)).astype(bool)
    weight = np.log(len(catalog) / np.maximum(np.asarray(table.sum(axis=0)).ravel(), 1))
    table = sparse.csr_matrix(table @ sparse.diags(weight))
    length = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    factors, values, _ = svds(sparse.diags(1 / np.maximum(length, 1e-9)) @ table, k=DIM, random_state=0)
    return np.asarray(factors * values, dtype=np.float32)


def hide(split: Split, kept: int) -> dict[str, Any]:
    """The record of one split with all but `kept` lines of each hidden item left out of its training baskets."""
    catalog = split.train.catalog
    hidden = uniform_of_ids(catalog.ids, "cold") < HIDDEN
    train = without(split.train, hidden, kept)
    model = make_model("bayes").fit(train, Run(rng=0))
    assert isinstance(model, Bayes)
    known = (model.item_count, model.features.category, model.features.similar)
    rows = {
        BASELINE: with_stand_ins(model, StandIns.of(*known[:2])),
        NAMES: model,
        VECTORS: with_stand_ins(model, StandIns.of(*known, name_vectors(catalog))),
    }
    record: dict[str, Any] = {"kept": kept}
    for protocol in PROTOCOLS:
        labels = make_labels(split.test, protocol=protocol, levels=(LEVEL,))
        record[protocol] = {"queries": of_queries(rows, labels, hidden)}
        if not kept:
            record[protocol]["answers"] = of_answers(model, train, labels)
    return record


def with_stand_ins(model: Bayes, stand_ins: StandIns) -> Bayes:
    """The same fit with other stand-ins."""
    other = copy(model)
    other.stand_ins = stand_ins
    return other


def of_queries(rows: dict[str, Bayes], labels: Labels, hidden: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """HR@10 and NDCG@10 of the labels of hidden queries, with the intervals of the differences to the baseline."""
    asked = np.unique(labels.query[hidden[labels.query]])
    sums = {name: np.array([_gains(model, int(query), labels) for query in asked]) for name, model in rows.items()}
    count = sums[BASELINE][:, 2]
    out: dict[str, Any] = {"labels": int(count.sum()), "queries": len(count)}
    base = sums[BASELINE][:, :2].sum(axis=0)
    for name, values in sums.items():
        low, high = interval(resampled_means(values[:, :2] - sums[BASELINE][:, :2], count))
        total = values[:, :2].sum(axis=0)
        hr, gain = (total / count.sum()).round(4).tolist()
        ratio = (total / np.maximum(base, 1e-9)).round(3).tolist()
        ends = [[round(float(low[n]), 4), round(float(high[n]), 4)] for n in (0, 1)]
        out[name] = {"hr@10": hr, "ndcg@10": gain, "ratio": ratio, "more_by": ends}
    return out


def _gains(model: Bayes, query: int, labels: Labels) -> Floats:
    """Hits, gains and labels of one query among all bought items of other categories; ties go to the smaller code."""
    bought = model.item_count > 0
    wanted = labels.item[(labels.query == query) & bought[labels.item]]
    first = best_items(model, query, model.score_all([query])[0], bought)[0]
    places = [int(np.flatnonzero(first == item)[0]) for item in wanted if item in first]
    return np.array([len(places), sum(1 / np.log2(2 + place) for place in places), len(wanted)])


def best_items(model: Bayes, query: int, row: npt.NDArray[Any], allowed: npt.NDArray[np.bool_]) -> tuple[Codes, Floats]:
    """The best K of the allowed items of other categories, and their scores; `row`: those of all items."""
    category = model.catalog.category_of()
    may = allowed & ((category != category[query]) | (category == UNKNOWN))
    may[query] = False
    items = np.flatnonzero(may).astype(np.int32)
    top = best(row[items].astype(np.float64), K)
    return items[top], row[items[top]]


def of_answers(model: Bayes, train: Baskets, labels: Labels) -> dict[str, Any]:
    """HR@10 of the labels of bought queries: of new items, and of the others with and without new ones."""
    pairs = PairTable.of(train, model.category_level)
    bought, hits = model.item_count > 0, np.zeros(3)
    is_new = ~bought[labels.item]
    asked = bought[labels.query]
    for query in np.unique(labels.query[asked]).tolist():
        usual, with_new = answers_of(model, pairs, query)
        mine = labels.query == query
        wanted, new = labels.item[mine & ~is_new], labels.item[mine & is_new]
        hits += np.isin(wanted, usual).sum(), np.isin(wanted, with_new).sum(), np.isin(new, with_new).sum()
    others, new_labels = int((asked & ~is_new).sum()), int((asked & is_new).sum())
    return {
        "labels of bought items": others,
        "labels of new items": new_labels,
        "hr@10 of bought items, usual": round(float(hits[0]) / others, 4),
        "hr@10 of bought items, with new ones": round(float(hits[1]) / others, 4),
        "fall": round(float(1 - hits[1] / hits[0]), 4),
        "found labels of new items": int(hits[2]),
        "hr@10 of new items": round(float(hits[2]) / max(new_labels, 1), 4),
    }


def answers_of(model: Bayes, pairs: PairTable, query: int) -> tuple[list[int], list[int]]:
    """The first ten answers, guesses included, as `ask` orders them: as usual, and with new items."""
    row = model.score_all([query])[0]
    items, scores = best_items(model, query, row, model.item_count > 0)
    grades = [GRADES[min(g, len(GRADES) - 1)] for g in pairs.columns(np.full(len(items), query), items)["grade"]]
    known = [Answer(*line) for line in zip(items.tolist(), scores.tolist(), grades, strict=True)]
    items, scores = best_items(model, query, row, model.new_items)
    new = [Answer(item, score, "guess") for item, score in zip(items.tolist(), scores.tolist(), strict=True)]
    return [line.item for line in known], [line.item for line in place_new(known, new, K)]


def without(baskets: Baskets, hidden: npt.NDArray[np.bool_], kept: int) -> Baskets:
    """The baskets with only the first `kept` lines of each hidden item."""
    order = np.argsort(baskets.items, kind="stable")
    codes = baskets.items[order]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(codes, codes)
    stays = ~hidden[baskets.items] | (place < kept)
    ends = np.concatenate([[0], np.cumsum(stays)])
    return replace(baskets, items=baskets.items[stays], offsets=ends[baskets.offsets])


def show(name: str, record: dict[str, Any]) -> None:
    for protocol in PROTOCOLS:
        found = record[protocol]["queries"]
        print(
            f"{name}, {record['kept']} lines kept, {protocol}: {found['labels']} labels of {found['queries']} queries"
        )
        for row in (BASELINE, NAMES, VECTORS):
            one = found[row]
            print(f"  {row}: {one['hr@10']:.4f} / {one['ndcg@10']:.4f}, {one['ratio']} times, more by {one['more_by']}")
        print(f"  {record[protocol].get('answers', '')}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", action="store_true", help="only the folds inside the training half")
    parser.add_argument("--save", action="store_true", help="keep a record under benchmarks/results")
    asked = parser.parse_args()
    split = half(orders(None))
    parts = {f"validation {number}": (fold, 0) for number, fold in enumerate(split.validation(), 1)}
    if not asked.folds:
        parts = {"test half": (split, 0), **parts, "test half, 2 lines kept": (split, 2)}
    records = {}
    for name, (part, kept) in parts.items():
        records[name] = hide(part, kept)
        show(name, records[name])
        if asked.save:  # what was measured is kept, whatever happens to the next part
            save("bayes_cold", records, ("numpy", "scipy", "numba"), options="--save")
    return 0


if __name__ == "__main__":
    sys.exit(main())
