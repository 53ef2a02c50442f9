"""The `Catalog`: the items, their names and their categories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.errors import BundleError, ParameterError, must_be, must_be_one_of
from neatrec.text import printable

UNKNOWN = -1
"""The category code of an item without a category; no two of them share a category."""
MALFORMED = (
    *(OSError, LookupError, TypeError, ValueError, AttributeError, RuntimeError),
    ParameterError,
)
"""Errors of reading a damaged or foreign file."""


def string_array(values: Any) -> pa.LargeStringArray:
    """`values` as one contiguous Arrow large_string array."""
    if isinstance(values, pa.ChunkedArray):
        empty = pa.array([], pa.large_string())
        return pa.concat_arrays([empty, *values.cast(pa.large_string()).chunks])
    if isinstance(values, pa.Array):
        return values if values.type == pa.large_string() else values.cast(pa.large_string())
    return pa.array(list(values), pa.large_string())


def as_integers(ids: pa.LargeStringArray) -> pa.Int64Array | None:
    """`ids` as integers, or None if an id is no integer or is written in another way.

    >>> as_integers(string_array(["7", "10"])).to_pylist(), as_integers(string_array(["007"]))
    ([7, 10], None)
    """
    try:
        integers = ids.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return integers if integers.cast(pa.large_string()).equals(ids) else None


def frozen(values: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """`values` as a contiguous array that nobody can write to, without a copy where possible."""
    out = np.ascontiguousarray(values, dtype=dtype).view()
    out.flags.writeable = False
    return out


def codes_in(
    name: str, values: npt.ArrayLike, shape: tuple[int, ...], end: int, least: int = 0
) -> npt.NDArray[np.int32]:
    """`values` as frozen codes from `least` up to `end`, which is no code."""
    codes = np.asarray(values)
    is_whole = codes.size == 0 or codes.dtype.kind in "iu"
    if (
        not is_whole
        or codes.shape != shape
        or (codes.size and not least <= codes.min() <= codes.max() < end)
    ):
        size = " x ".join(f"{length:,}" for length in shape)
        raise must_be(printable(name), f"{size} codes from {least} to {end - 1:,}", values)
    return frozen(codes, np.int32)


@dataclass(frozen=True, eq=False)
class Catalog:
    """Items by code 0 … n-1. Items are the unit of counting: variants of one group are one item."""

    ids: pa.LargeStringArray
    names: pa.LargeStringArray | None = None
    """Names to show; null where unknown."""
    levels: tuple[str, ...] = ()
    """Names of the category levels, shallow to deep: ("department", "aisle")."""
    categories: npt.NDArray[np.int32] = None  # type: ignore[assignment]  # set below
    """Category codes, shape (items, levels); UNKNOWN where not known. Without levels: empty."""
    category_names: tuple[tuple[str, ...], ...] = ()
    """For each level, the names of its codes."""
    variants: pa.LargeStringArray | None = None
    """Ids that share the group of an item and count as it."""
    variant_codes: npt.NDArray[np.int32] | None = None
    """Code of the item of each variant."""
    integer_ids: bool = False
    """Whether ids came as integers, and go out as such."""
    prices: npt.NDArray[np.float64] | None = None
    """Usual price of each item, shape (items,), NaN where unknown; a saved catalogue has none."""

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "ids", string_array(self.ids))
        if self.ids.null_count or len(self.code_of) != len(self.ids):
            raise ParameterError("`ids` of a catalogue must be unique and not null")
        if self.names is not None:
            keep(self, "names", string_array(self.names))
        if self.prices is not None:
            keep(self, "prices", frozen(self.prices, np.float64))
        for name in ("names", "prices"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self):
                raise must_be(name, f"{len(self):,} long, one per item", len(values))
        shape = (len(self), len(self.levels))
        categories = np.zeros(shape) if self.categories is None else np.asarray(self.categories)
        if categories.shape != shape or len(self.category_names) != len(self.levels):
            raise must_be("categories", "of the shape (items, levels)", categories.shape)
        for level, column, names in zip(
            self.levels, categories.T, self.category_names, strict=True
        ):
            codes_in(f"categories of {level}", column, (len(self),), len(names), UNKNOWN)
            if len(set(names)) != len(names):
                raise must_be("category_names", f"unique at level {level!r}", names)
        keep(self, "categories", frozen(categories, np.int32))
        keep(self, "category_names", tuple(tuple(names) for names in self.category_names))
        if (self.variants is None) != (self.variant_codes is None):
            raise ParameterError("`variants` and `variant_codes` must be given together")
        if self.variants is not None and self.variant_codes is not None:
            keep(self, "variants", string_array(self.variants))
            size = (len(self.variants),)
            codes = codes_in("variant_codes", self.variant_codes, size, len(self))
            keep(self, "variant_codes", codes)
        if self.integer_ids and as_integers(self.ids) is None:
            raise ParameterError("`ids` must be integers where `integer_ids` is true")

    @classmethod
    def from_ids(
        cls,
        ids: Iterable[str],
        *,
        names: Sequence[str | None] | None = None,
        categories: Sequence[str | None] | None = None,
    ) -> Catalog:
        """A catalogue with at most one category level, the quick way for a notebook or a test."""
        ids = list(ids)
        if categories is None:
            return cls(string_array(ids), None if names is None else string_array(names))
        labels = sorted({c for c in categories if c is not None})
        code = {label: i for i, label in enumerate(labels)}
        codes = np.array([[UNKNOWN if c is None else code[c]] for c in categories], dtype=np.int32)
        return cls(
            string_array(ids),
            None if names is None else string_array(names),
            levels=("category",),
            categories=codes.reshape(len(ids), 1),
            category_names=(tuple(labels),),
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def code_of(self) -> Mapping[str, int]:
        """Item id -> code."""
        return {item: code for code, item in enumerate(self.ids.to_pylist())}

    @cached_property
    def code_of_variant(self) -> Mapping[str, int]:
        """Variant id -> code of the item that stands for its group."""
        if self.variants is None or self.variant_codes is None:
            return {}
        return dict(zip(self.variants.to_pylist(), self.variant_codes.tolist(), strict=True))

    def id(self, code: int) -> str:
        """The id of an item as text."""
        return str(self.ids[int(code)].as_py())

    @cached_property
    def public_ids(self) -> pa.Array:
        """Ids of the type in which they came, for tables and files."""
        return as_integers(self.ids) if self.integer_ids else self.ids

    def public_id(self, code: int) -> str | int:
        """The id of the type in which it came, for JSON."""
        return int(self.id(code)) if self.integer_ids else self.id(code)

    def name(self, code: int) -> str:
        """The name to show: the item's name, or its id where it has none."""
        name = None if self.names is None else self.names[int(code)].as_py()
        return name if name else self.id(code)

    def category_of(self, level: str | None = None) -> npt.NDArray[np.int32]:
        """Category codes at `level` (None: the deepest), shape (items,); UNKNOWN without levels."""
        if not self.levels:
            return np.full(len(self), UNKNOWN, dtype=np.int32)
        if level is None:
            level = self.levels[-1]
        if level not in self.levels:
            raise must_be_one_of("category_level", self.levels, level)
        return np.ascontiguousarray(self.categories[:, self.levels.index(level)])

    def category_path(self, code: int) -> tuple[str, ...]:
        """Names of the item's categories, shallow to deep; unknown levels are left out."""
        row = self.categories[int(code)]
        return tuple(
            names[c] for names, c in zip(self.category_names, row, strict=True) if c != UNKNOWN
        )

    @cached_property
    def _categories_called(self) -> dict[str, list[tuple[int, int]]]:
        """Name in small letters -> levels and codes of the categories with this name."""
        found: dict[str, list[tuple[int, int]]] = {}
        for level, names in enumerate(self.category_names):
            for code, name in enumerate(names):
                found.setdefault(name.casefold(), []).append((level, code))
        return found

    def category_steps(self, text: str) -> tuple[str, ...] | None:
        """The steps of a category: its name at any level, or a path such as "a / b".

        Capitals do not matter. None where there is no such category.
        """
        folded = text.casefold()
        if folded in self._categories_called:
            return (folded,)
        steps = {step.strip() for step in folded.replace(">", "/").split("/") if step.strip()}
        # an item has one category per level: no path is longer
        known = 1 <= len(steps) <= len(self.levels) and steps <= self._categories_called.keys()
        return tuple(sorted(steps)) if known else None

    def in_category(self, steps: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Which items belong to the category of `category_steps`, shape (items,)."""
        inside = np.ones(len(self), dtype=np.bool_)
        for step in steps:
            named = self._categories_called[step]
            of_step = [self.categories[:, level] == code for level, code in named]
            inside &= np.logical_or.reduce(of_step)
        return inside

    @cached_property
    def hash(self) -> str:
        """SHA-256 over ids, categories and variants (names may change without changing it)."""
        content = [
            self.ids.to_pylist(),
            list(self.levels),
            [list(names) for names in self.category_names],
            None if self.variants is None else self.variants.to_pylist(),
        ]
        digest = hashlib.sha256(json.dumps(content, ensure_ascii=True).encode())
        digest.update(self.categories.astype("<i4").tobytes())
        if self.variant_codes is not None:
            digest.update(self.variant_codes.astype("<i4").tobytes())
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write one Parquet file: code, id, name, category levels, variants as a list."""
        columns: dict[str, Any] = {
            "code": pa.array(np.arange(len(self), dtype=np.int32)),
            "id": self.public_ids,
        }
        nameless = pa.nulls(len(self), pa.large_string())
        columns["name"] = nameless if self.names is None else self.names
        for level, codes, names in zip(
            self.levels, self.categories.T, self.category_names, strict=True
        ):
            known = pa.array(np.ascontiguousarray(codes), mask=codes == UNKNOWN)
            coded = pa.DictionaryArray.from_arrays(known, string_array(names))
            columns[f"category:{level}"] = coded
        variants: dict[int, list[str]] = {}
        for variant, code in self.code_of_variant.items():
            variants.setdefault(code, []).append(variant)
        lists = [variants.get(code) for code in range(len(self))]
        columns["variants"] = pa.array(lists, pa.large_list(pa.large_string()))
        metadata = {
            b"neatrec_levels": json.dumps(self.levels).encode(),
            b"neatrec_category_names": json.dumps(self.category_names).encode(),
        }
        table = pa.table(columns).replace_schema_metadata(metadata)
        pq.write_table(table, Path(path), compression="zstd")

    @classmethod
    def load(cls, path: str | Path) -> Catalog:
        """Read what `save` wrote; a damaged or foreign file is refused by name."""
        try:
            return _catalog_of(pq.read_table(Path(path)))
        except MALFORMED as error:
            message = f"cannot read a catalogue from {printable(path)}: {printable(error)}"
            raise BundleError(message, file=str(path)) from error


def _catalog_of(table: pa.Table) -> Catalog:
    """The catalogue in a table; whatever is missing or of another type raises."""
    metadata = table.schema.metadata or {}
    levels = json.loads(metadata[b"neatrec_levels"])
    names = json.loads(metadata[b"neatrec_category_names"])
    codes = np.full((len(table), len(levels)), UNKNOWN, dtype=np.int32)
    for position, (level, of_level) in enumerate(zip(levels, names, strict=True)):
        code = {None: UNKNOWN, **{name: code for code, name in enumerate(of_level)}}
        values = table[f"category:{level}"].cast(pa.large_string()).to_pylist()
        codes[:, position] = [code[value] for value in values]
    lists = table["variants"].cast(pa.large_list(pa.large_string())).to_pylist()
    variants = [(variant, code) for code, of_item in enumerate(lists) for variant in of_item or []]
    is_nameless = table["name"].null_count == len(table) and len(table) > 0
    return Catalog(
        string_array(table["id"]),
        None if is_nameless else string_array(table["name"]),
        levels=tuple(levels),
        categories=codes,
        category_names=tuple(map(tuple, names)),
        variants=string_array([variant for variant, _ in variants]) if variants else None,
        variant_codes=np.array([code for _, code in variants], np.int32) if variants else None,
        integer_ids=pa.types.is_integer(table["id"].type),
    )


def of_categories(category: npt.NDArray[np.int32], wanted: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which items are of one of the categories `wanted`, never those without a category.

    `np.isin` takes ten times as long.

    >>> of_categories(np.array([0, 2, UNKNOWN], dtype=np.int32), [2, UNKNOWN]).tolist()
    [False, True, False]
    """
    inside = np.zeros(int(category.max(initial=UNKNOWN)) + 2, dtype=np.bool_)
    inside[np.asarray(wanted, dtype=np.int64)] = True
    inside[UNKNOWN] = False
    found: npt.NDArray[np.bool_] = inside[category]
    return found
