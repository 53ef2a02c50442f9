"""Our MD5 against hashlib's."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neatrec.data.catalog import string_array
from neatrec.labels.md5 import line_keys


def keys_by_hashlib(prefix, ids, sizes):
    digests = [
        hashlib.md5(f"{prefix}{name}|{position}".encode()).digest()
        for name, size in zip(ids, sizes, strict=True)
        for position in range(1, size + 1)
    ]
    return [int.from_bytes(d[:8], "big") for d in digests], [int.from_bytes(d[8:], "big") for d in digests]


def keys(prefix, ids, sizes):
    high, low = line_keys(prefix, string_array(ids), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    return high.tolist(), low.tolist()


BASKETS = st.lists(st.tuples(st.text(max_size=200), st.integers(0, 120)), max_size=8)


@settings(deadline=None)
@given(st.text(max_size=80), BASKETS)
def test_digests_are_hashlibs(prefix, baskets):
    ids, sizes = [name for name, _ in baskets], [size for _, size in baskets]
    assert keys(prefix, ids, sizes) == keys_by_hashlib(prefix, ids, sizes)


@pytest.mark.parametrize("length", [*range(40, 70), 119, 120, 127, 128, 10_000])
def test_messages_of_any_length_are_padded_right(length):
    assert keys("0|1|", ["x" * length], [12]) == keys_by_hashlib("0|1|", ["x" * length], [12])


def test_ids_may_be_a_slice_of_a_longer_array():
    ids = pa.array(["left out", "one", "ünï", "left out too"], pa.large_string())[1:3]
    high, low = line_keys("7|0|", ids, np.array([0, 2, 5]))
    assert (high.tolist(), low.tolist()) == keys_by_hashlib("7|0|", ["one", "ünï"], [2, 3])


def test_no_baskets_have_no_keys():
    assert keys("0|0|", [], []) == ([], [])


def test_a_basket_of_a_hundred_thousand_lines_has_the_right_last_key():
    high, low = keys("3|9|", ["big"], [100_000])
    wanted = hashlib.md5(b"3|9|big|100000").digest()
    assert (high[-1], low[-1]) == (int.from_bytes(wanted[:8], "big"), int.from_bytes(wanted[8:], "big"))
