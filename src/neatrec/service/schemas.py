"""Requests and answers of the API as pydantic models, for reading requests and for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    create_model,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from neatrec.service.problems import REFUSED
from neatrec.service.settings import (
    MAX_CATEGORIES,
    MAX_ITEMS,
    MAX_K,
    MAX_NAME,
    MAX_SEARCH,
    K,
)
from neatrec.serving import FOOTER, Evidence
from neatrec.serving.evidence import PUBLIC


def _id_text(value: Any) -> Any:
    """An integer id, as answers write it, is read like its digits."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME, pattern="^[^\\x00]+$")]
Id = Annotated[
    str, StringConstraints(min_length=1, pattern="^[^\\x00]+$"), BeforeValidator(_id_text)
]
PRINTED = r"^[^\x00]*[^\s\x00][^\x00]*$"
Words = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_SEARCH, pattern=PRINTED),
]
Level = Literal["certain", "likely", "guess", "category"]
SameCategory = Literal["last", "exclude", "mix"]
Month = Annotated[int, Field(ge=1, le=12)]
# 24.0 is an integer to JSON
Count = Annotated[
    int,
    Field(ge=1, le=MAX_K),
    BeforeValidator(lambda k: int(k) if isinstance(k, float) and k.is_integer() else k),
]
PageNumber = Annotated[int, Field(ge=1, le=10**7)]
Sort = Literal["beyond", "revenue", "strength", "customers", "sure", "new"]
Absent = SkipJsonSchema[None]
"""Of a parameter that may be left out; null itself cannot be sent."""

SPAGHETTI: Any = {"id": "24852", "name": "Spaghetti", "category": ["dry goods pasta", "dry pasta"]}
SAUCE: Any = {"id": "21137", "name": "Marinara Sauce", "category": ["pasta sauce"]}
COUNTED = Evidence(
    count=37, customers=31, expected=2.3, beyond=18.9, lift=13.5, lift_low=9.2, lift_high=19.1,
    q=0.00099, forward=21, backward=16, query_count=410, item_count=388, grade="certain",
)  # fmt: skip
GRADED: Any = {
    "grade": COUNTED.grade,
    "strength": COUNTED.strength,
    "evidence": {"words": COUNTED.words(), **COUNTED.to_dict()},
}
COMPLEMENT: Any = {"rank": 1, **SAUCE, **GRADED, "goes_with": []}
HEAD: Any = {"bundle": "5f0c0f7a4be1c1c5a2f1a6e0a6a5a1f3d4f5b6c7d8e9fa0b1c2d3e4f5a6b7c8d"}


def _example(**example: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"example": example})


def optional(description: str) -> Any:
    """A parameter that may be left out."""
    return Field(default=None, description=description)


# ---- requests


class RequestModel(BaseModel):
    """A request; a name that the model does not have is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FormModel(RequestModel):
    """Fields of a page: a browser sends a blank text for each that is left empty."""

    @model_validator(mode="before")
    @classmethod
    def without_blanks(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields that have a text."""
        texts = {
            name: [text for text in value if text.strip()] if isinstance(value, list) else value
            for name, value in fields.items()
        }
        return {name: value for name, value in texts.items() if value != [] and str(value).strip()}


class RequestFilters(RequestModel):
    """Filters of a request; ids and names of categories are not yet looked up."""

    k: Count = Field(default=K, description="Number of answers.")
    category: list[Name] = Field(
        default=[],
        max_length=MAX_CATEGORIES,
        description="Only items of this category (name or path); repeatable.",
    )
    exclude: list[Id] = Field(
        default=[], max_length=MAX_ITEMS, description="Ids to leave out; repeatable."
    )
    min_evidence: Level | Absent = optional(
        "The lowest grade of an answer. Default: `likely`; for an item that nobody has bought, "
        "`category`."
    )
    same_category: SameCategory | Absent = optional(
        "Position of answers from the query's own category: after all others, nowhere, or mixed "
        "with them by the lower end of the lift. Default: as trained, or `last`."
    )
    diversify: bool = Field(default=False, description="At most one answer per category.")


class ItemFilters(RequestFilters):
    """Filters of the answers to one item."""

    include: Literal["explained"] | Absent = optional(
        "`explained`: a second list of at most k items that look certain over all baskets but are "
        "explained by season, store or basket size."
    )
    month: Month | Absent = optional("The same list, with only the items in season in this month.")


class ItemQuery(ItemFilters):
    """An item and filters of its answers."""

    item: Id = Field(description="Id of the item, or of one of its variants.")
    category_of: Name | Absent = optional(
        "The category of an item missing from the bundle: answers come from this category."
    )

    @property
    def is_plain(self) -> bool:
        """Whether the table alone answers, without a lookup of categories."""
        plain = self.min_evidence in (None, "certain", "likely") and not self.category
        return plain and self.category_of is None


