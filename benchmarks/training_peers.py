"""The peers of `training_speed`: gensim's word2vec, and NEAT in PyTorch as one writes it from the paper."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.label_data import read_orders

WINDOW, NEGATIVES, DIM = 5, 5, 100
BATCH, BATCHES = 128, 400
TORCH_FOLDER = "NEATREC_TORCH"
"""The variable that names the folder PyTorch lies in, where it is not installed with the rest."""

Job = Callable[[], int]


def directed_pairs(sizes: np.ndarray) -> int:
    """How many directed pairs baskets have within the window."""
    return int(sum(2 * np.maximum(sizes - k, 0).sum() for k in range(1, WINDOW + 1)))


def gensim_skip_gram() -> Job:
    """One epoch of gensim's skip-gram from a corpus file, one worker."""
    from gensim.models import Word2Vec

    orders = read_orders()
    folder = tempfile.TemporaryDirectory()
    corpus = Path(folder.name) / "corpus.txt"
    ends = np.cumsum(orders.sizes)[:-1]
    corpus.write_text("".join(" ".join(map(str, basket)) + "\n" for basket in np.split(orders.item, ends)))
    model = Word2Vec(
        vector_size=DIM,
        sg=1,
        negative=NEGATIVES,
        window=WINDOW,
        sample=0,
        shrink_windows=False,
        ns_exponent=0.75,
        min_count=1,
        workers=1,
        seed=1,
    )
    model.build_vocab(corpus_file=str(corpus))

    def job() -> int:
        model.train(
            corpus_file=str(corpus),
            total_examples=model.corpus_count,
            total_words=model.corpus_total_words,
            epochs=1,
        )
        folder.cleanup()
        return directed_pairs(orders.sizes)

    return job


def torch_neat() -> Job:
    return _torch_neat(sparse=False)


def torch_neat_sparse() -> Job:
    return _torch_neat(sparse=True)


def _torch_neat(sparse: bool) -> Job:
    """NEAT with `nn.Embedding`, autograd and SGD, batches of 128 pairs with five negatives each, one thread."""
    if folder := os.environ.get(TORCH_FOLDER):
        sys.path.append(folder)
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    orders = read_orders()
    query, item = _some_pairs(orders, (BATCHES + 5) * BATCH)
    queries, items = torch.from_numpy(query), torch.from_numpy(item)
    weights = torch.from_numpy(np.bincount(orders.item, minlength=orders.items) ** 0.75)
    model = _gaussians(torch, orders.items, sparse)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(start: int) -> None:
        batch = slice(start, start + BATCH)
        drawn = torch.multinomial(weights, BATCH * NEGATIVES, replacement=True).view(BATCH, NEGATIVES)
        near = model(queries[batch].unsqueeze(1), items[batch].unsqueeze(1))
        far = model(queries[batch].unsqueeze(1), drawn)
        loss = torch.relu(0.5 - near + far).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for warm in range(5):
        step(warm * BATCH)

    def job() -> int:
        for number in range(5, 5 + BATCHES):
            step(number * BATCH)
        return BATCHES * BATCH

    return job


def _gaussians(torch: Any, items: int, sparse: bool) -> Any:
    class Gaussians(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.mean = torch.nn.Embedding(items, DIM, sparse=sparse)
            self.log_variance = torch.nn.Embedding(items, 1, sparse=sparse)
            torch.nn.init.uniform_(self.mean.weight, -(DIM**-0.5), DIM**-0.5)
            torch.nn.init.zeros_(self.log_variance.weight)

        def forward(self, query: Any, item: Any) -> Any:
            """log E(q, v), without the constant that all pairs share."""
            variance = self.log_variance(query).exp() + self.log_variance(item).exp()
            distance = ((self.mean(query) - self.mean(item)) ** 2).sum(-1)
            variance = variance.squeeze(-1)
            return -0.5 * (DIM * variance.log() + distance / variance)

    return Gaussians()


def _some_pairs(orders: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `count` directed pairs within the window, in a random order."""
    query, item = [], []
    for k in range(1, WINDOW + 1):
        same = orders.basket[:-k] == orders.basket[k:]
        query += [orders.item[:-k][same], orders.item[k:][same]]
        item += [orders.item[k:][same], orders.item[:-k][same]]
    every = np.random.default_rng(0).choice(sum(len(q) for q in query), size=count, replace=False)
    return np.concatenate(query)[every].astype(np.int64), np.concatenate(item)[every].astype(np.int64)
