"""Directed positive pairs that the embedding models train on per CPU-second, beside gensim.

    NEATREC_DATA=FOLDER python -m benchmarks.training_speed [--rounds 5]

Whole baskets of the Instacart train orders, no pair left out for its category, dim 100, window 5,
five negatives. Every job runs in a process of its own on one thread, in turn with the others. Ours
are complete fits (compiled code is loaded before the clock starts); gensim's is the call of
`train`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, argument_parser, measure_in_turn, save, summary, table
from benchmarks.label_data import read_orders
from benchmarks.label_speed import _baskets
from neatrec.models import Run, make_model
from neatrec.models.run import Progress

EPOCHS, WINDOW, NEGATIVES, DIM = 3, 5, 5, 100
GENSIM = "gensim 4 skip-gram, one worker"
FUNCTIONS = {
    GENSIM: "gensim_skip_gram",
    "neat": "neat",
    "neat, five fresh negatives a pair": "neat_fresh",
    "neat, observed partners refused": "neat_rejecting",
    "neat, preset paper": "neat_paper",
    "neat-bpr": "neat_bpr",
    "item2vec, five fresh negatives a pair (as gensim)": "item2vec_fresh",
    "item2vec": "item2vec",
    "triple2vec": "triple2vec",
}
Job = Callable[[], int]


def neat() -> Job:
    return _fit("neat")


def neat_fresh() -> Job:
    return _fit("neat", negatives_shared=False)


def neat_rejecting() -> Job:
    return _fit("neat", reject_observed=True)


def neat_paper() -> Job:
    return _fit("neat", preset="paper", epochs=1)


def neat_bpr() -> Job:
    return _fit("neat-bpr", epochs=1)


def item2vec() -> Job:
    return _fit("item2vec")


def item2vec_fresh() -> Job:
    return _fit("item2vec", negatives_shared=False, negative_exponent=0.75)


def triple2vec() -> Job:
    return _fit("triple2vec", epochs=1)


def gensim_skip_gram() -> Job:
    """One epoch of gensim's skip-gram from a corpus file, one worker."""
    from gensim.models import Word2Vec

    orders = read_orders()
    folder = tempfile.TemporaryDirectory()
    corpus = Path(folder.name) / "corpus.txt"
    baskets = np.split(orders.item, np.cumsum(orders.sizes)[:-1])
    corpus.write_text("".join(" ".join(map(str, basket)) + "\n" for basket in baskets))
    model = Word2Vec(
        vector_size=DIM,
        sg=1,
        negative=NEGATIVES,
        window=WINDOW,
        sample=0,
        shrink_windows=False,
        ns_exponent=0.75,
        min_count=1,
        workers=1,
        seed=1,
    )
    model.build_vocab(corpus_file=str(corpus))
    lines, words = model.corpus_count, model.corpus_total_words

    def job() -> int:
        model.train(corpus_file=str(corpus), total_examples=lines, total_words=words, epochs=1)
        folder.cleanup()
        return int(sum(2 * np.maximum(orders.sizes - k, 0).sum() for k in range(1, WINDOW + 1)))

    return job


def _fit(name: str, *, preset: str | None = None, epochs: int = EPOCHS, **changes: Any) -> Job:
    """A complete fit with the settings that gensim is given, whatever the model's defaults are."""
    baskets = _baskets(read_orders())
    users = np.arange(len(baskets), dtype=np.int32)
    baskets = replace(baskets, users=users, user_ids=baskets.ids)
    shared = {"dim": DIM, "category_level": None, "window": WINDOW, "negatives": NEGATIVES}
    settings = {**shared, **changes}
    few = baskets.select(np.arange(200))
    make_model(name, {**settings, "epochs": 1}, preset=preset).fit(few, Run(threads=1))  # compiles
    ends: list[Progress] = []

    def note(progress: Progress) -> None:
        if progress.epoch == len(ends) + 1:
            ends.append(progress)

    def job() -> int:
        model = make_model(name, {**settings, "epochs": epochs}, preset=preset)
        model.fit(baskets, Run(threads=1, progress=note))
        return sum(progress.pairs for progress in ends)

    return job


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    read_orders()  # reports what is missing before anything runs
    if find_spec("gensim") is None:
        raise SystemExit("This benchmark needs gensim: pip install gensim==4.4.0.")
    jobs = {name: ("benchmarks.training_speed", function) for name, function in FUNCTIONS.items()}
    rows = []
    for name, runs in measure_in_turn(jobs, rounds).items():
        row = summary(name, runs)
        row["pairs_per_cpu_second"] = round(row["answer"] / row["cpu"]["median"])
        row["pairs_per_second"] = round(row["answer"] / row["wall"]["median"])
        rows.append(row)
    cells = [[row["name"], f"{row['pairs_per_cpu_second'] / 1e6:.1f}"] for row in rows]
    print(table([["training", "million pairs per CPU-second"], *cells]))
    written = save("training_speed", {"models": rows}, ("numpy", "numba", "gensim"))
    print(f"\nwritten to {written.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
