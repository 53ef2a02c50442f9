"""The tables and streams that the simulation draws from."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neatrec.compiled import splitmix64
from neatrec.simulator.kernel import draw_item
from neatrec.simulator.tables import alias_table, popularity_curve

MASK = 2**64 - 1


def plain_mix(value: int) -> int:
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31)


@given(st.integers(0, MASK))
def test_the_mixer_is_that_of_splitmix64(value: int) -> None:
    assert int(splitmix64(np.uint64(value))) == plain_mix(value)


def test_items_are_drawn_by_weight() -> None:
    weights = np.array([1.0, 2.0, 3.0, 10.0])
    state = np.array([11], dtype=np.uint64)
    drawn = np.bincount(
        [draw_item(state, *alias_table(weights)) for _ in range(20_000)], minlength=4
    )
    assert np.allclose(drawn / 20_000, weights / 16, atol=0.012)


def test_the_best_seller_of_any_shop_is_in_one_basket_of_six_at_most() -> None:
    for items in (60, 1_000, 50_000):
        curve = popularity_curve(items)
        assert np.isclose(curve.sum(), 1)
        assert (np.diff(curve) <= 0).all()
        assert curve[0] <= max(0.0166, 3 / items)
