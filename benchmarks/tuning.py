"""Settings chosen on validation baskets: the same number of trials for every model, nothing of the test half is read.

    python -m benchmarks.tuning                                  # all models, 16 trials each
    python -m benchmarks.tuning neat item2vec --device gpu --jobs 8

The training half of the Instacart orders is cut once more (`Split.validation`: id % 4 == 0 against id % 4 == 2, both
ways round); a trial learns from one quarter and is evaluated on the paper's labels of the other: HR@10 in the candidate
set of 200, mean of both ways. The first trial of a model is a plain starting point, the others are drawn from its space
by a fixed seed. Trials are kept in `results/tuning.json`; those in the file are not run again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.half_split import Outcome, Trial, attempts
from benchmarks.harness import RESULTS, commit

EMBEDDING: Mapping[str, tuple[Any, ...]] = {
    "learning_rate": (0.1, 0.2, 0.4, 0.8),
    "epochs": (10, 20, 40, 80),
    "window": (3, 5, 10),
    "negatives": (5, 10, 20),
    "negative_exponent": (0.5, 0.75, 1.0),
}
GAUSSIAN: Mapping[str, tuple[Any, ...]] = {
    "learning_rate": (0.1, 0.2, 0.3, 0.5),
    "epochs": (20, 40, 80, 160),
    "window": (3, 5, 10),
    "negatives": (5, 10, 20),
    "negative_exponent": (0.5, 0.75, 1.0),
    "margin": (0.2, 0.5, 1.0, 2.0),
    "variance_learning_rate": (0.05, 0.1, 0.2, 0.4),
    "start_log_variance": (-2.0, -1.5, -1.0, 0.0),
}
SPACES: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "neat": GAUSSIAN,
    "neat-bpr": {**GAUSSIAN, "ranking_loss": ("printed", "log")},
    "item2vec": EMBEDDING,
    "triple2vec": EMBEDDING,
    "cf": {
        "epochs": (10, 15, 30),
        "regularization": (0.01, 0.1, 1.0, 10.0, 100.0),
        "alpha": (1.0, 3.0, 10.0, 30.0, 100.0),
    },
    "bprmf": {
        "epochs": (15, 30, 60, 100),
        "learning_rate": (0.01, 0.03, 0.05, 0.1),
        "regularization": (0.001, 0.003, 0.01, 0.03, 0.1),
    },
}
"""Model -> setting -> what is tried. `neat-likelihood` and `item2vec-product` take what `neat` and `item2vec` get."""
PLAIN = {"learning_rate": 0.2, "epochs": 40, "window": 5, "negatives": 5, "negative_exponent": 0.75}
NEAT = {**PLAIN, "learning_rate": 0.5, "margin": 0.5, "variance_learning_rate": 0.05, "start_log_variance": 0.0}
FIRST: Mapping[str, Mapping[str, Any]] = {
    "neat": NEAT,
    "neat-bpr": {**NEAT, "ranking_loss": "printed"},
    "item2vec": PLAIN,
    "triple2vec": PLAIN,
    "cf": {"epochs": 15, "regularization": 1.0, "alpha": 10.0},
    "bprmf": {"epochs": 30, "learning_rate": 0.05, "regularization": 0.01},
}
LEAST_CORRELATION = 0.75
"""A Gaussian whose variance does not follow popularity is no NEAT as the paper means it: such trials are not chosen."""
FILE = RESULTS / "tuning.json"


def draw_trials(name: str, trials: int) -> list[dict[str, Any]]:
    """The settings to try, no two alike; more trials begin with the same ones."""
    space, chosen = SPACES[name], [dict(FIRST[name])]
    rng = np.random.default_rng([0, *name.encode()])
    while len(chosen) < trials:
        trial = {key: values[rng.integers(len(values))] for key, values in space.items()}
        if trial not in chosen:
            chosen.append(trial)
    return chosen


def further(name: str, known: list[dict[str, Any]]) -> dict[str, Any]:
    """One more trial: the best so far with twice the epochs, since more epochs were never tried."""
    found = best(name, known)
    return {**found, "epochs": 2 * found["epochs"]}


def record(outcome: Outcome) -> dict[str, Any]:
    """What is kept of a trial."""
    trial = outcome.trial
    known = {"model": trial.model, "settings": dict(trial.settings), "device": trial.device, **outcome.means()}
    follows = None if outcome.correlation is None else round(outcome.correlation, 3)
    return {**known, "correlation": follows, "seconds": outcome.seconds, "commit": commit()}


def best(model: str, trials: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings with the highest HR@10."""
    allowed = [
        t for t in trials if t["model"] == model and (t["correlation"] is None or t["correlation"] >= LEAST_CORRELATION)
    ]
    settings: dict[str, Any] = max(allowed, key=lambda t: t["hr@10"])["settings"]
    return settings


def page(trials: list[dict[str, Any]]) -> str:
    """The trials of each model as Markdown tables, best first, the chosen one bold."""
    lines: list[str] = []
    for model, space in SPACES.items():
        mine = sorted((t for t in trials if t["model"] == model), key=lambda t: -t["hr@10"])
        follows = any(t["correlation"] is not None for t in mine)
        heads = [*(f"`{key}`" for key in space), "HR@10", "NDCG@10", *(["variance ~ popularity"] if follows else [])]
        lines += [f"### {model}: {len(mine)} trials", "", _row(heads), "|" + "---|" * len(heads)]
        for trial in mine:
            cells = [str(trial["settings"][key]) for key in space]
            cells += [f"{trial[key]:.3f}" for key in ("hr@10", "ndcg@10", "correlation") if trial[key] is not None]
            bold = trial["settings"] == best(model, mine)
            lines.append(_row([f"**{cell}**" for cell in cells] if bold else cells))
        lines.append("")
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(SPACES))
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--baskets", type=Path, help="a folder that `Baskets.save` wrote, instead of the order files")
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--further", action="store_true", help="only one more trial each: the best, twice the epochs")
    parser.add_argument("--page", action="store_true", help="print the trials that are kept as the tables of the docs")
    options = parser.parse_args()
    if options.page:
        print(page(json.loads(options.file.read_text())["results"]))
        return
    known: list[dict[str, Any]] = json.loads(options.file.read_text())["results"] if options.file.exists() else []
    head = {"benchmark": "tuning", "command": "python -m benchmarks.tuning", "commit": commit()}
    done = [(trial["model"], trial["settings"]) for trial in known]
    wanted = [
        Trial(name, settings, device=options.device)
        for name in options.models
        for settings in draw_trials(name, options.trials)
        if (name, settings) not in done
    ]
    if options.further:
        wanted = [Trial(name, further(name, known), device=options.device) for name in options.models]
    for outcome in attempts(wanted, options.baskets, True, options.jobs, options.threads):
        known.append(record(outcome))
        options.file.write_text(json.dumps({**head, "results": known}, indent=1) + "\n")
        print(known[-1], flush=True)
    for name in options.models:
        print(name, best(name, known))


if __name__ == "__main__":
    main()
