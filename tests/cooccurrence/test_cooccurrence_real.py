"""Counting the Instacart train orders; how many records and pairs they have: tests/labels/test_labels_instacart.py."""

import pytest

from neatrec.cooccurrence import CountOptions

pytestmark = pytest.mark.real

PAPER = CountOptions(min_basket=5)
