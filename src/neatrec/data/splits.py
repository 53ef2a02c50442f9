"""Baskets split into training and test baskets, the guard of the two, and random generators.

Whether a basket trains or tests depends on its own id or time only, not on the other baskets.
Randomness comes in as `rng` and goes down as child generators: nothing sets a global seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.baskets import Baskets
from neatrec.errors import LeakError, ParameterError, must_be, must_be_one_of, require_whole
from neatrec.text import parse_moment, plural, printable

METHODS = ("half", "time", "random")
Mask = npt.NDArray[np.bool_]
Seed = int | np.random.Generator


@dataclass(frozen=True)
class Split:
    """Training and test baskets. They share none."""

    train: Baskets
    test: Baskets
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """How it was done, as reports and JSON say it."""

    def __post_init__(self) -> None:
        for part, baskets in (("training", self.train), ("test", self.test)):
            if not len(baskets):
                raise ParameterError(
                    f"the {self.method} split leaves no {part} baskets",
                    hint="Choose another split, share or cut.",
                )


def split_baskets(baskets: Baskets, method: str = "half", **options: Any) -> Split:
    """Split the baskets into a training and a test side.

    Parameters
    ----------
    baskets
        The baskets to split.
    method
        `half` (by basket id), `time` or `random`.
    **options
        `cut` or `share` of a split by time; `share` and `seed` of a random one.

    Examples
    --------
    >>> split = split_baskets(Baskets.from_lists([["tea"], ["milk"]], ids=["1", "2"]))
    >>> split.train.ids.to_pylist(), split.test.ids.to_pylist()
    (['2'], ['1'])
    """
    ways: dict[str, Callable[..., Split]] = {"half": half, "time": by_time, "random": at_random}
    if method not in ways:
        raise must_be_one_of("split", METHODS, method)
    return ways[method](baskets, **options)


def half(baskets: Baskets) -> Split:
    """Even basket ids train, odd ones test; ids that are no integers go by the parity of a hash."""
    return _parted(baskets, ~_is_odd(baskets.ids), "half")


def by_time(
    baskets: Baskets, *, cut: datetime | date | str | int | None = None, share: float | None = None
) -> Split:
    """Baskets before `cut` train, the others test; without a cut the earliest `share` (0.8) trains.

    Baskets of one moment stay together, so a share is met as nearly as the times allow.
    """
    if baskets.times is None:
        raise ParameterError(
            "a split by time needs the times of the baskets", hint="Name the time column."
        )
    if cut is not None and share is not None:
        raise must_be("cut", "given without `share`: either sets the cut", cut)
    if cut is not None:
        moment = _microseconds(cut)
    else:
        moment = moment_of_share(baskets.times, _share(0.8 if share is None else share))
    return _parted(baskets, baskets.times < moment, "time", cut=str(np.datetime64(moment, "us")))


def at_random(baskets: Baskets, *, share: float = 0.5, seed: int = 0) -> Split:
    """Each basket trains with probability `share`, drawn from a hash of its id and the seed."""
    require_whole("seed", seed, 0)
    draws = uniform_of_ids(baskets.ids, f"split-{int(seed)}")
    return _parted(baskets, draws < _share(share), "random", share=float(share), seed=int(seed))


def refuse_overlap(train: Baskets, test: Baskets) -> None:
    """Raise `LeakError` when a basket id is on both sides: test baskets must not be trained on."""
    both = test.ids.filter(pc.is_in(test.ids, train.ids))
    if len(both):
        one = f"{printable(both[0].as_py())!r} for one"
        raise LeakError(
            f"training and evaluation share {plural(len(both), 'basket')}, {one}",
            hint="Split the baskets, and train on one part only.",
        )


def uniform_of_ids(ids: pa.LargeStringArray, salt: str) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each id, the same on every machine, shape (ids,)."""
    return _hashes(ids, salt) / 2.0**64


def moment_of_share(times: npt.NDArray[np.int64], share: float) -> int:
    """The time, not the first, with nearest to `share` of all times before it."""
    moments, first = np.unique(np.sort(times), return_index=True)
    if len(moments) < 2:
        raise ParameterError("a split by time needs baskets at two different times or more")
    return int(moments[1:][np.argmin(np.abs(first[1:] - share * len(times)))])


def _hashes(ids: pa.LargeStringArray, salt: str) -> npt.NDArray[np.uint64]:
    """The first eight bytes of SHA-256 over salt and id, shape (ids,)."""
    start = hashlib.sha256(f"{salt}|".encode())
    digests = bytearray()
    for text in ids.to_pylist():
        digest = start.copy()
        digest.update(text.encode())
        digests += digest.digest()[:8]
    return np.frombuffer(digests, dtype="<u8")


def _is_odd(ids: pa.LargeStringArray) -> Mask:
    """Whether each id that is an integer, else its hash, is odd, shape (ids,)."""
    odd = pc.match_substring_regex(ids, "[13579]$").to_numpy(zero_copy_only=False)
    others = ~pc.match_substring_regex(ids, "^-?[0-9]+$").to_numpy(zero_copy_only=False)
    odd[others] = _hashes(ids.filter(pa.array(others)), "half") % np.uint64(2) == 1
    return np.asarray(odd, dtype=np.bool_)


def _parted(baskets: Baskets, train: Mask, method: str, **options: Any) -> Split:
    return Split(baskets.select(train), baskets.select(~train), method, options)


def _share(share: float) -> float:
    if (
        isinstance(share, bool)
        or not isinstance(share, int | float | np.floating)
        or not 0 < share < 1
    ):
        raise must_be("share", "a number between 0 and 1", share)
    return float(share)


def _microseconds(cut: datetime | date | str | int) -> int:
    """A moment as microseconds since 1970, UTC; without a zone it is taken as UTC."""
    if isinstance(cut, int | np.integer) and not isinstance(cut, bool):
        return int(cut)
    try:
        return parse_moment(cut.isoformat() if isinstance(cut, date) else str(cut))
    except ValueError as error:
        raise must_be("cut", "a date or time such as 2017-05-31", cut) from error


def as_generator(rng: Seed | None) -> np.random.Generator:
    """A generator from a seed (default 0), or the generator itself."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        return np.random.default_rng(0)
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise must_be("rng", "an integer of at least 0 or a numpy Generator", rng)
    return np.random.default_rng(int(rng))


def children(rng: Seed | None, count: int) -> list[np.random.Generator]:
    """`count` independent generators: one for each thread, epoch or model."""
    return list(as_generator(rng).spawn(count))


def rng_for(name: str, rng: Seed | None) -> np.random.Generator:
    """The generator called `name` of a seed or generator: the same whatever was drawn before.

    >>> bool(rng_for("queries", 1).random() == rng_for("queries", 1).random())
    True
    """
    sequence: Any = as_generator(rng).bit_generator.seed_seq
    key = (*sequence.spawn_key, crc32(name.encode()))
    return np.random.default_rng(np.random.SeedSequence(sequence.entropy, spawn_key=key))


def kernel_seed(rng: np.random.Generator) -> int:
    """A 63-bit seed for a compiled kernel's own stream."""
    return int(rng.integers(1, 2**63 - 1))
