"""Matrix products take one thread while anybody holds the limit, and as many as before once nobody does."""

from __future__ import annotations

import pytest
import threadpoolctl

from neatrec.models.blas import one_blas_thread


def threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]


def test_two_that_overlap_hold_it_until_the_last_leaves() -> None:
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        one, other = one_blas_thread(), one_blas_thread()
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert set(threads()) == {1}
        other.__exit__(None, None, None)
        assert threads() == before


def test_it_is_let_go_where_something_fails() -> None:
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        with pytest.raises(ValueError, match="of the caller"), one_blas_thread():
            raise ValueError("of the caller")
        assert threads() == before
