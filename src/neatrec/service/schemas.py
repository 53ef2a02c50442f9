"""The JSON of the API as pydantic models: what OpenAPI shows, with examples, and how a cart is read."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from neatrec.service.limits import LONGEST_NAME, MOST_CATEGORIES, MOST_ITEMS, MOST_K, K
from neatrec.serving import FOOTER, table_words

Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME, pattern="^[^\\x00]+$")]
Id = Annotated[str, StringConstraints(min_length=1, pattern="^[^\\x00]+$")]
Level = Literal["strong", "some", "predicted", "category"]
Grade = Literal["strong", "some", "predicted", "category", "rule"]
WORDS = (
    "In 37 orders by 31 customers; 2.3 expected by chance; at least 9x chance (95 %). Of pairs with evidence this "
    "strong about 1 in 1,000 is expected to be coincidence."
)
PASTA: Any = {"id": "24852", "name": "Spaghetti", "category": ["dry goods pasta", "dry pasta"]}
EVIDENCE: Any = {
    "words": WORDS,
    "count": 37,
    "customers": 31,
    "expected": 2.3,
    "lift": 13.5,
    "lift_low": 9.2,
    "lift_high": 19.1,
    "q": 0.00099,
    "forward": 21,
    "backward": 16,
    "query_count": 410,
    "item_count": 388,
}


BUNDLE = "5f0c0f7a4be1c1c5a2f1a6e0a6a5a1f3d4f5b6c7d8e9fa0b1c2d3e4f5a6b7c8d"
SAUCE: Any = {"id": "21137", "name": "Marinara Sauce", "category": ["dry goods pasta", "pasta sauce"]}
COMPLEMENT: Any = {"rank": 1, **SAUCE, "score": 4.21, "grade": "strong", "evidence": EVIDENCE}
GOES_WITH: Any = {**PASTA, "grade": "strong", "words": WORDS}
CART_LINE: Any = {"rank": 1, **SAUCE, "score": 0.87, "grade": "strong", "goes_with": [GOES_WITH]}
HEAD: Any = {"bundle": BUNDLE, "model": "neat"}
TAIL: Any = {"notes": [], "footer": FOOTER}
SERVED: Any = {
    "name": "neat",
    "kind": "neat",
    "bundle": BUNDLE,
    "created": "2024-05-01T03:10:00+00:00",
    "items": 49688,
    "k": 100,
    "table": table_words(None),
    "recall": None,
    "coverage": {"strong": {"items": 0.21, "sales": 0.83}, "some": {"items": 0.12, "sales": 0.08}},
}
ERROR: Any = {
    "kind": "UnknownItemError",
    "message": "no item has the id 'spagetti'",
    "hint": "Did you mean 'Spaghetti' (id 24852)?",
    "near": [PASTA],
}


def _example(**example: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"example": example})


def _whole(value: Any) -> Any:
    """24.0 is a whole number to JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]


class Item(BaseModel):
    """An item of the catalogue."""

    model_config = _example(**PASTA)
    id: str
    name: str
    category: list[str] = Field(description="Names of its categories, shallow to deep.")


class FoundItem(Item):
    model_config = _example(**PASTA, count=410)
    count: int | None = Field(default=None, description="Lines in the training baskets; withheld by --public.")


class EvidenceOut(BaseModel):
    """What the training baskets say about a pair. Numbers are null where not known, and withheld by --public."""

    model_config = _example(**EVIDENCE)
    words: str = Field(description="The evidence in one or two sentences.")
    count: int | None = Field(default=None, description="Baskets that hold both.")
    customers: int | None = Field(default=None, description="Distinct customers who bought both in one basket.")
    expected: float | None = Field(default=None, description="How many there would be by chance.")
    lift: float | None = Field(default=None, description="Times seen over times expected.")
    lift_low: float | None = Field(default=None, description="Lower end of the 95 % interval of the lift.")
    lift_high: float | None = Field(default=None, description="Upper end of the 95 % interval of the lift.")
    q: float | None = Field(default=None, description="Share of coincidences among pairs with evidence as strong.")
    forward: int | None = Field(default=None, description="Baskets in which the query went into the cart first.")
    backward: int | None = Field(default=None, description="Baskets in which the item did.")
    query_count: int | None = Field(default=None, description="Baskets that hold the query.")
    item_count: int | None = Field(default=None, description="Baskets that hold the item.")
    query_variance: float | None = None
    item_variance: float | None = None
    posterior: float | None = Field(default=None, description="What a Bayesian model makes of the lift.")
    posterior_low: float | None = None
    posterior_high: float | None = None


class Complement(Item):
    """One answer."""

    model_config = _example(**COMPLEMENT)
    rank: int
    score: float | None = Field(description="The model's score; null for a rule, withheld by --public.")
    grade: Grade
    evidence: EvidenceOut


class Complements(BaseModel):
    """What goes with an item."""

    model_config = _example(**HEAD, query=PASTA, complements=[COMPLEMENT], **TAIL)
    bundle: str = Field(description="The version of the bundle that answered: the hash of its content.")
    model: str
    query: Item
    complements: list[Complement]
    notes: list[str] = Field(description="What a reader should know: a new item, for example.")
    footer: str


