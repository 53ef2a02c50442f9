"""`item2vec`: skip-gram with negative sampling on the pairs of baskets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.models.embeddings.model import PAPER, EmbeddingModel, EmbeddingParameters
from neatrec.models.parameters import ModelParameters, with_default


@dataclass(frozen=True)
class Item2VecParameters(EmbeddingParameters):
    """Parameters of `item2vec`."""

    window: int = with_default(EmbeddingParameters, "window", 10)
    negatives: int = with_default(EmbeddingParameters, "negatives", 10)
    negative_exponent: float = with_default(EmbeddingParameters, "negative_exponent", 1.0)
    learning_rate: float = with_default(EmbeddingParameters, "learning_rate", 0.8)

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {**PAPER, "batch_reduction": "sum"}
    }


class Item2Vec(EmbeddingModel):
    """Item2Vec (Barkan and Koenigstein 2016): an input and an output vector for each item."""

    name: ClassVar[str] = "item2vec"
    description: ClassVar[str] = "Skip-gram with negative sampling; cosine of the input vectors."
    kernel: ClassVar[str] = "item2vec"
    lines_visited: ClassVar[int] = 56_000_000
    Parameters: ClassVar[type[ModelParameters]] = Item2VecParameters
    tables: ClassVar[tuple[str, ...]] = ("vectors", "output")
    output: npt.NDArray[np.float32]

    def _scale(self, table: str) -> float:
        return super()._scale(table) if table == "vectors" else 0.0
