"""NEAT in PyTorch on a GPU, as one writes it from the paper: nn.Embedding, autograd, SGD."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.training_peers import NEGATIVES, WINDOW, _gaussians
from neatrec.data.baskets import Baskets

SECONDS = 1.0
BATCHES = (128, 1024, 8192, 65_536, 262_144, 524_288, 1_048_576, 2_097_152, 4_194_304)
"""Of 128 pairs as in the paper, then larger ones until that no longer helps."""
WORTH = 1.02
"""A batch helps where it is at least so much faster than the one before."""


def torch_speeds(baskets: Baskets) -> list[dict[str, Any]]:
    """Millions of pairs a second for each size of batch, with dense and with sparse gradients."""
    import torch

    query, item = _pairs(baskets)
    weights = torch.from_numpy(baskets.item_counts**0.75).float().cuda()
    rows = []
    for sparse in (False, True):
        before = 0.0
        for batch in BATCHES:
            try:
                speed = _speed(torch, query, item, weights, batch, sparse, len(baskets.catalog))
            except torch.cuda.OutOfMemoryError:
                rows.append({"batch": batch, "sparse": sparse, "million_pairs_a_second": "out of memory"})
                break
            rows.append({"batch": batch, "sparse": sparse, "million_pairs_a_second": round(speed / 1e6, 3)})
            print(rows[-1], flush=True)
            if speed < before * WORTH:
                break
            before = speed
        torch.cuda.empty_cache()
    return rows


def _speed(torch: Any, query: Any, item: Any, weights: Any, batch: int, sparse: bool, items: int) -> float:
    torch.manual_seed(0)
    queries, partners = torch.from_numpy(query).cuda(), torch.from_numpy(item).cuda()
    model = _gaussians(torch, items, sparse).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(start: int) -> None:
        part = slice(start, start + batch)
        drawn = torch.multinomial(weights, batch * NEGATIVES, replacement=True).view(batch, NEGATIVES)
        near = model(queries[part].unsqueeze(1), partners[part].unsqueeze(1))
        far = model(queries[part].unsqueeze(1), drawn)
        loss = torch.relu(0.5 - near + far).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for warm in range(3):
        step(warm * batch)
    torch.cuda.synchronize()
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < SECONDS:
        for _ in range(10):
            step(done % (len(query) - batch))
            done += batch
        torch.cuda.synchronize()
    return done / (time.perf_counter() - started)


def _pairs(baskets: Baskets) -> tuple[np.ndarray, np.ndarray]:
    """Directed pairs within the window of the first baskets, in a random order."""
    some = baskets.select(np.arange(min(len(baskets), 400_000)))
    basket = np.repeat(np.arange(len(some)), some.sizes)
    query, item = [], []
    for k in range(1, WINDOW + 1):
        same = basket[:-k] == basket[k:]
        query += [some.items[:-k][same], some.items[k:][same]]
        item += [some.items[k:][same], some.items[:-k][same]]
    order = np.random.default_rng(0).permutation(sum(len(part) for part in query))
    return np.concatenate(query)[order].astype(np.int64), np.concatenate(item)[order].astype(np.int64)
