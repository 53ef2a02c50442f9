"""The baskets of a state, one Parquet file for each call that added some, over items numbered by arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neatrec.baskets import Attribute, Baskets
from neatrec.catalog import Catalog, string_array
from neatrec.copurchase.records import Int32, Mask
from neatrec.errors import SourceError
from neatrec.text import printable

Names = Mapping[str, Sequence[str]]
"""Attribute -> its values by arrival."""


def rebased(
    baskets: Baskets, catalog: Catalog, numbers: Int32, users: pa.LargeStringArray | None, values: Names
) -> Baskets:
    """The same baskets over the state's numbers of items, users and attribute values."""
    return replace(
        baskets,
        catalog=catalog,
        items=numbers[baskets.items],
        users=None if users is None else _user_numbers(baskets, users)[baskets.users],
        user_ids=users,
        attributes={
            name: Attribute(_places(attribute.names, values[name])[attribute.codes], tuple(values[name]))
            for name, attribute in baskets.attributes.items()
        },
        dropped={},
    )


def _user_numbers(baskets: Baskets, users: pa.LargeStringArray) -> Any:
    """The number of each user of the baskets' table; -1 for one without a basket."""
    return pc.fill_null(pc.index_in(baskets.user_ids, value_set=users), -1).to_numpy()


def users_with(known: pa.LargeStringArray | None, baskets: Baskets) -> pa.LargeStringArray | None:
    """The users by arrival with those of the baskets behind them."""
    if baskets.users is None or baskets.user_ids is None:
        return None
    here = baskets.user_ids.take(pa.array(np.unique(baskets.users)))
    known = string_array([]) if known is None else known
    return pa.concat_arrays([known, here.filter(pc.invert(pc.is_in(here, value_set=known)))])


def values_with(known: Names, baskets: Baskets) -> dict[str, list[str]]:
    """The values of each attribute by arrival with those of the baskets behind them."""
    out = {}
    for name, attribute in baskets.attributes.items():
        here = (attribute.names[code] for code in np.unique(attribute.codes))
        out[name] = list(dict.fromkeys([*known.get(name, ()), *here]))
    return out


def write_segment(path: Path, baskets: Baskets) -> None:
    columns: dict[str, Any] = {
        "basket_id": baskets.ids,
        "items": pa.LargeListArray.from_arrays(pa.array(baskets.offsets), pa.array(baskets.items)),
    }
    if baskets.users is not None:
        columns["user"] = pa.array(baskets.users)
    if baskets.times is not None:
        columns["time"] = pa.array(baskets.times)
    columns |= {f"attribute:{name}": pa.array(attribute.codes) for name, attribute in baskets.attributes.items()}
    pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False, write_page_checksum=True)


def read_segment(
    path: Path, catalog: Catalog, *, ordered: bool, users: pa.LargeStringArray | None, values: Names
) -> Baskets:
    table = pq.read_table(path, page_checksum_verification=True)
    lists = pa.concat_arrays([pa.array([], pa.large_list(pa.int32())), *table["items"].chunks])
    return Baskets(
        catalog,
        lists.flatten().to_numpy(),
        np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy())]),
        string_array(table["basket_id"]),
        ordered,
        users=None if users is None else table["user"].to_numpy(),
        user_ids=users,
        times=table["time"].to_numpy() if "time" in table.column_names else None,
        attributes={
            name: Attribute(table[f"attribute:{name}"].to_numpy(), tuple(known)) for name, known in values.items()
        },
    )


def joined(parts: Sequence[Baskets]) -> Baskets:
    """All baskets of at least one part over the same numbers."""
    first = parts[0]
    return replace(
        first,
        items=np.concatenate([part.items for part in parts]),
        offsets=np.concatenate([[0], np.cumsum(np.concatenate([part.sizes for part in parts]))]),
        ids=pa.concat_arrays([part.ids for part in parts]),
        users=None if first.users is None else np.concatenate([part.users for part in parts]),
        times=None if first.times is None else np.concatenate([part.times for part in parts]),
        attributes={
            name: Attribute(np.concatenate([part.attributes[name].codes for part in parts]), attribute.names)
            for name, attribute in first.attributes.items()
        },
    )


def as_read(baskets: Baskets, catalog: Catalog) -> Baskets:
    """The baskets as a reader of all of them gives them: over the sorted catalogue, sorted by id, users sorted."""
    codes = np.array([catalog.code_of[item] for item in baskets.catalog.ids.to_pylist()], dtype=np.int32)
    sorted_ = baskets.select(pc.sort_indices(baskets.ids).to_numpy())
    items = codes[sorted_.items]
    if not baskets.ordered:
        items = items[np.lexsort((items, sorted_.basket_of_line))]
    users, user_ids = None, None
    if sorted_.users is not None and sorted_.user_ids is not None:
        users, user_ids = _sorted_codes(sorted_.users, sorted_.user_ids)
    attributes = {}
    for name, attribute in sorted_.attributes.items():
        values, names = _sorted_codes(attribute.codes, string_array(attribute.names))
        attributes[name] = Attribute(values, tuple(names.to_pylist()))
    return replace(sorted_, catalog=catalog, items=items, users=users, user_ids=user_ids, attributes=attributes)


def already_there(new: Baskets, old: Baskets) -> Mask:
    """Which of the new baskets the old ones hold; one that differs under the same id is refused by name."""
    twins = old.select(pc.is_in(old.ids, value_set=new.ids).to_numpy(zero_copy_only=False))
    there: Mask = pc.is_in(new.ids, value_set=twins.ids).to_numpy(zero_copy_only=False)
    if len(twins):
        _refuse_changed(_by_id(new.select(there)), _by_id(twins))
    return there


def _by_id(baskets: Baskets) -> Baskets:
    """Sorted by id, the lines by item where their order means nothing: what makes two of them comparable."""
    out = baskets.select(pc.sort_indices(baskets.ids).to_numpy())
    return out if out.ordered else replace(out, items=out.items[np.lexsort((out.items, out.basket_of_line))])


def _refuse_changed(new: Baskets, old: Baskets) -> None:
    changed = new.sizes != old.sizes
    alike = np.flatnonzero(~changed)
    one, other = new.select(alike), old.select(alike)
    changed[alike[one.basket_of_line[one.items != other.items]]] = True
    for mine, theirs in ((new.users, old.users), (new.times, old.times)):
        if mine is not None and theirs is not None:
            changed |= mine != theirs
    for name, attribute in new.attributes.items():
        changed |= attribute.codes != old.attributes[name].codes
    if changed.any():
        basket = printable(repr(new.ids[int(changed.argmax())].as_py()))
        raise SourceError(
            f"basket {basket} is in the state already, and differs from the one in these baskets",
            hint="A basket is added once and whole. If the source was mended, make a new state from all baskets.",
        )


def _sorted_codes(codes: Any, names: pa.LargeStringArray) -> tuple[Int32, pa.LargeStringArray]:
    """Codes into the sorted names that occur."""
    used = np.unique(codes)
    here = names.take(pa.array(used))
    order = pc.sort_indices(here).to_numpy()
    place = np.zeros(len(names), dtype=np.int32)
    place[used[order]] = np.arange(len(used), dtype=np.int32)
    return place[codes], here.take(pa.array(order))


def _places(names: Sequence[str], values: Sequence[str]) -> Int32:
    place = {value: i for i, value in enumerate(values)}
    return np.array([place.get(name, -1) for name in names], dtype=np.int32)
