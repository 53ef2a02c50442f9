"""50,000 items with ten answers each, for every target in less than ten seconds."""

import time

import numpy as np
import pytest

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.models import Run, make_model
from neatrec.release.export import TARGETS, ExportOptions, export_answers
from neatrec.serving import PairTable, save_indexed

pytestmark = pytest.mark.long
ITEMS, K = 50_000, 10


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> PairTable:
    ids = [f"sku-{number}" for number in range(ITEMS)]
    drawn = np.random.default_rng(0).integers(ITEMS, size=(100_000, 8))
    lists = [[ids[code] for code in dict.fromkeys(row)] for row in drawn.tolist()]
    baskets = Baskets.from_lists(
        lists, catalog=Catalog.from_ids(ids, names=[f"Name of {item}" for item in ids])
    )
    place = tmp_path_factory.mktemp("large") / "bundle"
    save_indexed(make_model("shrunk-lift").fit(baskets, Run()), place, baskets, seed=0, k=K)
    return PairTable.open(place)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_written_twice_in_ten_seconds_each(
    index, target, tmp_path, postgres, redis_server
) -> None:
    products = tmp_path / "products.csv"
    products.write_text(
        "Handle,Title\n" + "".join(f"sku-{number},Title\n" for number in range(ITEMS))
    )
    out = {"postgres": postgres.address(), "redis": redis_server.address}.get(
        target, tmp_path / "out"
    )
    options = ExportOptions(
        target, out, K, "guess", products=products if target == "shopify" else None
    )
    for _ in range(2):  # the second one replaces the first
        began = time.monotonic()
        assert export_answers(index, options).answers == ITEMS * K
        took = time.monotonic() - began
        print(f"{target}: {took:.1f} s")
        assert took < 10
