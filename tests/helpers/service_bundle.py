"""A small shop for the service: planted pairs, awkward ids, names that try to run as script, a new
item."""

from functools import cache
from pathlib import Path

import numpy as np

from neatrec.data import Baskets, Catalog, string_array
from neatrec.models import Run, make_model
from neatrec.serving import save_indexed

INJECTIONS = (
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    '"><script>window.hit=1</script>',
    "'><svg onload=window.hit=1>",
    "</title><script>window.hit=1</script>",
    "</textarea><script>window.hit=1</script>",
    "javascript:window.hit=1",
    "<a href=javascript:window.hit=1>x</a>",
    "{{ 7 * 7 }} {% raw %}",
    "${window.hit=1}",
    "<iframe srcdoc='<script>parent.hit=1</script>'>",
    "<svg><script>window.hit=1</script></svg>",
    "&lt;script&gt;window.hit=1&lt;/script&gt;",
    "<body onload=window.hit=1>",
    '<math><mi//xlink:href="data:x,<script>window.hit=1</script>">',
    '" autofocus onfocus="window.hit=1',
    "' onmouseover='window.hit=1",
    "<style>*{display:none}</style>",
    '<!--<img src="--><img src=x onerror=window.hit=1>',
    "\u202egnitirw sdrawkcab\u202c <b>bold</b>",
)
PAIRS = (
    ("Spaghetti", "pasta", "Marinara Sauce", "sauces"),
    ("Tortilla Chips", "snacks", "Salsa", "sauces"),
    ("Green Tea", "drinks", "Butter Biscuits", "bakery"),
    ("Hot Dog Buns", "bakery", "Beef Hot Dogs", "meat"),
    ("Shampoo", "bath", "Conditioner", "hair"),
    ("Pancake Mix", "baking", "Maple Syrup", "syrups"),
)
AWKWARD = ("a/b/c", "../../etc/passwd", "50% off & more?", "naïve ünï", "x/complements")
FILLERS = 24
AISLES = ("fruit", "vegetables", "dairy", "frozen")


def id_of(name: str) -> str:
    return names_and_ids()[name]


@cache
def names_and_ids() -> dict[str, str]:
    return {row[1]: row[0] for row in _rows()}


@cache
def _rows() -> tuple[tuple[str, str, str | None], ...]:
    """(id, name, aisle) of every item; "Oat Drink" is never bought and "Mystery" has no
    category."""
    rows: list[tuple[str, str, str | None]] = []
    for number, (one, aisle, other, other_aisle) in enumerate(PAIRS):
        rows += [(f"{100 + number}", one, aisle), (f"{200 + number}", other, other_aisle)]
    rows += [(item, f"Awkward {number}", "oddments") for number, item in enumerate(AWKWARD)]
    rows += [
        (f"{300 + number}", f"Plain {number}", AISLES[number % 4]) for number in range(FILLERS)
    ]
    rows += [
        (f"{500 + number}", name, f"names {number % 4}") for number, name in enumerate(INJECTIONS)
    ]
    rows += [("900", "Oat Drink", "drinks"), ("901", "Mystery", None)]
    return tuple(rows)


@cache
def shop_catalog() -> Catalog:
    rows = _rows()
    aisles = sorted({aisle for _, _, aisle in rows if aisle})
    codes = [
        [-1, -1] if aisle is None else [0 if aisle < "m" else 1, aisles.index(aisle)]
        for _, _, aisle in rows
    ]
    return Catalog(
        string_array([item for item, _, _ in rows]),
        string_array([name for _, name, _ in rows]),
        levels=("department", "aisle"),
        categories=np.array(codes, dtype=np.int32),
        category_names=(("first half", "second half"), tuple(aisles)),
        variants=string_array(["spaghetti-500g"]),
        variant_codes=np.array([0], dtype=np.int32),
    )


@cache
def shop_baskets(seed: int = 0, count: int = 1500) -> Baskets:
    """Planted pairs are bought together; each awkward id goes with a script-like name, as cart
    order has it."""
    rng = np.random.default_rng(seed)
    ids = names_and_ids()
    couples = [(ids[one], ids[other]) for one, _, other, _ in PAIRS]
    couples += [(AWKWARD[number % 5], ids[name]) for number, name in enumerate(INJECTIONS)]
    couples += [(ids["Spaghetti"], ids[name]) for name in INJECTIONS]
    plain = [ids[f"Plain {number}"] for number in range(FILLERS)] + ["901"]
    baskets = []
    for _ in range(count):
        lines = list(couples[rng.integers(len(couples))]) if rng.random() < 0.7 else []
        lines += [plain[i] for i in rng.choice(len(plain), size=rng.integers(2, 5), replace=False)]
        baskets.append(list(dict.fromkeys(lines)))
    users = [f"user-{rng.integers(count // 3)}" for _ in range(count)]
    return Baskets.from_lists(
        baskets,
        users=users,
        ids=[str(1000 + number) for number in range(count)],
        catalog=shop_catalog(),
    )


def write_bundle(
    path: Path,
    *,
    seed: int = 0,
    count: int = 1500,
    model: str = "shrunk-lift",
    k: int = 100,
    **settings: object,
) -> Path:
    """A bundle of the shop with its serving table."""
    baskets = shop_baskets(seed, count)
    fitted = make_model(model, **settings).fit(baskets, Run(rng=0))
    save_indexed(fitted, path, baskets, seed=0, k=k)
    return path