class GoesWith(Item):
    model_config = _example(**GOES_WITH)
    grade: Grade
    words: str


class CartComplement(Item):
    model_config = _example(**CART_LINE)
    rank: int
    score: float | None
    grade: Grade = Field(description="The best grade among the cart items it goes with.")
    goes_with: list[GoesWith] = Field(description="The cart items it goes with, the one that speaks loudest first.")


class CartComplements(BaseModel):
    """What completes a cart."""

    model_config = _example(**HEAD, cart=[PASTA], complements=[CART_LINE], **TAIL)
    bundle: str
    model: str
    cart: list[Item]
    complements: list[CartComplement]
    notes: list[str]
    footer: str


class Cart(BaseModel):
    """A cart and the same filters as for one item."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"example": {"items": ["24852", "21137"], "k": 5}}
    )
    items: list[Id] = Field(min_length=1, max_length=MOST_ITEMS, description="Ids of what is in the cart.")
    k: Whole = Field(default=K, ge=1, le=MOST_K)
    category: list[Name] = Field(default_factory=list, max_length=MOST_CATEGORIES)
    exclude: list[Id] = Field(default_factory=list, max_length=MOST_ITEMS)
    min_evidence: Level | None = None
    diversify: bool = False
    model: Name | None = None


class Pair(BaseModel):
    """The evidence card of two items."""

    model_config = _example(**HEAD, a=PASTA, b=SAUCE, score=4.21, grade="strong", evidence=EVIDENCE, footer=FOOTER)
    bundle: str
    model: str
    a: Item
    b: Item
    score: float | None
    grade: Grade
    evidence: EvidenceOut
    footer: str


class SearchResults(BaseModel):
    """Items by name."""

    model_config = _example(bundle=BUNDLE, q="spagetti", items=[{**PASTA, "count": 410}])
    bundle: str
    q: str
    items: list[FoundItem]


class RecallOut(BaseModel):
    """What an approximate table has of the exact one."""

    model_config = _example(first=0.981, all=0.957, sample=1000)
    first: float = Field(description="Share of the exact first ten answers that it holds.")
    all: float = Field(description="Share of all exact answers.")
    sample: int | None = Field(description="Items, drawn by lot, on which that was measured; withheld by --public.")


class ServedBundle(BaseModel):
    model_config = _example(**SERVED)
    name: str
    kind: str
    bundle: str
    created: str
    items: int | None = Field(description="Items of the catalogue; withheld by --public.")
    k: int = Field(description="Answers an item has in the table.")
    table: str = Field(description="Whether the table is exact, in words.")
    recall: RecallOut | None = Field(default=None, description="Of an approximate table; null where it is exact.")
    coverage: dict[str, dict[str, float]] = Field(
        description="For each grade the share of items, and of sales (not with --public), with an answer of that grade."
    )


class ModelOut(BaseModel):
    """What answers."""

    model_config = _example(bundle=BUNDLE, models=[SERVED], version="1.0.0", public=False)
    bundle: str
    models: list[ServedBundle]
    version: str = Field(description="Of neatrec.")
    public: bool


class Health(BaseModel):
    model_config = _example(status="ok", bundle=BUNDLE)
    status: Literal["ok"]
    bundle: str | None = None


class ErrorBody(BaseModel):
    model_config = ConfigDict(extra="allow", json_schema_extra={"example": ERROR})
    kind: str
    message: str
    hint: str | None


class ErrorOut(BaseModel):
    """Every error: what is wrong and what to do next."""

    model_config = _example(error=ERROR)
    error: ErrorBody


def parameter(name: str, schema: dict[str, Any], about: str, *, required: bool = False) -> dict[str, Any]:
    """One entry of an OpenAPI parameter list."""
    where = {"name": name, "in": "query", "required": required, "description": about, "schema": schema}
    return {**where, "style": "form", "explode": True} if schema["type"] == "array" else where


ID: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": "^[^\\x00]+$"}
NAME: dict[str, Any] = {**ID, "maxLength": LONGEST_NAME}
IDS: dict[str, Any] = {"type": "array", "items": ID, "maxItems": MOST_ITEMS}
NAMES: dict[str, Any] = {"type": "array", "items": NAME, "maxItems": MOST_CATEGORIES}
MODEL = parameter("model", NAME, "Another model given by --compare. Default: the first.")
FILTERS = [
    parameter("k", {"type": "integer", "minimum": 1, "maximum": MOST_K, "default": K}, "How many answers."),
    parameter("category", NAMES, "Only items of this category (name or path); may be repeated."),
    parameter("exclude", IDS, "Ids not to name; may be repeated."),
    parameter(
        "min_evidence",
        {"type": "string", "enum": ["strong", "some", "predicted", "category"]},
        "The least evidence an answer must have. Default `some`; for a new item `category`.",
    ),
    parameter("diversify", {"type": "boolean", "default": False}, "At most one answer a category."),
    MODEL,
    parameter("category_of", NAME, "The category of an item the bundle does not hold: answers come from it."),
]
