"""The GPU kernels by themselves: pairs a second over baskets that lie on the card, timed by the card's own clock."""

from __future__ import annotations

from typing import Any

import numpy as np

from neatrec.data.baskets import Baskets
from neatrec.models import make_model
from neatrec.models.embeddings.kernels import gpu_call
from neatrec.models.embeddings.kernels.arguments import KernelInput
from neatrec.models.embeddings.kernels.gpu import cupy
from neatrec.models.embeddings.kernels.gpu_feed import GpuBasketFeed, HostBaskets
from neatrec.models.embeddings.model import EmbeddingModel
from neatrec.models.embeddings.sampling import VisitOrder, new_draws

ROUNDS = 5


def kernel_speed(name: str, baskets: Baskets, settings: dict[str, Any]) -> float:
    """Median pairs a second of a model's kernel, one launch an epoch; the first epoch is not counted."""
    model = make_model(name, settings)
    if not isinstance(model, EmbeddingModel):
        raise TypeError(f"{name} has no kernel")
    cp = cupy()
    visits = VisitOrder([baskets], baskets.item_counts, baskets.catalog.category_of(None), model.needs_users)
    draws = new_draws(visits, [baskets], model.parameters.negative_exponent, False, model.reject_bought)
    users = 0 if visits.user_ids is None else len(visits.user_ids)
    tables = gpu_call.to_gpu(tuple(model._new_tables(np.random.default_rng(0), len(baskets.catalog), users).values()))
    there = gpu_call.draws_to_gpu(draws)
    feed = GpuBasketFeed(visits.row_of_item, visits.category, baskets.lines)
    raw = HostBaskets(baskets.items, baskets.offsets, visits.users_of(baskets), baskets.ordered)
    rate = model.parameters.learning_rate
    given = model._settings()._replace(rate=rate, last_rate=rate)
    speeds = []
    for epoch in range(ROUNDS + 1):
        for piece in feed.pieces(raw, 0, epoch):
            start, end = cp.cuda.Event(), cp.cuda.Event()
            start.record()
            seeded = there._replace(seed=np.uint64(epoch))
            stats = gpu_call.run(
                model.kernel, KernelInput(tables, piece.shard, seeded, given), 0, len(piece.shard.start)
            )
            end.record()
            end.synchronize()
            speeds.append(stats.pairs / cp.cuda.get_elapsed_time(start, end) * 1e3)
    return float(np.median(speeds[len(speeds) // (ROUNDS + 1) :]))
