"""Training pairs and negatives: shards in the kernels' form, users by row, negatives by frequency."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.baskets import Baskets, BasketStream, as_shards
from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import ParameterError, ResourceError, must_be
from neatrec.models.embeddings.kernels.arguments import Draws, Shard
from neatrec.models.embeddings.kernels.arrange import arrange
from neatrec.models.embeddings.kernels.draws import add_owned, add_pairs, alias_table, new_filter
from neatrec.text import plural

MAX_BASKET_PAIRS = 200_000_000
"""A basket with more pairs is refused where all its pairs must be stored."""
EMPTY = np.zeros(0, dtype=np.uint64)

log = logging.getLogger(__name__)


class VisitOrder:
    """Turns shards into kernel input. Item rows are sorted by frequency, so that frequent rows share the cache."""

    def __init__(
        self,
        shards: Iterable[Baskets],
        item_count: npt.NDArray[np.int64],
        category_of_item: npt.NDArray[np.int32],
        with_users: bool,
    ) -> None:
        by_row = np.argsort(-item_count, kind="stable")
        self.row_of_item = np.empty(len(by_row), dtype=np.int32)
        self.row_of_item[by_row] = np.arange(len(by_row), dtype=np.int32)
        self.count_of_row = item_count[by_row]
        self.category = category_of_item[by_row].astype(np.int32)
        self.user_ids: pa.LargeStringArray | None = _all_users(shards) if with_users else None

    def arranged(self, shard: Baskets, number: int, epoch: int, seed: int) -> Shard:
        """The baskets of a shard in a random order per epoch."""
        rng = np.random.default_rng([seed, 1, epoch, number])
        return arrange(
            shard.items,
            shard.offsets,
            order=rng.permutation(len(shard)),
            row_of_item=self.row_of_item,
            category=self.category,
            users=self.users_of(shard),
            shuffle_seed=None if shard.ordered else int(rng.integers(2**63)),
        )

    def users_of(self, shard: Baskets) -> npt.NDArray[np.int32]:
        """The row of each basket's user, shape (baskets,); empty for models without users."""
        if self.user_ids is None or shard.users is None or shard.user_ids is None:
            return np.zeros(0, dtype=np.int32)
        rows = self._user_rows(shard.users, shard.user_ids)
        if rows.min(initial=0) < 0:  # a kernel would read out of bounds
            raise ParameterError("a basket has a user that the first pass over the baskets did not find")
        return rows

    def baskets_of_users(self, shards: Iterable[Baskets]) -> npt.NDArray[np.int64]:
        """The number of baskets of each user, shape (users,)."""
        found = np.zeros(0 if self.user_ids is None else len(self.user_ids), dtype=np.int64)
        for shard in shards:
            found += np.bincount(self.users_of(shard), minlength=len(found))
        return found

    def with_known_users(self, shard: Baskets) -> Baskets:
        """The baskets of users with training baskets; all baskets for models without users."""
        if self.user_ids is None or shard.users is None or shard.user_ids is None:
            return shard
        known = self._user_rows(shard.users, shard.user_ids) >= 0
        return shard if known.all() else shard.select(known)

    def _user_rows(self, users: npt.NDArray[np.int32], ids: pa.LargeStringArray) -> npt.NDArray[np.int32]:
        """Shape (baskets,); -1 for a user without training baskets."""
        row_of_user = pc.fill_null(pc.index_in(ids, value_set=self.user_ids), -1).to_numpy(zero_copy_only=False)
        rows: npt.NDArray[np.int32] = row_of_user[users].astype(np.int32)
        return rows

    def seeded(self, draws: Draws, seed: int, epoch: int, number: int) -> Draws:
        """The draws of one epoch over one shard."""
        rng = np.random.default_rng([seed, 2, epoch + 1, number])
        return draws._replace(seed=np.uint64(rng.integers(2**63)))


class ValidationPairs:
    """The validation baskets that have a loss, shard by shard: those of users with training baskets."""

    def __init__(self, visits: VisitOrder, validation: BasketStream, catalog: Catalog) -> None:
        self.visits, self.shards = visits, as_shards(validation)
        found = left = 0
        for shard in self.shards:
            self._check(shard, catalog)
            found += len(shard)
            left += len(visits.with_known_users(shard))
        if not found:
            raise must_be("validation", "at least one basket", found)
        if not left:
            raise ParameterError(
                f"`validation` is of no use: no user of its {plural(found, 'basket')} has a training basket",
                hint="Hold out a smaller share, or train without validation.",
            )
        if left < found:
            log.info(
                "ignoring %s of %s: their users have no training basket",
                f"{found - left:,}",
                plural(found, "validation basket"),
            )

    def _check(self, shard: Baskets, catalog: Catalog) -> None:
        if shard.catalog is not catalog and shard.catalog.hash != catalog.hash:
            raise ParameterError("`validation` must be baskets over the catalogue of the training baskets")
        if self.visits.user_ids is not None and shard.users is None:
            raise ParameterError("`validation` must be baskets whose users are known: the model learns from users")

    def __iter__(self) -> Iterator[Baskets]:
        return map(self.visits.with_known_users, self.shards)


def _all_users(shards: Iterable[Baskets]) -> pa.LargeStringArray:
    """The ids of all users who have a basket, sorted."""
    known: pa.Array = string_array([])
    for shard in shards:
        if shard.users is not None and shard.user_ids is not None:
            present = shard.user_ids.take(pa.array(np.unique(shard.users)))
            known = pc.unique(pa.concat_arrays([known, present]))
    return known.take(pc.sort_indices(known))


def new_draws(
    visits: VisitOrder, shards: Iterable[Baskets], exponent: float, reject_observed: bool, reject_bought: bool
) -> Draws:
    """The distribution of negatives: frequencies to the power `exponent`, without the rejected items."""
    weights = np.where(visits.count_of_row > 0, visits.count_of_row.astype(np.float64) ** exponent, 0.0)
    observed = _observed(visits, shards) if reject_observed else EMPTY
    bought = _bought(visits, shards) if reject_bought else EMPTY
    return Draws(np.uint64(0), alias_table(weights), observed, bought)


def _observed(visits: VisitOrder, shards: Iterable[Baskets]) -> npt.NDArray[np.uint64]:
    """A filter of all pairs of items in one basket."""
    pairs = 0
    for shard in shards:
        of_basket = shard.sizes * (shard.sizes - 1)
        if of_basket.max(initial=0) > 2 * MAX_BASKET_PAIRS:
            raise ResourceError(
                f"a basket of {plural(int(shard.sizes.max()), 'item')} has too many pairs to store",
                hint="Set reject_observed=false, or leave such baskets out.",
            )
        pairs += int(of_basket.sum())
    words = new_filter(pairs)
    for shard in shards:
        add_pairs(words, visits.row_of_item[shard.items], shard.offsets)
    log.info("rejecting observed pairs as negatives: filter of %.0f MB", words.nbytes / 1e6)
    return words


def _bought(visits: VisitOrder, shards: Iterable[Baskets]) -> npt.NDArray[np.uint64]:
    """A filter of what each user has bought."""
    words = new_filter(int(visits.count_of_row.sum()))
    for shard in shards:
        add_owned(words, visits.users_of(shard), visits.row_of_item[shard.items], shard.offsets)
    return words
