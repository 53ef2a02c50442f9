"""Exports of shop systems are read without any option, and answered."""

from pathlib import Path

import pytest

from helpers.exports import EXPORTS, write_export
from neatrec import fit


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_read_and_answered_without_any_option(name: str, tmp_path: Path) -> None:
    shop = fit(str(write_export(name, tmp_path, baskets=1_500, items=300)), model="shrunk-lift")
    assert len(shop.baskets) == 1_500
    assert len(set(shop.baskets.users.tolist())) < 1_500
    assert shop.baskets.times is not None
    answers = shop.goes_with("Tortilla Chips", min_evidence="guess").to_arrow()
    assert {"Salsa Roja", "Guacamole"} & set(answers["item"].to_pylist()[:5])
