"""How good the evidence for a pair is, in one word."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

GRADES = ("strong", "some", "predicted", "category", "rule")
"""Best first. The first three are about a pair; `category`: answered from the category; `rule`: set by the shop."""
STRONG, SOME, PREDICTED, CATEGORY, RULE = range(len(GRADES))

STRONG_Q, STRONG_LOW, STRONG_TIMES = 0.001, 2.0, 3
"""Strong: q at most this, the lower end of the 95 % interval of the lift at least this, seen at least so many times."""
SOME_Q, SOME_LOW = 0.05, 1.0
"""Some: q at most this, and the interval of the lift above this."""

Numbers = npt.NDArray[Any]


def grade_pairs(times: Numbers, lift_low: Numbers, q: Numbers) -> npt.NDArray[np.uint8]:
    """The grade of each pair, a number into `GRADES`; NaN (not known) is no evidence.

    `times` are those that `q` was made of: customers where they return, baskets otherwise.

    >>> grade_pairs(np.array([37, 2, 1]), np.array([9.2, 1.5, 0.1]), np.array([1e-6, 0.01, 1.0])).tolist()
    [0, 1, 2]
    """
    with np.errstate(invalid="ignore"):
        strong = (q <= STRONG_Q) & (lift_low >= STRONG_LOW) & (times >= STRONG_TIMES)
        some = (q <= SOME_Q) & (lift_low > SOME_LOW)
    return np.where(strong, STRONG, np.where(some, SOME, PREDICTED)).astype(np.uint8)


def thresholds() -> dict[str, dict[str, float]]:
    """What the grades mean, as a manifest states it."""
    return {
        "strong": {"q": STRONG_Q, "lift_low": STRONG_LOW, "times": STRONG_TIMES},
        "some": {"q": SOME_Q, "lift_low": SOME_LOW, "times": 1},
    }
