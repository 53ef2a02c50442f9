"""Arrays of bundles written by earlier versions, in today's names and layout."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.models.bayes.features import PRIOR_FEATURES, RANKER_FEATURES
from neatrec.models.bayes.fit import FitSummary
from neatrec.models.bayes.prior import Prior
from neatrec.models.bayes.ranker import GoalRanking, OddsRanker

Arrays = Mapping[str, npt.NDArray[Any]]
log = logging.getLogger(__name__)

RENAMED = {"like": "similar", "company": "neighbours", "order_categories": "category_order", "lessons": "fit_summary"}
"""Old -> new: arrays, or the first part of the names of a sparse matrix's three arrays."""
OLD_PRIOR = ("level", "low_rank", "similar_names", "categories", "words", "item_popularity")
OLD_RANKER = (
    *("log_lift", "log_expected", "log_count", "cosine", "query_popularity", "item_order"),
    *("category_order", "neighbours", "significance"),
)
"""The features of version 1 in its order; some do not exist any more."""


def upgraded(arrays: Arrays) -> Arrays:
    """The arrays as today's version writes them; those of today's version are returned as they are."""
    if "weights" in arrays:
        arrays = _renamed(arrays)
    prior_array = arrays["prior"]
    if len(prior_array) == 2 + len(OLD_PRIOR):
        weights = _reordered(prior_array[2:], OLD_PRIOR, list(PRIOR_FEATURES))
        arrays = {**arrays, "prior": np.concatenate([prior_array[:2], weights])}
    if "rankings" in arrays:
        return arrays
    out = dict(arrays)
    prior, gains = Prior.from_array(out["prior"]), out["fit_summary"].tolist()
    found = (out.pop(name) for name in ("lift_ranker", "sure_ranker"))
    lift, evidence = (OddsRanker.from_array(weights) if len(weights) else None for weights in found)
    rankings = rankings_of(prior, lift, evidence)
    return out | FitSummary(prior, int(gains[0]), gains[1], gains[2], rankings).to_arrays()


def rankings_of(prior: Prior, lift: OddsRanker | None, evidence: OddsRanker | None) -> dict[str, GoalRanking]:
    """By goal: the odds, or what ranked where they did not help; balanced is the mean of both log-odds."""
    by_lift = GoalRanking("posterior-lift") if lift is None else GoalRanking("odds", (lift,))
    by_evidence = GoalRanking("llr") if evidence is None else GoalRanking("odds", (evidence,))
    if prior.weights is None:
        by_lift = GoalRanking("shrunk-lift", k=prior.k)
        return {"balanced": by_lift, "lift": by_lift, "evidence": by_lift if evidence else by_evidence}
    blend = OddsRanker.blend(lift or OddsRanker.alone("log_lift"), evidence or OddsRanker.alone("significance"), 0.5)
    return {"balanced": GoalRanking("odds", (blend,)), "lift": by_lift, "evidence": by_evidence}


def _renamed(arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """Those of version 1."""
    out: dict[str, npt.NDArray[Any]] = {}
    for name, array in arrays.items():
        first, _, rest = name.partition("_")
        out[RENAMED.get(name) or (f"{RENAMED[first]}_{rest}" if first in RENAMED else name)] = array
    out["prior"] = out.pop("weights")
    for new, old in (("lift_ranker", "ranking"), ("sure_ranker", "sure_ranking")):
        found = out.pop(old, np.zeros(0))
        out[new] = np.concatenate([found[:1], _reordered(found[1:], OLD_RANKER, list(RANKER_FEATURES))])
    return out


def _reordered(weights: npt.NDArray[np.float64], old: Sequence[str], new: Sequence[str]) -> npt.NDArray[np.float64]:
    """The weights in the order of `new`; those of features that are gone are ignored with a warning."""
    if not len(weights):
        return np.zeros(0)
    by_name = dict(zip(old, weights.tolist(), strict=False))
    if gone := [name for name in by_name if name not in new and by_name[name]]:
        log.warning("ignoring the weights of features that do not exist any more: %s", ", ".join(gone))
    return np.array([by_name.get(name, 0.0) for name in new])
