"""The peers of `gpu_training`: NEAT in PyTorch as one writes it from the paper, BPR of implicit.

Needs torch, and implicit with its GPU part (`pip install implicit rmm-cu13`).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy import sparse

from neatrec.data.baskets import Baskets

WINDOW, NEGATIVES, DIM = 5, 5, 100
SECONDS = 1.0
BATCHES = (128, 1024, 8192, 65_536, 262_144, 524_288, 1_048_576, 2_097_152, 4_194_304)
"""Of 128 pairs as in the paper, then larger ones until that no longer helps."""
WORTH = 1.02
"""A batch helps where it is at least so much faster than the one before."""
ITERATIONS = 6

Row = dict[str, Any]


def torch_speeds(baskets: Baskets) -> list[Row]:
    """Million pairs per second for each size of batch, with dense and with sparse gradients."""
    import torch

    pairs = [torch.from_numpy(codes).cuda() for codes in _pairs(baskets)]
    weights = torch.from_numpy(baskets.item_counts**0.75).float().cuda()
    rows: list[Row] = []
    for is_sparse in (False, True):
        before = 0.0
        for batch in BATCHES:
            row = {"batch": batch, "sparse": is_sparse}
            try:
                speed = _torch_speed(pairs, weights, batch, is_sparse)
            except torch.cuda.OutOfMemoryError:
                rows.append({**row, "million_pairs_a_second": "out of memory"})
                break
            rows.append({**row, "million_pairs_a_second": round(speed / 1e6, 3)})
            print(rows[-1], flush=True)
            if speed < before * WORTH:
                break
            before = speed
        torch.cuda.empty_cache()
    return rows


def _torch_speed(pairs: list[Any], weights: Any, batch: int, is_sparse: bool) -> float:
    """Pairs per second of nn.Embedding, autograd and SGD."""
    import torch

    torch.manual_seed(0)
    queries, partners = pairs
    mean = torch.nn.Embedding(len(weights), DIM, sparse=is_sparse).cuda()
    log_variance = torch.nn.Embedding(len(weights), 1, sparse=is_sparse).cuda()
    torch.nn.init.uniform_(mean.weight, -(DIM**-0.5), DIM**-0.5)
    torch.nn.init.zeros_(log_variance.weight)
    optimizer = torch.optim.SGD([mean.weight, log_variance.weight], lr=0.05)

    def energy(query: Any, item: Any) -> Any:
        """log E(q, v), without the constant that all pairs share."""
        variance = (log_variance(query).exp() + log_variance(item).exp()).squeeze(-1)
        distance = ((mean(query) - mean(item)) ** 2).sum(-1)
        return -0.5 * (DIM * variance.log() + distance / variance)

    def step(start: int) -> None:
        query = queries[start : start + batch].unsqueeze(1)
        near = energy(query, partners[start : start + batch].unsqueeze(1))
        drawn = torch.multinomial(weights, batch * NEGATIVES, replacement=True)
        far = energy(query, drawn.view(batch, NEGATIVES))
        optimizer.zero_grad()
        torch.relu(0.5 - near + far).sum().backward()
        optimizer.step()

    for warm in range(3):
        step(warm * batch)
    torch.cuda.synchronize()
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < SECONDS:
        for _ in range(10):
            step(done % (len(queries) - batch))
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
    pairs = np.stack([np.concatenate(query), np.concatenate(item)]).astype(np.int64)
    shuffled = pairs[:, np.random.default_rng(0).permutation(pairs.shape[1])]
    return shuffled[0], shuffled[1]


def implicit_speeds(baskets: Baskets) -> list[Row]:
    """Million triples (a user, an item bought, another item) per second of BPR."""
    from implicit.gpu.bpr import BayesianPersonalizedRanking

    bought = _matrix(baskets)
    rows = []
    for verify in (True, False):
        ends = [time.perf_counter()]
        model = BayesianPersonalizedRanking(
            factors=DIM, iterations=ITERATIONS, verify_negative_samples=verify, random_state=0
        )
        model.fit(
            bought,
            show_progress=False,
            callback=lambda *_, ends=ends: ends.append(time.perf_counter()),
        )
        seconds = float(np.median(np.diff(ends)[1:]))
        row = {
            "what": f"implicit BPR, {'verified' if verify else 'unverified'} negatives",
            "users": bought.shape[0],
            "million_triples_an_epoch": round(bought.nnz / 1e6, 3),
            "seconds_an_epoch": round(seconds, 4),
            "million_triples_a_second": round(bought.nnz / seconds / 1e6, 1),
        }
        rows.append(row)
        print(row, flush=True)
    return rows


def _matrix(baskets: Baskets) -> sparse.csr_matrix:
    """Which user has bought which item; a basket is a user where users are unknown."""
    owner = np.arange(len(baskets)) if baskets.users is None else baskets.users
    rows = np.repeat(owner, baskets.sizes)
    ones = np.ones(len(rows), dtype=np.float32)
    shape = (int(owner.max()) + 1, len(baskets.catalog))
    bought = sparse.csr_matrix((ones, (rows, baskets.items)), shape=shape)
    bought.sum_duplicates()
    bought.data[:] = 1
    return bought
