"""The shuffle against its definition, and what it keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neatrec.data import Baskets
from neatrec.errors import ParameterError
from neatrec.labels import WITHIN, shuffled

CONTENTS = st.lists(st.lists(st.integers(0, 9), max_size=6, unique=True), max_size=12)
NAMES = st.lists(st.text(max_size=5), min_size=12, max_size=12, unique=True)


def make(contents, names=None) -> Baskets:
    ids = names[: len(contents)] if names else None
    return Baskets.from_lists([[str(item) for item in basket] for basket in contents], ids=ids)


def as_dict(baskets: Baskets) -> dict[str, list[str]]:
    items = [baskets.catalog.id(code) for code in baskets.items]
    parts = [items[a:b] for a, b in zip(baskets.offsets[:-1], baskets.offsets[1:], strict=True)]
    return dict(zip(baskets.ids.to_pylist(), parts, strict=True))


def shuffled_plainly(baskets: Baskets, seed: int, round_: int, within: str) -> dict[str, list[str]]:
    """Lines by basket and position, permuted by NumPy, their items put into the slots in order; group by group."""
    lines = [
        (name, position, len(items), item)
        for name, items in sorted(as_dict(baskets).items())
        for position, item in enumerate(items, 1)
    ]
    drawn = [lines[i] for i in np.random.default_rng([seed, round_]).permutation(len(lines))]
    group = {"none": lambda x: 0, "size": lambda x: x[2], "size+position": lambda x: (x[2], x[1])}[
        within
    ]
    out = {name: [""] * len(items) for name, items in as_dict(baskets).items()}
    for key in {group(x) for x in lines}:
        slots, items = ([x for x in some if group(x) == key] for some in (lines, drawn))
        for slot, line in zip(slots, items, strict=True):
            out[slot[0]][slot[1] - 1] = line[3]
    return out


@given(CONTENTS, NAMES, st.integers(0, 10**12), st.integers(0, 99), st.sampled_from(WITHIN))
def test_the_shuffle_is_the_defined_one(contents, names, seed, round_, within):
    baskets = make(contents, names)
    assert as_dict(shuffled(baskets, seed, round_, within)) == shuffled_plainly(
        baskets, seed, round_, within
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 0), "`seed` must be an integer of at least 0, got -1"),
        ((0, 1.5), "`round`"),
        ((0, 0, "sizes"), "`within` must be one of none, size"),
    ],
)
def test_what_cannot_be_shuffled_so_is_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        shuffled(make([[1, 2]]), *arguments)
