"""`Counts` answers for single queries and pairs; `CountOptions` refuses what it cannot mean."""

from typing import Any

import numpy as np
import pytest

from neatrec.data import Catalog, CountOptions, Counts, Margins
from neatrec.errors import ParameterError

CATALOG = Catalog.from_ids("abc")
MARGINS = Margins(np.ones(3), np.ones(3), 3, 3, 1, np.full(3, -1))


def make(pairs: list[tuple[int, int]], *, directed: bool = True, **columns: Any) -> Counts:
    query, item = (np.array(codes, dtype=np.int32) for codes in zip(*pairs, strict=True))
    values = {"item": item, "count": np.arange(1, len(pairs) + 1), **columns}
    return Counts.of_pairs(CATALOG, CountOptions(directed=directed), MARGINS, query, values)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min_basket": 2.0}, "`min_basket` must be an integer of at least 1, got 2.0"),
        ({"min_count": 0}, "`min_count` must be an integer of at least 1, got 0"),
        ({"max_pairs": 0}, "`max_pairs` must be None or an integer of at least 1, got 0"),
        ({"directed": 1}, "`directed` must be True or False, got 1"),
        ({"forward": True}, "`forward` must be False for directed pairs and once per customer"),
        ({"category_level": 3}, "`category_level` must be a level's name, 'deepest' or None"),
    ],
)
def test_options_say_what_is_wrong_with_them(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        CountOptions(**wrong)
    assert str(caught.value).startswith(message)


def test_columns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"`item` must be 1 codes from 0 to 2, got array"):
        make([(0, 3)])
    with pytest.raises(ParameterError, match=r"`reverse` must be as long as `item` \(1\), got 2"):
        make([(0, 1)], reverse=np.zeros(2))
    with pytest.raises(ParameterError, match="`column` must be one of count, got 'cuont'"):
        make([(0, 1)]).column("cuont")


def test_pairs_are_found_with_their_values() -> None:
    pairs = make([(0, 1), (0, 2), (2, 0)])
    assert pairs.find([0, 2, 1], [2, 0, 0]).tolist() == [1, 2, -1]
    assert pairs.values("count", [0, 2, 1], [2, 0, 0]).tolist() == [2, 3, 0]
    undirected = make([(0, 1), (1, 2)], directed=False)
    assert undirected.find([1, 2], [0, 1]).tolist() == [0, 1]
