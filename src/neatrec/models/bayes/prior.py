"""`Weights`: how strong the prior of a pair is and what it is made of; the posterior mean that ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.models.bayes.features import SIGNS, Block

FARTHEST = 8.0
"""Prior log-lifts are cut off here: e^8 is 3,000 times as often as by chance."""


@dataclass(frozen=True)
class Weights:
    """A lift has a gamma prior of mean exp(signs . weights), worth `k` expected times together.

    `near` is the share of the evidence that is taken from near pairs. Without signs (`signs` None) the prior mean is 0,
    and the posterior mean is shrunk lift, C / (E + k).
    """

    k: float
    near: float
    signs: npt.NDArray[np.float64] | None

    @classmethod
    def from_array(cls, values: npt.NDArray[np.float64]) -> Weights:
        """k, share of near pairs, then the weights of the signs; nothing more for shrunk lift."""
        signs = values[2:] if len(values) > 2 else None
        return cls(float(values[0]), float(values[1]), signs)

    def to_array(self) -> npt.NDArray[np.float64]:
        start = np.array([self.k, self.near])
        return start if self.signs is None else np.concatenate([start, self.signs])

    def log_prior(self, signs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The logarithm of the prior mean; `signs` has the signs on its last axis. 0 without signs."""
        if self.signs is None:
            return np.zeros(signs.shape[:-1], dtype=np.float32)
        log_mean = signs @ self.signs.astype(np.float32)
        return np.clip(log_mean, -FARTHEST, FARTHEST, out=log_mean)

    def score(self, block: Block | Any) -> npt.NDArray[np.float32]:
        """The posterior mean, (C + k m) / (E + k), of everything in `block`."""
        near, k = np.float32(self.near), np.float32(self.k)
        count = block.count + near * (block.near_count - block.count)
        expected = block.expected + near * (block.near_expected - block.expected) + k
        if self.signs is not None:
            count += k * np.exp(self.log_prior(block.signs))
        return np.asarray(count / expected, dtype=np.float32)


START = Weights(2.0, 0.15, np.array([0.0, *[0.3] * (len(SIGNS) - 1)]))
"""Where the search for weights begins."""