class CartQuery(RequestFilters):
    """A cart and the same filters as for one item."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"example": {"items": ["24852", "21137"], "k": 5}}
    )
    items: list[Id] = Field(
        min_length=1,
        max_length=MAX_ITEMS,
        description="Ids of the items in the cart: text, or integers.",
    )


class PairQuery(RequestModel):
    """Two items."""

    a: Id = Field(description="Id of an item.")
    b: Id = Field(description="Id of an item.")


class PairFilters(RequestModel):
    """Filters and order of the pairs with evidence."""

    q: Words | Absent = optional("Words of the name of one of the items.")
    category: Name | Absent = optional("The category (name or path) of one item.")
    with_category: Name | Absent = optional("The category of the other item.")
    sort: Sort = Field(
        default="beyond",
        description="By the count beyond chance, by the revenue beyond chance (if there are "
        "prices), by the lower end of the lift, by customers (or orders, if the orders name no "
        "customers), by certainty, or only pairs `new` since the previous version, the strongest "
        "first.",
    )


class PairsQuery(PairFilters):
    """A page of pairs."""

    page: PageNumber = Field(default=1, description="From 1.")
    k: Count = Field(default=50, description="Pairs on a page.")


class SearchQuery(RequestModel):
    """A search by name."""

    q: Words = Field(description="Name of an item, or a part of the name.")
    k: Count = Field(default=10, description="Number of items.")


class NoQuery(RequestModel):
    """A route without parameters."""


# ---- answers


class Item(BaseModel):
    """An item of the catalogue."""

    id: str | int = Field(description="An integer where ids came as integers.")
    name: str
    category: list[str] = Field(description="Names of its categories, shallow to deep.")


class FoundItem(Item):
    """An item in the result of a search."""

    count: int | None = Field(default=None, description="Lines in the training baskets.")
    exact: bool | None = Field(
        default=None, description="Whether its name contains the words; else it is similar."
    )


class _Words(BaseModel):
    """The evidence for a pair. Missing numbers are null."""

    words: str = Field(description="The evidence in one sentence.")


_FACTS: Any = {
    name: (
        spec.metadata["json"] | None,
        Field(default=None, description=f"{spec.metadata['description']}."),
    )
    for name, spec in PUBLIC.items()
}
EvidenceOut: Any = create_model("EvidenceOut", __base__=_Words, __doc__=_Words.__doc__, **_FACTS)


class ModelAnswer(BaseModel):
    """The head and the foot of every answer of a model."""

    bundle: str = Field(description="Version of the bundle: the hash of its content.")
    model: str
    footer: str


class Graded(BaseModel):
    """Certainty and strength of a pair."""

    grade: str = Field(
        description="Certainty: certain, likely, guess, chance, category (answered from it) or "
        "rule (of the shop); for a pair that looks certain only over all baskets: seasonal, or "
        "explained by store, by basket size, by another column."
    )
    strength: Literal["strong", "moderate", "weak"] | None = Field(
        description="Of a certain or likely pair, by the lower end of its lift; otherwise null."
    )


class GradedPair(Graded):
    """How sure and how strong, and why."""

    evidence: EvidenceOut


class GoesWith(Item, Graded):
    """An item of a cart that an answer goes with."""

    words: str


class Complement(Item, GradedPair):
    """One answer. To a cart the evidence is the best that one of its items gives."""

    rank: int
    goes_with: list[GoesWith] = Field(
        description="The cart items it goes with, the largest contribution first; to one item none."
    )


class Complements(ModelAnswer):
    """The complements of an item."""

    model_config = _example(
        **HEAD, model="odds", query=SPAGHETTI, complements=[COMPLEMENT], notes=[], footer=FOOTER
    )
    query: Item
    complements: list[Complement]
    explained: list[Complement] | None = Field(
        default=None, description="The list that `include` or `month` asks for."
    )
    notes: list[str] = Field(description="Remarks for a reader, for example on a new item.")


class CartComplements(ModelAnswer):
    """The complements of a cart."""

    cart: list[Item]
    complements: list[Complement]
    notes: list[str]


class Pair(ModelAnswer, GradedPair):
    """The evidence card of two items."""

    model_config = _example(**HEAD, model="odds", a=SPAGHETTI, b=SAUCE, **GRADED, footer=FOOTER)
    a: Item
    b: Item


class ListedPair(GradedPair):
    """A pair with evidence."""

    a: Item
    b: Item
    new: bool | None = Field(
        description="Since the previous version; null where there is none to compare with."
    )


class PairsOut(ModelAnswer):
    """A page of all pairs with evidence."""

    total: int = Field(description="Pairs that fit.")
    page: int
    next_page: int | None = Field(description="The next page that has pairs; null on the last.")
    pairs: list[ListedPair]


class ItemOut(FoundItem):
    """One item."""

    bundle: str
    variants: list[str] = Field(description="Ids that are folded into this item.")
    certain: int = Field(description="Certain pairs of this item.")
    likely: int = Field(description="Likely pairs of this item.")
    explained: int = Field(description="Pairs explained by season, store or basket size.")


class SearchResults(BaseModel):
    """Items by name."""

    bundle: str
    q: str
    items: list[FoundItem]


class ModelOut(BaseModel):
    """The model."""

    bundle: str
    model: str
    kind: str
    created: str
    items: int = Field(description="Items of the catalogue.")
    k: int = Field(description="Answers per item in the table.")
    strata: list[str] = Field(
        description="Columns within which the evidence is measured; empty: over all baskets."
    )
    evidence: str = Field(description="The same in words, with what could not be ruled out.")
    coverage: dict[str, dict[str, float]] = Field(
        description="Per grade the share of items, and of sales, with an answer of that grade."
    )
    version: str = Field(description="Version of neatrec.")


class Health(BaseModel):
    """The state of the service."""

    status: Literal["ok"]
    bundle: str | None = None
    refusal: str | None = Field(
        default=None, description="Why the bundle that should be live is not."
    )


class ErrorBody(BaseModel):
    """The error, and the next step."""

    model_config = ConfigDict(extra="allow")
    kind: str
    message: str
    hint: str | None


class ErrorOut(BaseModel):
    """Every error."""

    error: ErrorBody


def error_responses(*statuses: int) -> dict[int | str, Any]:
    """These errors of a route."""
    words = {404: "no such item or category", 422: "no such parameter, or a wrong value"}
    words |= {status: message for status, (_, message, _) in REFUSED.items()}
    return {status: {"model": ErrorOut, "description": words[status]} for status in statuses}
