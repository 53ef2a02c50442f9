from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.counting_reference import shops
from neatrec.data import UNKNOWN, Attribute, Baskets, Catalog, string_array
from neatrec.errors import ParameterError


@settings(max_examples=40)
@given(shops(), st.data())
def test_a_selection_holds_its_baskets_line_by_line(baskets: Baskets, data: st.DataObject) -> None:
    numbers = st.integers(0, max(len(baskets) - 1, 0))
    selected = data.draw(st.lists(numbers, max_size=5 if len(baskets) else 0))
    part = baskets.select(np.array(selected, dtype=np.int64))
    assert lists_of(part) == [lists_of(baskets)[b] for b in selected]
    assert part.ids.to_pylist() == [baskets.ids[b].as_py() for b in selected]
    if baskets.users is not None:
        assert part.users.tolist() == baskets.users[selected].tolist()


def lists_of(baskets: Baskets) -> list[list[int]]:
    return [baskets.items[a:b].tolist() for a, b in pairwise(baskets.offsets)]


def test_arrays_are_frozen() -> None:
    baskets = Baskets.from_lists([["a", "b"]])
    with pytest.raises(ValueError, match="read-only"):
        baskets.items[0] = 1


def test_the_hash_sees_every_part() -> None:
    base = Baskets.from_lists([["a", "b"], ["b"]])
    others = [
        Baskets.from_lists([["b", "a"], ["b"]]),
        Baskets.from_lists([["a"], ["b", "b"]]),
        Baskets.from_lists([["a", "b"], ["b"]], ordered=False),
        Baskets.from_lists([["a", "b"], ["b"]], ids=["x", "y"]),
        Baskets.from_lists([["a", "b"], ["b"]], users=["x", "y"]),
    ]
    assert len({base.hash, *(other.hash for other in others)}) == 6


WRONG_BASKETS = [
    ({"offsets": np.array([0, 1])}, "`offsets` must be from 0 to the number of lines"),
    ({"items": np.array([0, 9, 1])}, "`items` must be 3 codes from 0 to 1, got array"),
    ({"ids": string_array(["x"])}, "`ids`"),
    ({"users": np.array([0, 0])}, "`users` and `user_ids` must be given together"),
    ({"times": np.array([1])}, "`times`"),
    ({"attributes": {"store": Attribute(np.array([0, 7], np.int32), ("s",))}}, "`store`"),
]
WRONG_CATALOGUES = [
    ({"ids": string_array(["a", "a"])}, "`ids` of a catalogue must be unique"),
    ({"categories": np.zeros((1, 1), np.int32)}, "`categories` must be of the shape"),
    ({"categories": np.array([[0], [4]])}, "`categories of category`"),
    ({"variants": string_array(["v"])}, "must be given together"),
    ({"variants": string_array(["v"]), "variant_codes": np.array([3])}, "`variant_codes`"),
]


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        *((Baskets, *each) for each in WRONG_BASKETS),
        *((Catalog, *each) for each in WRONG_CATALOGUES),
    ],
)
def test_wrong_arrays_are_refused_by_name(kind: type, change: dict[str, Any], message: str) -> None:
    catalog = Catalog.from_ids(["a", "b"], categories=["x", "y"])
    good = Baskets.from_lists([["a", "b"], ["b"]], catalog=catalog) if kind is Baskets else catalog
    with pytest.raises(ParameterError, match=message):
        kind(**{**{f: getattr(good, f) for f in good.__dataclass_fields__}, **change})


def test_a_catalogue_keeps_paths_variants_and_gaps(tmp_path: Path) -> None:
    catalog = Catalog(
        string_array(["tea", "milk", "bag"]),
        string_array(["Green Tea", None, "Bag"]),
        levels=("department", "aisle"),
        categories=np.array([[0, 0], [1, 1], [UNKNOWN, UNKNOWN]]),
        category_names=(("drinks", "dairy"), ("teas", "milks")),
        variants=string_array(["tea-20", "tea-50"]),
        variant_codes=np.array([0, 0]),
    )
    catalog.save(tmp_path / "catalog.parquet")
    again = Catalog.load(tmp_path / "catalog.parquet")
    assert again.hash == catalog.hash
    assert again.category_path(0) == ("drinks", "teas")
    assert again.category_path(2) == ()
    assert (again.name(0), again.name(1)) == ("Green Tea", "milk")
    assert again.code_of_variant == {"tea-20": 0, "tea-50": 0}
    assert again.category_of().tolist() == [0, 1, UNKNOWN]
    assert again.category_of("department").tolist() == [0, 1, UNKNOWN]
    with pytest.raises(ParameterError, match="Did you mean 'aisle'"):
        again.category_of("aile")
