"""The real baskets and their labels, read and made once."""

from pathlib import Path

import pytest

from neatrec.data.baskets import Baskets
from neatrec.io import read_baskets
from neatrec.labels import Labels, make_labels


@pytest.fixture(scope="session")
def instacart(instacart_folder: Path) -> Baskets:
    return read_baskets(instacart_folder)


@pytest.fixture(scope="session")
def instacart_paper(instacart: Baskets) -> Labels:
    return make_labels(instacart, protocol="paper")


@pytest.fixture(scope="session")
def instacart_calibrated(instacart: Baskets) -> Labels:
    return make_labels(instacart, protocol="calibrated")
