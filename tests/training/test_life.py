"""The processes of one life of a job agree on a name that no earlier life had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Condition

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neatrec.errors import ResourceError
from neatrec.training.launch import Launch
from neatrec.training.rendezvous import agreed_life

LONG, SHORT = timedelta(minutes=5), timedelta(seconds=0.1)


class Shelf:
    """A store of torch.distributed, for threads."""

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()
        self.changed = Condition()

    def add(self, key: str, amount: int, /) -> int:
        with self.changed:
            self.numbers[key] += amount
            self.changed.notify_all()
            return self.numbers[key]

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        with self.changed:
            assert self.changed.wait_for(lambda: all(key in self.numbers for key in keys), timeout=500)
            return [str(self.numbers[key]).encode() for key in keys]


class Killed(Exception):
    pass


class Mortal:
    """The same for a process that is killed after so many requests, or when nobody answers it."""

    def __init__(self, shelf: Shelf, requests: int) -> None:
        self.shelf, self.requests = shelf, requests

    def _ask(self, answered: bool = True) -> None:
        if not self.requests or not answered:
            raise Killed
        self.requests -= 1

    def add(self, key: str, amount: int, /) -> int:
        self._ask()
        return self.shelf.add(key, amount)

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        self._ask(all(key in self.shelf.numbers for key in keys))
        return self.shelf.multi_get(keys)


def lived(store: Shelf, size: int, restarts: Mapping[int, int]) -> tuple[str, bool]:
    """What `size` processes that start together agree on."""

    def process(rank: int) -> tuple[str, bool]:
        return agreed_life(store, Launch(rank, size, 1, restarts.get(rank, 0)), LONG)

    with ThreadPoolExecutor(size) as pool:
        names = set(pool.map(process, range(size)))
    assert len(names) == 1
    return names.pop()


def test_a_first_life_and_a_second_one() -> None:
    store = Shelf()
    first, again = lived(store, 3, {})
    assert not again
    second, again = lived(store, 3, {})
    assert again
    assert first != second


def test_a_restart_that_one_machine_knows_of_is_known_to_all() -> None:
    """As where the store is new with each life, and one launcher counts restarts that the others do not."""
    assert lived(Shelf(), 3, {1: 2})[1]


def test_a_job_of_another_size_is_another_life() -> None:
    store = Shelf()
    names = {lived(store, size, {})[0] for size in (3, 2, 4, 1)}
    assert len(names) == 4


@settings(max_examples=40)
@given(lives=st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=4), min_size=1, max_size=3))
def test_deaths_at_any_moment_leave_a_name_that_is_new(lives: list[list[tuple[int, int]]]) -> None:
    """Each of `lives` begins with processes that die, (rank, requests until then), before all are there."""
    store, size, started = Shelf(), 3, False
    for deaths in lives:
        for rank, requests in deaths:
            started |= requests > 0
            with pytest.raises(Killed):
                agreed_life(Mortal(store, requests), Launch(rank, size, 1, 0), LONG)
        before = set(store.numbers)
        name, again = lived(store, size, {})
        assert name not in before
        assert again == started
        started = True


def test_a_process_that_waits_in_vain_says_so_and_does_not_count_any_more() -> None:
    store = Shelf()
    store.add("neatrec/lives/1", 1)  # the other process, of a life that is gone
    with pytest.raises(ResourceError, match=r"process 0 has waited 0:00:00\.1\d* for the others of the job\. Look"):
        agreed_life(store, Launch(0, 2, 1, 0), SHORT)
    assert lived(store, 2, {})[1]
