import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neatrec.data.baskets import Attribute, Baskets
from neatrec.data.catalog import UNKNOWN, Catalog, string_array
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
@given(any_baskets())
def test_saved_baskets_come_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, baskets: Baskets
) -> None:
    folder = tmp_path_factory.mktemp("baskets")
    baskets.save(folder)
    again = Baskets.load(folder)
    assert again.hash == baskets.hash
    assert again.ordered == baskets.ordered
    np.testing.assert_array_equal(again.items, baskets.items)
    np.testing.assert_array_equal(again.offsets, baskets.offsets)


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 1])}, "`offsets` must run from 0"),
        ({"offsets": np.array([0, 3, 2, 3])}, "`offsets` must not decrease"),
        ({"items": np.array([0, 9, 1])}, "`items` must be codes of the catalogue"),
        ({"ids": string_array(["x"])}, "`ids` must name each of the 2 baskets"),
        ({"users": np.array([0, 0])}, "`users` and `user_ids` must be given together"),
        (
            {"users": np.array([0, 5]), "user_ids": string_array(["u"])},
            "`users` must give each basket a code",
        ),
        ({"times": np.array([1])}, "`times` must be 2 long"),
        (
            {"attributes": {"store": Attribute(np.array([0, 7], np.int32), ("s",))}},
            "attribute 'store' must give",
        ),
    ],
)
def test_wrong_arrays_are_refused_by_name(change: dict[str, object], message: str) -> None:
    good = Baskets.from_lists([["a", "b"], ["b"]])
    with pytest.raises(ParameterError, match=message):
        Baskets(**{**{f: getattr(good, f) for f in good.__dataclass_fields__}, **change})


def test_damaged_or_foreign_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="cannot read baskets"):
        Baskets.load(tmp_path)
    Baskets.from_lists([["a", "b"]]).save(tmp_path)
    about = json.loads((tmp_path / "baskets.json").read_text())
    (tmp_path / "baskets.json").write_text(json.dumps({**about, "hash": "0"}))
    with pytest.raises(BundleError, match="the hash differs"):
        Baskets.load(tmp_path)
    (tmp_path / "baskets.json").write_text(json.dumps({**about, "format": 99}))
    with pytest.raises(BundleError, match="has basket format 99"):
        Baskets.load(tmp_path)


ABOUT_TAMPERINGS = [
    ("[]", r"baskets\.json is damaged: it must hold an object"),
    ({"ordered": None}, r"baskets\.json is damaged: `ordered` is missing or not a bool"),
    ({"ordered": "yes"}, "`ordered` is missing or not a bool"),
    ({"hash": None}, "`hash` is missing or not text"),
    ({"source": 3}, "`source` is missing or not text"),
    ({"dropped": None}, "`dropped` is missing or not a dict"),
    ({"dropped": {"returns": "many"}}, "`dropped` must count 'returns' in whole numbers"),
    ({"attributes": []}, "`attributes` is missing or not a dict"),
    ({"attributes": {"store": 3}}, "`attributes` must list the names of 'store' as text"),
    (
        {"attributes": {"town": ["x"]}},
        r"baskets\.parquet does not hold .*no column 'attribute:town'",
    ),
]


@pytest.mark.parametrize(("change", "message"), ABOUT_TAMPERINGS)
def test_a_tampered_description_is_refused_by_name(
    tmp_path: Path, change: Any, message: str
) -> None:
    Baskets.from_lists([["a", "b"], ["b"]], users=["u", "v"]).save(tmp_path)
    file = tmp_path / "baskets.json"
    about = json.loads(file.read_text())
    if isinstance(change, dict):
        about = {key: value for key, value in {**about, **change}.items() if value is not None}
    file.write_text(change if isinstance(change, str) else json.dumps(about))
    with pytest.raises(BundleError, match=message):
        Baskets.load(tmp_path)


TEXT = pa.array(["x", "y"])
TABLE_TAMPERINGS = [
    ("baskets", "items", TEXT, r"baskets\.parquet does not hold the baskets it should"),
    ("baskets", "items", None, "there is no column 'items'"),
    (
        "baskets",
        "items",
        pa.array([[0, 7], [1]], pa.large_list(pa.int32())),
        "`items` must be codes of the catalogue",
    ),
    ("baskets", "basket_id", None, "there is no column 'basket_id'"),
    ("baskets", "user", TEXT, "column 'user' must hold whole numbers, got string"),
    ("users", "user_id", None, "there is no column 'user_id'"),
    (
        "catalog",
        "variants",
        None,
        r"catalog\.parquet does not hold a catalogue: there is no column 'variants'",
    ),
    ("catalog", "variants", pa.array([1, 2]), r"catalog\.parquet does not hold a catalogue"),
    ("catalog", "id", None, "there is no column 'id'"),
    ("catalog", "id", pa.array(["x", "x"]), "unique and not null"),
    ("catalog", "category:category", None, "there is no column 'category:category'"),
    ("catalog", "category:category", TEXT, "'x' is no category of level 'category'"),
]


@pytest.mark.parametrize(("name", "column", "values", "message"), TABLE_TAMPERINGS)
def test_a_tampered_table_is_refused_by_name(
    tmp_path, name, column, values: pa.Array | None, message: str
) -> None:
    catalog = Catalog.from_ids(["a", "b"], categories=["drinks", "food"])
    Baskets.from_lists([["a", "b"], ["b"]], users=["u", "v"], catalog=catalog).save(tmp_path)
    file = tmp_path / f"{name}.parquet"
    table = pq.read_table(file)
    place = table.column_names.index(column)
    kept = table.schema.metadata
    table = table.remove_column(place)
    if values is not None:
        table = table.add_column(place, column, values)
    if not table.num_columns:
        table = pa.table({"other": ["u", "v"]})
    pq.write_table(table.replace_schema_metadata(kept), file)
    with pytest.raises(BundleError, match=message):
        Baskets.load(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (b"neatrec_levels", b"3", "must be lists of text"),
        (b"neatrec_levels", b"[]", "it has 0 levels and names of 1"),
        (b"neatrec_category_names", b"[[1, 2]]", "must be lists of text"),
        (b"neatrec_category_names", b"{", "cannot read a catalogue"),
    ],
)
def test_tampered_levels_are_refused(
    tmp_path: Path, key: bytes, value: bytes, message: str
) -> None:
    file = tmp_path / "catalog.parquet"
    Catalog.from_ids(["a", "b"], categories=["drinks", "food"]).save(file)
    table = pq.read_table(file)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, key: value}), file)
    with pytest.raises(BundleError, match=message):
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": string_array(["a", "a"])}, "unique and not null"),
        ({"ids": string_array(["a", None])}, "unique and not null"),
        ({"names": string_array(["a"])}, "`names` must be 2 long"),
        ({"categories": np.zeros((1, 1))}, "must have the shape"),
        ({"categories": np.array([[0], [4]])}, "must be codes of its names"),
        ({"category_names": (("x", "x"),)}, "must be unique"),
        ({"variants": string_array(["v"])}, "must be given together"),
        ({"variants": string_array(["v"]), "variant_codes": np.array([3])}, "the code of an item"),
    ],
)
def test_wrong_catalogues_are_refused(change: dict[str, object], message: str) -> None:
    good = {
        "ids": string_array(["a", "b"]),
        "levels": ("category",),
        "categories": np.array([[0], [1]]),
        "category_names": (("x", "y"),),
    }
    with pytest.raises(ParameterError, match=message):
        Catalog(**{**good, **change})
