"""`shrunk-lift-tuned`: the strength is chosen inside the training baskets, and said."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from helpers.toyshop import PARTNERS, code, toy_baskets
from neatrec import statistics
from neatrec.cooccurrence import CountBook
from neatrec.data import Baskets, half
from neatrec.models import make_model, rank
from neatrec.models.counts import CountParameters, PairCounts
from neatrec.models.statistics import STRENGTHS, hits_by_strength, strong_pairs


def counts_of(baskets: Baskets) -> PairCounts:
    return PairCounts.of(CountBook(baskets), CountParameters().counting())


def test_strong_pairs_are_the_planted_ones() -> None:
    query, item = strong_pairs(counts_of(toy_baskets(2000)), strong_lift=2.0)
    planted = {(code(a), code(b)) for a, b in PARTNERS.items()} | {
        (code(b), code(a)) for a, b in PARTNERS.items()
    }
    assert set(zip(query.tolist(), item.tolist(), strict=True)) == planted


def test_hits_agree_with_a_full_sort() -> None:
    """Against ranking each whole row; a small random shop without equal scores among the first ten."""
    rng = np.random.default_rng(5)
    lists = [[f"i{n:02d}" for n in rng.choice(40, size=6, replace=False)] for _ in range(400)]
    counts = counts_of(Baskets.from_lists(lists))
    query = np.repeat(np.arange(40, dtype=np.int32), 3)
    item = ((query + np.tile([1, 2, 3], 40)) % 40).astype(np.int32)
    hits = hits_by_strength(counts, query, item)
    for number, k in enumerate(STRENGTHS):
        plain = 0.0
        for q, v in zip(query, item, strict=True):
            row = counts.matrix[[q]].toarray()[0]
            score = statistics.shrunk_lift(row, counts.expected(counts.total[q], counts.total), k)
            higher, equal = (score > score[v]).sum(), (score[row > 0] == score[v]).sum()
            plain += np.clip((10 - higher) / equal, 0, 1) if row[v] else 0
        assert hits[number] == pytest.approx(plain)


def test_accidents_among_rare_items_call_for_more_shrinkage() -> None:
    """A partner seen 8 times where 1.5 were expected, and 20 rare items met twice by accident, 0.01 expected."""
    row = np.array([0, 8] + [2] * 20)
    table = np.zeros((22, 22), dtype=np.int64)
    table[0], table[:, 0] = row, row
    counts = PairCounts(sparse.csr_matrix(table), np.array([10, 150] + [1] * 19 + [821]))
    hits = hits_by_strength(counts, np.array([0], dtype=np.int32), np.array([1], dtype=np.int32))
    assert dict(zip(STRENGTHS, hits.tolist(), strict=True))[0.25] == 0
    assert dict(zip(STRENGTHS, hits.tolist(), strict=True))[1.0] == 1


def sixty_pairs() -> Baskets:
    """6,000 baskets of a pair that belongs together and three accidents."""
    rng = np.random.default_rng(2)
    lists = []
    for _ in range(6000):
        pair = rng.integers(60)
        lists.append(
            [
                f"left-{pair}",
                f"right-{pair}",
                *(f"rare-{n}" for n in rng.choice(3000, size=3, replace=False)),
            ]
        )
    return Baskets.from_lists(lists)


def test_the_strength_with_most_hits_is_chosen() -> None:
    learned = make_model("shrunk-lift-tuned").fit(sixty_pairs()).learned
    assert learned["strong_pairs"] >= 240
    assert learned["hit_rates"][f"{learned['k']:g}"] == max(learned["hit_rates"].values()) > 0.9


def test_with_known_times_the_last_fifth_validates() -> None:
    """Partners change over time: what validates must be the last fifth, and only that."""
    early = [["tea", "milk", f"noise-{n % 50}"] for n in range(800)]
    late = [[f"l-{n % 60}", f"r-{n % 60}"] for n in range(1600)]
    baskets = replace(Baskets.from_lists(early[:640] + late + early[640:]), times=np.arange(2400))
    learned = make_model("shrunk-lift-tuned").fit(baskets).learned
    pairs_of_the_last_fifth = {(f"l-{n % 60}", f"r-{n % 60}") for n in range(1280, 1600)}
    assert learned["strong_pairs"] == 2 * len(pairs_of_the_last_fifth)


def test_too_few_strong_pairs_leave_k_at_one(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="neatrec"):
        model = make_model("shrunk-lift-tuned").fit(toy_baskets(60))
    assert model.learned == {
        "k": 1.0,
        "strong_pairs": model.learned["strong_pairs"],
        "hit_rates": {},
    }
    assert "keeping k = 1" in caplog.text


@pytest.mark.real
def test_the_strength_for_the_instacart_half_split(instacart: Baskets) -> None:
    """The strength that real orders need; it puts cream cheese next to bagels."""
    train = half(instacart).train
    model = make_model("shrunk-lift-tuned").fit(train)
    assert (model.learned["k"], model.learned["strong_pairs"]) == (1.5, 10_106)
    assert rank(model, "Everything Bagels", 1).names == ["Whipped Cream Cheese"]
