"""The labels of the real baskets, made once."""

import pytest

from neatrec.data import Baskets
from neatrec.labels import Labels, make_labels


@pytest.fixture(scope="session")
def instacart_paper(instacart: Baskets) -> Labels:
    return make_labels(instacart, protocol="paper")


@pytest.fixture(scope="session")
def instacart_calibrated(instacart: Baskets) -> Labels:
    return make_labels(instacart, protocol="calibrated")
