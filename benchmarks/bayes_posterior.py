"""Does the posterior of `bayes` come true? Its promises for the first answers against counts of other baskets.

The first ten answers to the 1,000 best sellers: the times together that the raw lift and the posterior mean promise for
the other baskets and the times that came, by tenths of the posterior mean; and how many counts fell into the central
interval that the posterior gives for a count (negative binomial).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from neatrec.data.baskets import Baskets
from neatrec.data.splits import Split
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes
from neatrec.models.counts import PairCounts

QUERIES, FIRST = 1_000, 10
LEVELS = (0.9, 0.95)
Floats = npt.NDArray[np.float64]


def promises(split: Split) -> dict[str, Any]:
    """Times together promised and come, their ratios by tenths of the posterior mean, and coverage."""
    model = make_model("bayes").fit(split.train, Run(rng=0))
    if not isinstance(model, Bayes):
        raise TypeError("`bayes` is the model with a posterior")
    return _record(model, split.test)


def _record(model: Bayes, others: Baskets) -> dict[str, Any]:
    later = PairCounts.of(others, model.parameters.counting())
    queries = np.argsort(-model.item_count, kind="stable")[:QUERIES]
    answers = model.recommend_carts([np.array([query], dtype=np.int32) for query in queries], FIRST)
    query = np.repeat(queries, [len(codes) for codes in answers]).astype(np.int32)
    item = np.concatenate(answers)
    counts = model.features.counts
    raw = counts.of_pairs(query, item) / counts.expected(counts.total[query], counts.total[item])
    chance = later.expected(later.total[query], later.total[item])
    mean = model.posterior(query, item).mean
    came = later.of_pairs(query, item).astype(np.float64)
    tenths = np.array_split(np.argsort(mean, kind="stable"), 10)
    return {
        "pairs": len(item),
        "raw lift promised": round(float((raw * chance).sum())),
        "posterior promised": round(float((mean * chance).sum())),
        "came": round(float(came.sum())),
        "came over promised, by tenths": [round(float(came[t].sum() / (mean * chance)[t].sum()), 2) for t in tenths],
        "posterior mean, by tenths": [round(float(mean[t].mean()), 2) for t in tenths],
        **{f"in the {level:.0%} interval": _covered(model, query, item, chance, came, level) for level in LEVELS},
    }


def _covered(model: Bayes, query: Any, item: Any, chance: Floats, came: Floats, level: float) -> float:
    """The share of later counts that lie in their central predictive interval."""
    shape, rate = model.posterior_gamma(query, item)
    share, tail = np.where(chance > 0, rate / (rate + chance), 1.0), (1 - level) / 2
    # the count lies in the interval when its own tails say so: no quantile has to be searched for
    up_to, below = special.betainc(shape, came + 1, share), special.betainc(shape, np.maximum(came, 1e-9), share)
    below = np.where(came > 0, below, 0.0)
    return round(float(((up_to >= tail) & (below < 1 - tail)).mean()), 3)


def show(name: str, record: dict[str, Any]) -> None:
    print(f"\n{name}\n")
    for key, value in record.items():
        print(f"| {key} | {value} |", flush=True)
