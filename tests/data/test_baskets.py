from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neatrec.data import UNKNOWN, Attribute, Baskets, Catalog, string_array
from neatrec.errors import BundleError, ParameterError

ITEM = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@st.composite
def any_baskets(draw: st.DrawFn) -> Baskets:
    lists = draw(st.lists(st.lists(ITEM, max_size=6), max_size=8))
    users = draw(st.none() | st.lists(ITEM, min_size=len(lists), max_size=len(lists)))
    baskets = Baskets.from_lists(lists, ordered=draw(st.booleans()), users=users)
    stores = Attribute(np.zeros(len(lists), np.int32), ("a store",))
    times = np.arange(len(lists), dtype=np.int64) if draw(st.booleans()) else None
    return Baskets(
        **{
            **{f: getattr(baskets, f) for f in baskets.__dataclass_fields__},
            "times": times,
            "attributes": {"s": stores},
        }
    )


@settings(max_examples=40)
@given(any_baskets(), st.data())
def test_a_selection_holds_the_chosen_baskets_line_by_line(
    baskets: Baskets, data: st.DataObject
) -> None:
    chosen = (
        data.draw(st.lists(st.integers(0, max(len(baskets) - 1, 0)), max_size=5))
        if len(baskets)
        else []
    )
    part = baskets.select(np.array(chosen, dtype=np.int64))
    expected = [baskets.items[baskets.offsets[b] : baskets.offsets[b + 1]].tolist() for b in chosen]
    assert [
        part.items[part.offsets[b] : part.offsets[b + 1]].tolist() for b in range(len(part))
    ] == expected
    assert part.ids.to_pylist() == [baskets.ids[b].as_py() for b in chosen]


def test_a_mask_selects_like_its_numbers() -> None:
    baskets = Baskets.from_lists([["a", "b"], ["b"], ["a"]], users=["u", "v", "u"])
    mask = np.array([True, False, True])
    assert baskets.select(mask).hash == baskets.select(np.array([0, 2])).hash
    assert baskets.select(mask).users.tolist() == [0, 0]


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
    ({"users": np.array([0, 5]), "user_ids": string_array(["u"])}, "`users`"),
    ({"times": np.array([1])}, "`times`"),
    ({"attributes": {"store": Attribute(np.array([0, 7], np.int32), ("s",))}}, "`store`"),
]
WRONG_CATALOGUES = [
    ({"ids": string_array(["a", "a"])}, "`ids` of a catalogue must be unique"),
    ({"names": string_array(["a"])}, "`names`"),
    ({"categories": np.zeros((1, 1), np.int32)}, "`categories` must be of the shape"),
    ({"categories": np.array([[0], [4]])}, "`categories of category`"),
    ({"category_names": (("x", "x"),)}, "`category_names` must be unique at level 'category'"),
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


TEXT = pa.array(["x", "y"])
TAMPERINGS = [
    (("variants", pa.array([1, 2])), "cast"),
    (("id", pa.array(["x", "x"])), "unique and not null"),
    (("category:category", None), "category:category"),
    (("category:category", TEXT), "x"),
    ({b"neatrec_levels": b"[]"}, "longer"),
    ({b"neatrec_category_names": b"{"}, "property name"),
]


@pytest.mark.parametrize(("change", "reason"), TAMPERINGS)
def test_a_damaged_or_foreign_catalogue_is_refused(
    tmp_path: Path, change: Any, reason: str
) -> None:
    """Metadata of the table is replaced, or a column, or dropped."""
    file = tmp_path / "catalog.parquet"
    with pytest.raises(BundleError, match="cannot read a catalogue from"):
        Catalog.load(file)
    Catalog.from_ids(["a", "b"], categories=["drinks", "food"]).save(file)
    table = pq.read_table(file)
    metadata = {**table.schema.metadata, **(change if isinstance(change, dict) else {})}
    if isinstance(change, tuple):
        column, values = change
        table = table.drop_columns([column])
        table = table if values is None else table.append_column(column, values)
    pq.write_table(table.replace_schema_metadata(metadata), file)
    with pytest.raises(BundleError, match=f"cannot read a catalogue from .*: .*{reason}"):
        Catalog.load(file)


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
