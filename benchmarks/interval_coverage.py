"""Whether 95 % intervals of a leaderboard cover: label records of a planted population, drawn again
and again.

    python -m benchmarks.interval_coverage [populations] [instacart] [--draws 600] [--save]

Items are drawn from an unlimited population; each has an effect on whether a label with it is hit,
so records that share an item depend on each other, and the share of hits in the population is
known. Beside it the interval that resamples queries, which the leaderboard had before. `instacart`:
how much wider the intervals of the statistics are on the half-split of NEATREC_DATA. One record
each: results/interval_PART.json.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from benchmarks.half_split import orders
from benchmarks.harness import argument_parser, commit, save
from neatrec.data.splits import half
from neatrec.evaluation.intervals import Dyads, interval, resampled_means
from neatrec.evaluation.metrics import hit_rate
from neatrec.evaluation.task import build_task, evaluate_model
from neatrec.labels import make_labels
from neatrec.models import make_model

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
STATISTICS = ("llr", "shrunk-lift", "popco")
LARGE = 1_000
"""Pairs of a large population."""


@dataclass(frozen=True)
class Population:
    """Two models on labels between items; both hit a label more often where its items are easy."""

    items: int = 150
    pairs: int = 300
    hits: float = 0.4
    """The share of labels that the first model hits."""
    other_hits: float = 0.35
    """The share that the second one hits."""
    effect: float = 0.7
    """Standard deviation of the items' effects relative to a pair's; 0: independent records."""
    hubs: float = 1.0
    """Standard deviation of the log of the items' number of labels; 0: all alike."""
    directed: bool = False
    """Whether a pair is one label, or one each way."""

    def draw(self, rng: np.random.Generator) -> tuple[Codes, Codes, Floats]:
        """Query, item and both models' hits, shape (labels, 2), of one sample."""
        ends = self._pairs(rng)
        if self.directed:
            ends = rng.permuted(ends, axis=1)
        query, item = (ends.T, np.concatenate([ends, ends[:, ::-1]]).T)[not self.directed]
        pair = np.resize(np.arange(len(ends)), len(query))
        hits = np.empty((len(query), 2))
        shared = self._latent(rng, query, item, pair)
        for model, share in enumerate((self.hits, self.other_hits)):
            score = np.sqrt(0.5) * (shared + self._latent(rng, query, item, pair))
            hits[:, model] = score > -special.ndtri(share) * np.sqrt(2 * self.effect**2 + 1)
        return query, item, hits

    def _pairs(self, rng: np.random.Generator) -> Codes:
        """Different pairs of items, popular ones more often, shape (pairs, 2)."""
        share = np.exp(self.hubs * rng.normal(size=self.items))
        one, other = np.sort(
            rng.choice(self.items, size=(2, 10 * self.pairs), p=share / share.sum()), axis=0
        )
        drawn = (one * self.items + other)[one != other]
        _, first = np.unique(drawn, return_index=True)
        found = drawn[np.sort(first)[: self.pairs]]
        if len(found) < self.pairs:
            raise ValueError(f"{self.items} items are too few for {self.pairs} pairs")
        return np.stack(np.divmod(found, self.items), axis=1)

    def _latent(self, rng: np.random.Generator, query: Codes, item: Codes, pair: Codes) -> Floats:
        """Effects of both items, of the pair and of the record; variance 2 effect² + 1."""
        as_query = self.effect * rng.normal(size=self.items)
        as_item = self.effect * rng.normal(size=self.items) if self.directed else as_query
        noise = np.sqrt(0.5) * (rng.normal(size=self.pairs)[pair] + rng.normal(size=len(pair)))
        latent: Floats = as_query[query] + as_item[item] + noise
        return latent


def leaderboard_intervals(query: Codes, item: Codes, hits: Floats) -> Floats:
    """Intervals of the first model's share of hits and of the difference, shape (2, ends)."""
    dyads, mean = Dyads.from_pairs(query, item), hits.mean(axis=0)
    moved = dyads.influence(hits)
    share = dyads.share_interval(mean, moved.variance)
    error = dyads.paired_error((moved.column(0) - moved.column(1)).variance)
    paired = dyads.paired_interval(mean[0] - mean[1], error)
    return np.array([[share[0][0], share[1][0]], paired])


def query_intervals(query: Codes, item: Codes, hits: Floats) -> Floats:
    """The same by resampling queries with their labels."""
    _, row, sizes = np.unique(query, return_inverse=True, return_counts=True)
    totals = np.stack(
        [np.bincount(row, column) for column in (hits[:, 0], hits[:, 0] - hits[:, 1])], axis=1
    )
    return np.stack(interval(resampled_means(totals, sizes, rounds=500)), axis=1)


