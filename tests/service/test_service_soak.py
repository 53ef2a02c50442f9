"""Ten minutes at half of the highest rate."""

from pathlib import Path

import pytest
from benchmarks.serve_soak import soak

from neatrec.data import Baskets
from neatrec.models import Run, make_model
from neatrec.serving import save_indexed

ITEMS = 200


@pytest.mark.long
def test_memory_stays_as_it_is_over_ten_minutes_at_half_of_the_highest_rate(tmp_path: Path) -> None:
    lists = [[str(n % ITEMS), str((n + 1) % ITEMS), str(7 * n % ITEMS)] for n in range(4000)]
    baskets = Baskets.from_lists([list(dict.fromkeys(each)) for each in lists])
    fitted = make_model("shrunk-lift").fit(baskets, Run(rng=0))
    save_indexed(fitted, tmp_path / "bundle", baskets, seed=0)
    result = soak(tmp_path / "bundle", ITEMS)
    assert result["unexpected"] == 0
    assert result["growth_since_minute_2"] <= 0.03, result["resident_mib"]
