"""A small shop of our own whose right answers are known: each item of `PARTNERS` is bought with its
partner."""

from functools import cache

import numpy as np

from neatrec.data import Baskets, Catalog, string_array

PARTNERS = {
    "bread": "butter",
    "pasta": "pesto",
    "tea": "biscuits",
    "chips": "salsa",
    "soap": "sponge",
    "corn": "lime",
}
FILLERS = ("apple", "banana", "cherry", "water", "cola", "juice", "rice", "beans")
CATEGORIES = {
    "bread": ("food", "bakery"),
    "biscuits": ("food", "bakery"),
    "butter": ("food", "dairy"),
    "pasta": ("food", "dry goods"),
    "rice": ("food", "dry goods"),
    "beans": ("food", "dry goods"),
    "pesto": ("food", "sauces"),
    "salsa": ("food", "sauces"),
    "tea": ("drinks", "hot"),
    "water": ("drinks", "cold"),
    "cola": ("drinks", "cold"),
    "juice": ("drinks", "cold"),
    "chips": ("food", "snacks"),
    "soap": ("household", "bath"),
    "sponge": ("household", "kitchen"),
    "apple": ("food", "fruit"),
    "banana": ("food", "fruit"),
    "cherry": ("food", "fruit"),
    "lime": ("food", "fruit"),
    "corn": ("food", "vegetables"),
    "saffron": ("food", "spices"),
}
"""Saffron is in the catalogue and never bought; a mystery item has no category."""


@cache
def toy_catalog() -> Catalog:
    names = [*sorted(CATEGORIES), "mystery"]
    paths = [CATEGORIES.get(name) for name in names]
    levels = [tuple(sorted({path[level] for path in paths if path})) for level in (0, 1)]
    codes = [
        [-1, -1] if path is None else [levels[i].index(path[i]) for i in (0, 1)] for path in paths
    ]
    tea = names.index("tea")
    return Catalog(
        string_array([f"{100 + 7 * i}" for i in range(len(names))]),
        string_array([name.title() for name in names]),
        levels=("department", "aisle"),
        categories=np.array(codes, dtype=np.int32),
        category_names=tuple(levels),
        variants=string_array(["tea-green", "tea-black"]),
        variant_codes=np.array([tea, tea], dtype=np.int32),
    )


def code(name: str) -> int:
    """The code of an item by its plain name."""
    return int(toy_catalog().names.index(name.title()).as_py())


@cache
def toy_baskets(count: int = 600, *, users: bool = True, seed: int = 1) -> Baskets:
    """Baskets of a planted pair or two and some fillers, in cart order."""
    rng = np.random.default_rng(seed)
    baskets = [_basket(rng) for _ in range(count)]
    names = [f"user-{rng.integers(count // 4)}" for _ in range(count)]
    ids = toy_catalog().ids.to_pylist()
    return Baskets.from_lists(
        [[ids[code(name)] for name in basket] for basket in baskets],
        users=names if users else None,
        ids=[str(1000 + i) for i in range(count)],
        catalog=toy_catalog(),
    )


def _basket(rng: np.random.Generator) -> list[str]:
    starts = list(PARTNERS)
    chosen = [starts[i] for i in rng.choice(len(starts), size=rng.integers(1, 3), replace=False)]
    lines = [item for start in chosen for item in (start, PARTNERS[start])]
    lines += [FILLERS[i] for i in rng.choice(len(FILLERS), size=rng.integers(1, 4), replace=False)]
    lines += ["mystery"] if rng.random() < 0.05 else []
    return [lines[i] for i in rng.permutation(len(lines))]
