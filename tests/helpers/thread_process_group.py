"""A process group whose processes are threads of this one: tests of distributed training without torch."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Result = TypeVar("Result")


class ThreadProcessGroup:
    """A `ProcessGroup`; `arrays` holds one array per rank and is shared by all threads."""

    def __init__(self, rank: int, barrier: threading.Barrier, arrays: list[npt.NDArray[Any]]) -> None:
        self.rank, self.size = rank, len(arrays)
        self._barrier, self._arrays = barrier, arrays
        self.calls = 0

    def all_reduce(self, array: npt.NDArray[Any]) -> None:
        self.calls += 1
        self._arrays[self.rank] = array.copy()
        self._barrier.wait()
        total = sum(self._arrays[1:], self._arrays[0].copy())
        self._barrier.wait()
        array[...] = total


def run_processes(size: int, work: Callable[[ThreadProcessGroup], Result]) -> Sequence[Result]:
    """The result of `work` in each of `size` processes; the first error is raised."""
    barrier = threading.Barrier(size, timeout=500)  # one may be compiling while the others wait
    arrays: list[npt.NDArray[Any]] = [np.zeros(0)] * size

    def one(rank: int) -> Result:
        try:
            return work(ThreadProcessGroup(rank, barrier, arrays))
        except BaseException:
            barrier.abort()  # the others must not wait for this one
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(one, rank) for rank in range(size)]
        errors = [error for future in futures if (error := future.exception()) is not None]
        causes = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
        if errors:
            raise (causes or errors)[0]
        return [future.result() for future in futures]
