"""`Columns`: which column of a table plays which role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Columns:
    """Role -> column name; roles without a column are not read."""

    basket: str
    item: str
    position: str | None = None
    quantity: str | None = None
    user: str | None = None
    time: str | None = None
    attributes: tuple[str, ...] = ()
    name: str | None = None
    group: str | None = None
    category: tuple[str, ...] = ()

    def by_role(self) -> dict[str, str]:
        """Role -> column for the roles that have one; attributes and category levels are numbered."""
        roles = ("basket", "item", "position", "quantity", "user", "time", "name", "group")
        single = {role: getattr(self, role) for role in roles if getattr(self, role) is not None}
        return single | _numbered("attribute", self.attributes) | _numbered("category", self.category)


def _numbered(role: str, columns: Sequence[str]) -> dict[str, str]:
    return {f"{role} {i}": column for i, column in enumerate(columns)}
