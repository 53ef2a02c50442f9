"""How good the embedding models are on the half-split of the Instacart orders, over several
training seeds.

    python -m benchmarks.embedding_quality   # 5 seeds, writes results/embedding_quality.json
    python -m benchmarks.embedding_quality --rows neat neat-gpu --seeds 2 --jobs 8

Paper labels at 0.05, candidate set of 200. Defaults and the preset `paper`, co-purchase counts (all
pairs and window 5) and gensim's skip-gram, fed with the pairs that item2vec sees as sentences of
two items. Differences are paired by query; intervals come from resampling queries and training
seeds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.half_split import Outcome, Trial, attempts, half_part
from benchmarks.harness import argument_parser, save, table
from neatrec.evaluation.summary import compare_models, find_test

PAPER = ("neat", "neat-bpr", "item2vec", "triple2vec")
AS_GENSIM = {"epochs": 20, "window": 5, "negatives": 5, "negative_exponent": 0.75}
"""Settings of both models; each has its best learning rate on validation baskets."""
ROWS: dict[str, Trial] = {
    **{name: Trial(name, {}) for name in (*PAPER, "popco", "shrunk-lift")},
    "popco, window 5": Trial("popco within", {}),
    "neat, fresh negatives": Trial("neat", {"negatives_shared": False}),
    **{f"{name}, preset paper": Trial(name, {}, "paper") for name in PAPER},
    **{f"{name}-gpu": Trial(name, {}, device="gpu") for name in PAPER},
    "gensim": Trial("gensim", {**AS_GENSIM, "learning_rate": 0.1}),
    "item2vec, as gensim": Trial(
        "item2vec", {**AS_GENSIM, "learning_rate": 0.8, "negatives_shared": False}
    ),
}
"""Row -> trial."""
ONCE, TWICE = ("popco", "popco, window 5", "shrunk-lift"), ("gensim", "neat, fresh negatives")
SEEDS = {**dict.fromkeys(ONCE, 1), **dict.fromkeys(TWICE, 2)}
"""Rows with fewer trainings: those without a seed, and those that take long."""
COMPARED = (
    ("neat", "item2vec"),
    ("neat", "popco"),
    ("neat", "popco, window 5"),
    ("item2vec", "gensim"),
    ("item2vec, as gensim", "gensim"),
    ("triple2vec", "item2vec"),
    ("neat-bpr", "neat"),
    ("neat, fresh negatives", "neat"),
    *((f"{name}-gpu", name) for name in PAPER),
)
"""Whose difference is shown: first minus second."""


def model_rows(
    models: list[dict[str, Any]], outcomes: dict[str, list[Outcome]]
) -> list[dict[str, Any]]:
    """A line a row, best first."""
    lines = []
    for row in sorted(models, key=lambda row: -row["hr@10"]):
        runs = outcomes[row["model"]]
        follows = [run.correlation for run in runs if run.correlation is not None]
        sd = row["hr@10_sd"]
        lines.append(
            {
                "row": row["model"],
                "hr@10": round(row["hr@10"], 4),
                "from": round(row["hr@10_low"], 4),
                "to": round(row["hr@10_high"], 4),
                "ndcg@10": round(row["ndcg@10"], 4),
                "seeds": len(runs),
                "sd of seeds": None if sd is None else round(sd, 4),
                "variance ~ popularity": round(sum(follows) / len(follows), 3) if follows else None,
                "seconds": round(sum(run.seconds for run in runs) / len(runs), 1),
            }
        )
    return lines


def differences(tests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """First minus second in HR@10 with its interval."""
    lines = []
    for first, second in COMPARED:
        test = find_test(tests, first, second)
        if test is not None:
            sign = 1 if test["better"] == first else -1
            low, high = sorted((sign * test["difference_low"], sign * test["difference_high"]))
            numbers = {"hr@10": sign * test["difference"], "from": low, "to": high}
            rounded = {key: round(value, 4) for key, value in numbers.items()}
            lines.append({"first": first, "second": second, **rounded})
    return lines


def as_rows(lines: list[dict[str, Any]]) -> list[list[str]]:
    """A head and a row per line."""
    if not lines:
        return [["none"]]
    return [list(lines[0]), *([str(cell) for cell in line.values()] for line in lines)]


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), help="only these")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument(
        "--baskets",
        type=Path,
        help="a file of pickled `Baskets` of the orders, where DuckDB is missing",
    )
    parser.add_argument("--name", default="embedding_quality", help="of the record in results/")
    options = parser.parse_args()
    rows = options.rows or [name for name in ROWS if not name.endswith("-gpu")]
    if "gensim" in rows and find_spec("gensim") is None:
        raise SystemExit(
            "The row gensim needs gensim, which is not installed: name the other rows with --rows."
        )
    work, row_of = [], {}
    for row in rows:
        for seed in range(min(SEEDS.get(row, options.seeds), options.seeds)):
            trial = replace(ROWS[row], seed=seed)
            row_of[repr(trial)] = row
            work.append(trial)
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in attempts(work, options.baskets, options.jobs, options.threads):
        row = row_of[repr(outcome.trial)]
        outcomes[row].append(outcome)
        print(row, outcome.trial.seed, outcome.means(), outcome.seconds, flush=True)
    ranks = {row: [outcome.ranks for outcome in outcomes[row]] for row in rows}
    models, tests = compare_models(ranks, half_part(options.baskets).task.label_queries)
    tables = {"standings": model_rows(models, outcomes), "differences": differences(tests)}
    for name, lines in tables.items():
        print(f"\n{name}\n{table(as_rows(lines))}")
    packages = ("numpy", "numba", "gensim", "cupy-cuda13x")
    asked = f"--seeds {options.seeds}"
    if options.rows:
        asked = f"--rows {' '.join(map(repr, rows))} {asked}"
    save("embedding_quality", tables, packages, file=options.name, options=asked)


if __name__ == "__main__":
    main()