WAYS = {"dyads": leaderboard_intervals, "queries": query_intervals}


def coverage(population: Population, draws: int, ways: dict[str, Any] = WAYS) -> dict[str, Any]:
    """Coverage and width of the intervals of share and difference."""
    rng = np.random.default_rng(0)
    truth = np.array([population.hits, population.hits - population.other_hits])[:, None]
    found: dict[str, list[Floats]] = {way: [] for way in ways}
    for _ in range(draws):
        sample = population.draw(rng)
        for way, ends_of in ways.items():
            found[way].append(ends_of(*sample))
    out: dict[str, Any] = {}
    for way, each in found.items():
        ends = np.stack(each)  # (draws, 2, ends)
        held = (ends[..., :1] <= truth) & (truth <= ends[..., 1:])
        width = np.diff(ends, axis=2).mean(axis=(0, 2))
        out[way] = {
            "share": round(float(held[:, 0].mean()), 3),
            "difference": round(float(held[:, 1].mean()), 3),
            "width": round(float(width[0]), 4),
            "difference_width": round(float(width[1]), 4),
        }
    return out


POPULATIONS = {
    "a dozen labels": Population(items=12, pairs=6, hits=0.8, other_hits=0.7, hubs=0.0),
    "a dozen labels, nearly all hit": Population(
        items=12, pairs=6, hits=0.97, other_hits=0.9, hubs=0.0
    ),
    "80 labels": Population(items=60, pairs=40),
    "80 labels, nearly all hit": Population(items=60, pairs=40, hits=0.95, other_hits=0.9),
    "600 labels, independent": Population(effect=0.0, hubs=0.0),
    "600 labels": Population(),
    "600 labels, nearly none hit": Population(hits=0.05, other_hits=0.03),
    "600 labels, strong items": Population(effect=1.5),
    "300 labels, directed": Population(directed=True),
    "6,000 labels": Population(items=1_500, pairs=3_000),
    "3,000 labels, directed": Population(items=1_500, pairs=3_000, directed=True),
}


def on_instacart() -> list[dict[str, Any]]:
    """HR@10 of statistics on the half-split: the interval of dyads beside that of queries."""
    split = half(orders())
    rows: list[dict[str, Any]] = []
    for protocol in ("paper", "calibrated"):
        task = build_task(
            split.train, split.test, make_labels(split.test, protocol=protocol), queries=0, carts=0
        )
        queries, chosen = task.label_queries, task.labels.at(0.05)
        query, item = (part[chosen].astype(np.int64) for part in (queries.query, queries.item))
        hits = {}
        for name in STATISTICS:
            ranks = evaluate_model(make_model(name).fit(split.train), task, label_free=False)
            found = ranks.label_ranks[task.candidate_set.name]
            hits[name] = hit_rate(found.higher, found.equal, 10)[chosen]
        for name in STATISTICS:
            both = np.stack([hits[name], hits[STATISTICS[0]]], axis=1)
            ends = {way: ends_of(query, item, both) for way, ends_of in WAYS.items()}
            width = {way: np.diff(of_way, axis=1)[:, 0] for way, of_way in ends.items()}
            wider = width["dyads"] / np.maximum(width["queries"], 1e-12)
            row: dict[str, Any] = {"protocol": protocol, "model": name, "labels": len(query)}
            row["hr@10"] = round(both[:, 0].mean(), 4)
            row |= {way: of_way[0].round(4).tolist() for way, of_way in ends.items()}
            row["wider"] = round(float(wider[0]), 3)
            first = name == STATISTICS[0]
            row["difference_wider"] = None if first else round(float(wider[1]), 3)
            rows.append(row)
    return rows


def on_populations(draws: int) -> dict[str, Any]:
    """The coverage on every population; large ones are drawn a quarter as often."""
    out = {}
    for name, population in POPULATIONS.items():
        times = draws if population.pairs < LARGE else draws // 4
        out[name] = {"draws": times, **coverage(population, times)}
        print(name, out[name], flush=True)
    return out


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("parts", nargs="*", help="populations, instacart; default: populations")
    parser.add_argument("--draws", type=int, default=600)
    parser.add_argument("--save", action="store_true")
    chosen = parser.parse_args()
    if chosen.save:
        commit()  # better refused now than at the end
    for part in chosen.parts or ["populations"]:
        found = {"rows": on_instacart()} if part == "instacart" else on_populations(chosen.draws)
        for row in found.get("rows", ()):
            print(row, flush=True)
        if chosen.save:
            file, options = f"interval_{part}", f"{part} --draws {chosen.draws} --save"
            save("interval_coverage", found, ("numpy", "scipy"), file=file, options=options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
