"""`shrunk-lift-tuned`: the strength is chosen inside the training baskets, and said."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from helpers.toyshop import toy_baskets
from neatrec.data import Baskets, half
from neatrec.models import make_model, rank


def sixty_pairs() -> Baskets:
    """6,000 baskets of a pair that belongs together and three accidents."""
    rng = np.random.default_rng(2)
    lists = []
    for _ in range(6000):
        pair, rare = rng.integers(60), rng.choice(3000, size=3, replace=False)
        lists.append([f"left-{pair}", f"right-{pair}", *(f"rare-{n}" for n in rare)])
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
