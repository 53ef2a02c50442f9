"""Fill the tables of the docs from the records: `python -m benchmarks.tables`, or `--check` to compare only.

A page marks a table by `<!-- table: NAME -->` and `<!-- end -->`; what stands between is replaced. Each table ends with
its records, their commits and dates. `imports` is the table of allowed imports, from tests/test_architecture.py.
"""

from __future__ import annotations

import argparse
import json
import re
import runpy
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import tuning
from benchmarks.harness import RESULTS, ROOT

MARKED = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(<!-- end -->)", flags=re.DOTALL)
TABLES: dict[str, Callable[[], str]] = {}

Table = Callable[[], Sequence[Sequence[Any]]]


def record(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return loaded


def results(name: str) -> Any:
    return record(name)["results"]


def from_records(name: str, *records: str) -> Callable[[Table], Table]:
    """Register a function that returns a head and rows as the table `name`, made of these records."""

    def register(make: Table) -> Table:
        TABLES[name] = lambda: f"{markdown(make())}\n\n{provenance(records)}\n"
        return make

    return register


def markdown(rows: Iterable[Sequence[Any]]) -> str:
    head, *body = [[str(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def provenance(records: Sequence[str]) -> str:
    """Which records a table is made of, and which commits they measured."""
    parts = []
    for name in records:
        about = record(name)
        commit = about["commit"]
        if commit == "unknown":
            commit = f"unknown, recorded in {about['recorded_in']}"
        parts.append(f"`{name}.json` ({about['date']}, commit {commit})")
    return f"Made from {', '.join(parts)} in `benchmarks/results`."


def pair(values: Sequence[float]) -> str:
    """HR@10 / NDCG@10."""
    return " / ".join(f"{value:.3f}" for value in values)


def span(low: float, high: float, digits: int = 3) -> str:
    return f"{low:.{digits}f} to {high:.{digits}f}"


def two_digits(value: float) -> str:
    """
    >>> two_digits(12718.6), two_digits(0.00836)
    ('13,000', '0.0084')
    """
    return f"{float(f'{value:.2g}'):,g}"


# bayes -------------------------------------------------------------------------------------------------------------

SPLITS = ("half", "random-1", "random-2", "random-3")
STATISTICS = ("shrunk-lift-tuned", "shrunk-lift", "llr", "jaccard")
METRICS = "hr@10, ndcg@10"


def leaderboard(split: str, protocol: str = "paper") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = results(f"bayes_{split}")[split][protocol]["results"]
    return rows


def candidates(row: dict[str, Any]) -> str:
    return "catalogue" if row["candidates"] == "catalogue" else "200"


def difference(row: dict[str, Any], first: str, second: str, metric: str) -> str:
    """The interval by which `first` is above `second`."""
    for text in row["better by"]:
        if found := re.fullmatch(r"(\S+) over (\S+), (\S+): (\S+) to (\S+)", text):
            a, b, name, low, high = found.groups()
            if name == metric and (a, b) == (first, second):
                return span(float(low), float(high))
            if name == metric and (a, b) == (second, first):
                return span(-float(high), -float(low))
    return ""


def ratio(row: dict[str, Any], first: str, second: str) -> str:
    values = row[METRICS]
    return pair([a / b for a, b in zip(values[first], values[second], strict=True)])


GOALS = ("bayes", "bayes@lift", "bayes@evidence")


@from_records("bayes-splits", *(f"bayes_{split}" for split in (*SPLITS, "journey")))
def bayes_splits() -> list[list[str]]:
    """The goals beside the best statistic of each protocol, 200 candidates."""
    rows = [["split", "labels", *GOALS, "best statistic", "bayes over it", "HR interval", "NDCG interval"]]
    for split in (*SPLITS, "journey"):
        for protocol, best in (("paper", "shrunk-lift-tuned"), ("calibrated", "llr")):
            for row in leaderboard(split, protocol):
                if row["level"] == 0.05 and candidates(row) == "200":
                    intervals = [difference(row, "bayes", best, name) for name in ("hr@10", "ndcg@10")]
                    scores = [pair(row[METRICS][name]) for name in GOALS]
                    statistic = f"{best} {pair(row[METRICS][best])}"
                    rows.append([split, protocol, *scores, statistic, ratio(row, "bayes", best), *intervals])
    return rows


@from_records("no-regret", "no_regret")
def no_regret() -> list[list[str]]:
    """The default beside the best of all statistics, shop by shop."""
    head = [
        "shop",
        "labels",
        "number",
        "ranks by",
        "bayes",
        "best statistic",
        "HR interval",
        "NDCG interval",
        "loses to",
    ]
    rows = [head]
    for shop, found in results("no_regret").items():
        for one in found["boards"]:
            ranked_by = one["default"].items()
            taken = ", ".join(f"{key} {value:g}" if isinstance(value, float) else value for key, value in ranked_by)
            if not one["labels"]:
                rows.append([shop, one["protocol"], "0", taken, *[""] * 5])
                continue
            scores = [pair(one["bayes"]), f"{one['best']} {pair(one['best_statistic'])}"]
            ends = [span(*interval) for interval in one["difference"]]
            rows.append([shop, one["protocol"], f"{one['labels']:,}", taken, *scores, *ends, "; ".join(one["losses"])])
    return rows


@from_records("bayes-times-seen", "bayes_half")
def bayes_times_seen() -> list[list[str]]:
    slices = results("bayes_half")["half"]["paper"]["slices"]
    rows = [["times seen in training", "candidates", "labels", "bayes", "shrunk-lift-tuned"]]
    for row in slices:
        scores = [pair(row[METRICS][name]) for name in ("bayes", "shrunk-lift-tuned")]
        rows.append([row["slice"], candidates(row), f"{row['labels']:,}", *scores])
    return rows


@from_records("which-model", "bayes_half")
def which_model() -> list[list[str]]:
    half = results("bayes_half")["half"]
    paper, calibrated = (
        next(row for row in leaderboard("half", protocol) if row["level"] == 0.05 and candidates(row) == "200")
        for protocol in ("paper", "calibrated")
    )
    free = half["paper"]["label_free"]
    completed = f"of {free['basket_completion']['bayes']['carts']:,} carts completed@10"
    rows = [["model", "HR@10, paper's labels", "HR@10, calibrated labels", "held-out lift@10", completed]]
    for model, scores in paper[METRICS].items():
        lift, carts = free["held_out_lift"][model]["lift"]["10"], free["basket_completion"][model]["hr"]["10"]
        hits = [f"{scores[0]:.3f}", f"{calibrated[METRICS][model][0]:.3f}"]
        rows.append([f"`{model}`", *hits, f"{lift:.2f}", f"{carts:.3f}"])
    return rows


def half_split_hits() -> dict[str, float]:
    """HR@10 on the half-split, paper's labels at 0.05 among 200 candidates: what people try first, and the default."""
    rows = results("interval_instacart")["rows"]
    counts = next(row["hr@10"] for row in rows if (row["protocol"], row["model"]) == ("paper", "popco"))
    paper = next(row for row in leaderboard("half", "paper") if row["level"] == 0.05 and candidates(row) == "200")
    return {"counts": counts, **{name: paper[METRICS][key][0] for name, key in RANKINGS.items()}}


RANKINGS = {"shrunk lift": "shrunk-lift", "neatrec": "bayes"}


@from_records("why", "bayes_half", "interval_instacart")
def why() -> list[list[str]]:
    hits = {name: f"{hit:.3f}" for name, hit in half_split_hits().items()}
    return [
        ["instead of neatrec", "what is missing"],
        ["counts", f"best sellers go with everything: HR@10 {hits['counts']}, neatrec {hits['neatrec']}"],
        ["lift", f"pairs seen once or in one season win; shrunk, it has HR@10 {hits['shrunk lift']} and no evidence"],
        ["a hosted service", "your orders leave the house, and no answer comes with its reason or its error"],
    ]


@from_records("cart-completion", "cart_completion")
def cart_completion() -> list[list[str]]:
    rows = [["model", "HR@10", "NDCG@10", "lift of the answers", "HR@10 less `ease`", "NDCG@10 less `ease`"]]
    for row in results("cart_completion")["models"]:
        scores = [f"{row['hr@10'][0]:.3f}", f"{row['ndcg@10'][0]:.3f}", f"{row['lift@10'][0]:.2f}"]
        ends = [row["less_ease"][metric][1:] for metric in ("hr@10", "ndcg@10")]
        less = ["", ""] if row["model"] == "ease" else [f"{low:+.4f} to {high:+.4f}" for low, high in ends]
        rows.append([f"`{row['model']}`", *scores, *less])
    return rows


@from_records("cart-tuning", "cart_tuning")
def cart_tuning() -> list[list[str]]:
    rows = [["`min_count`", "`regularization`", "items", "HR@10", "interval", "NDCG@10"]]
    for trial in results("cart_tuning")["trials"]:
        hr, settings = trial["hr@10"], (trial["min_count"], f"{trial['regularization']:g}", f"{trial['items']:,}")
        rows.append([*map(str, settings), f"{hr[0]:.4f}", span(*hr[1:], 4), f"{trial['ndcg@10'][0]:.4f}"])
    return rows


@from_records("cart-speed", "cart_speed")
def cart_speed() -> list[list[str]]:
    rows = [["model", "`rank`", "`rank_carts`, per cart", "`recommend`"]]
    for row in results("cart_speed")["models"]:
        rows.append(
            [f"`{row['model']}`", *(f"{row[f'{what}_ms']:.1f}" for what in ("rank", "rank_carts", "recommend"))]
        )
    return rows


@from_records("bayes-cold", "bayes_cold")
def bayes_cold() -> list[list[str]]:
    rows = [["baskets", "labels", "of hidden queries", "best sellers", "names", "names and vectors", "ratios"]]
    for name, record in results("bayes_cold").items():
        for protocol in ("paper", "calibrated"):
            found = record[protocol]["queries"]
            models = [found[row] for row in rows[0][3:6]]
            ratios = ", ".join(f"{model['ratio'][0]:.2f}" for model in models[1:])
            cells = [pair([model["hr@10"], model["ndcg@10"]]) for model in models]
            rows.append([name, protocol, f"{found['labels']:,}", *cells, ratios])
    return rows


@from_records("new-items", "bayes_cold")
def new_items() -> list[list[str]]:
    rows = [["baskets", "labels", "HR@10 of bought items", "with new ones", "falls by", "labels of new items found"]]
    for name, record in results("bayes_cold").items():
        for protocol in ("paper", "calibrated"):
            if found := record[protocol].get("answers"):
                hits = [f"{found[f'hr@10 of bought items, {which}']:.3f}" for which in ("usual", "with new ones")]
                of_new = f"{found['found labels of new items']} of {found['labels of new items']:,}"
                rows.append([name, protocol, *hits, f"{100 * found['fall']:.2f} %", of_new])
    return rows


@from_records("bayes-simulator", "bayes_simulator")
def bayes_simulator() -> list[list[str]]:
    entries = results("bayes_simulator")["simulator"]
    seeds = sorted({entry["seed"] for entry in entries})
    found: dict[str, dict[int, str]] = {"bayes": {entry["seed"]: f"{entry['bayes']:.3f}" for entry in entries}}
    means: dict[str, float] = {"bayes": 1.0}
    for entry in entries:
        name = next(key for key in entry if key not in ("seed", "bayes", "ci"))
        found.setdefault(name, {})[entry["seed"]] = f"{entry[name]:.3f} ({span(*entry['ci'])})"
        means[name] = means.get(name, 0.0) + entry[name] / len(seeds)
    order = sorted(found, key=lambda name: -means[name])
    rows = [[name, *(found[name][seed] for seed in seeds)] for name in order]
    return [["model", *(f"seed {seed}" for seed in seeds)], *rows]


COVERAGE = [
    f"lift_coverage_{name}"
    for name in (
        "instacart",
        "instacart_1",
        "instacart_2",
        "journey_1",
        "journey_2",
        "journey_time",
        "simulator_0",
        "simulator_5",
    )
]


@from_records("lift-coverage", *COVERAGE)
def lift_coverage() -> list[list[str]]:
    """A row for each data set and kind of pairs, coverage by how often pairs were seen."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in (row for name in COVERAGE for row in results(name)["rows"]):
        found.setdefault((row["data"], row["pairs"]), {})[row["seen"]] = row
    seen = ("2-4", "5-9", "10-29", "30+", "2 and more")
    out = [["baskets", "pairs", *seen, "came / estimated", "came / counted"]]
    for (data, kind), cells in found.items():
        covered = [f"{c['covered']:.3f} of {c['number']:,}" if (c := cells.get(name)) else "" for name in seen]
        whole = cells["2 and more"]
        out.append([data, kind, *covered, f"{whole['came / estimated']:.2f}", f"{whole['came / counted']:.2f}"])
    return out


@from_records("bayes-cost", "bayes_cost")
def bayes_cost() -> list[list[str]]:
    rows = [["fit", "CPU s", "peak GiB"]]
    for row in results("bayes_cost")["rows"]:
        rows.append([row["name"], f"{row['cpu']['median']:.0f}", f"{row['peak_mib']['median'] / 1024:.1f}"])
    return rows


@from_records("bayes-memory", "bayes_memory")
def bayes_memory() -> list[list[str]]:
    rows = [["baskets", "`max_pairs`", "pairs kept", "left out below", "before, MB", "peak, MB", "CPU s"]]
    for row in results("bayes_memory")["rows"]:
        limit = row.get("max_pairs", row.get("most_pairs"))
        kept = f"{row['kept'] / 1e6:.1f} million"
        bound = "default" if limit is None else f"{limit:,}"
        cells = [f"{row['baskets']:,}", bound, kept, str(row["left_out_below"])]
        rows.append([*cells, f"{row['before_mb']:,}", f"{row['peak_mb']:,}", f"{row['cpu']:.0f}"])
    return rows


@from_records("bayes-ablation", "bayes_ablation")
def bayes_ablation() -> list[list[str]]:
    rows = [["ranked by", "200 candidates", "catalogue", "less `bayes`: HR", "NDCG"]]
    for name, row in results("bayes_ablation").items():
        if isinstance(row, dict):
            small = next(row[key] for key in row if key != "catalogue")
            scores = [pair([part["hr@10"], part["ndcg@10"]]) for part in (small, row["catalogue"])]
            less = ["", ""] if name == "bayes" else [span(*interval) for interval in small["less_bayes"]]
            rows.append([name, *scores, *less])
    return rows


# labels ------------------------------------------------------------------------------------------------------------


@from_records("label-counts", "label_counts")
def label_counts() -> list[list[str]]:
    found = results("label_counts")
    rows = [[name, *(f"{count:,}" for count in counts)] for name, counts in found["labels"].items()]
    return [["Instacart train orders", *map(str, found["levels"])], *rows]


@from_records("shuffle-null", "label_counts")
def shuffle_null() -> list[list[str]]:
    found = results("label_counts")
    rows = [["labels by chance, round by round (share of the real labels)", *map(str, found["levels"])]]
    for name, parts in found["by chance"].items():
        cells = [f"{', '.join(map(str, part['labels']))} ({100 * part['fdr']:.2g} %)" for part in parts]
        rows.append([name, *cells])
    return rows


# embeddings --------------------------------------------------------------------------------------------------------


@from_records("embedding-quality", "embedding_quality", "embedding_quality_triple2vec")
def embedding_quality() -> list[list[str]]:
    rows = [["row", "HR@10 (95 %)", "NDCG@10", "seeds", "log-variance ~ log-popularity"]]
    newer = {row["row"]: row for row in results("embedding_quality_triple2vec")["standings"]}
    standings = [newer.get(row["row"], row) for row in results("embedding_quality")["standings"]]
    for row in sorted(standings, key=lambda row: -row["hr@10"]):
        follows = row["variance ~ popularity"]
        hit = f"{row['hr@10']:.3f} ({span(row['from'], row['to'])})"
        seeds, shown = str(row["seeds"]), "" if follows is None else f"{follows:.2f}"
        rows.append([row["row"], hit, f"{row['ndcg@10']:.3f}", seeds, shown])
    return rows


@from_records("embedding-differences", "embedding_quality", "embedding_quality_triple2vec")
def embedding_differences() -> list[list[str]]:
    found = {
        (row["first"], row["second"]): f"{row['hr@10']:+.3f} ({row['from']:+.3f} to {row['to']:+.3f})"
        for name in ("embedding_quality", "embedding_quality_triple2vec")
        for row in results(name)["differences"]
    }
    return [["first", "second", "difference in HR@10 (95 %)"], *([*names, shown] for names, shown in found.items())]


@from_records("training-speed", "training_speed")
def training_speed() -> list[list[str]]:
    rows = [["training", "million pairs per CPU-second", "times gensim"]]
    models = results("training_speed")["models"]
    peer = next(row for row in models if row["name"].startswith("gensim"))["pairs_per_cpu_second"]
    for row in models:
        speed = row["pairs_per_cpu_second"]
        rows.append([row["name"], f"{speed / 1e6:.1f}", f"{speed / peer:.1f}"])
    return rows


@from_records("first-start", "first_start")
def first_start() -> list[list[str]]:
    rows = [["fit", "first start, s", "second start, s"]]
    return [
        *rows,
        *([r["row"], f"{r['first, s']:.1f}", f"{r['second, s']:.1f}"] for r in results("first_start")["rows"]),
    ]


TABLES["tuning-trials"] = lambda: f"{tuning.page(results('tuning')).strip()}\n\n{provenance(['tuning'])}\n"


@from_records("warm-start", "warm_start")
def warm_start() -> list[list[str]]:
    rows = [["fit", "epochs", "CPU s", "top-10 answers changed", "final loss", "changed with two items exchanged"]]
    for name, run in results("warm_start")["runs"].items():
        for k, way in enumerate(("from scratch", "warm start")):
            exchanged = f"{run['top10_changed_where_exchanged']:.0%}" if k else ""
            cells = [f"{run['epochs'][k]}", f"{run['cpu'][k]}", f"{run['top10_changed'][k]:.0%}"]
            rows.append([f"`{name}`, {way}", *cells, f"{run['loss'][k]:.4f}", exchanged])
    return rows


@from_records("gpu-speed", "gpu_training")
def gpu_speed() -> list[list[str]]:
    rows = [["model", "billion pairs per second: kernel / training loop", "5 epochs, s", "whole fit, s"]]
    for row in results("gpu_training")["speed"]:
        rates = " / ".join(f"{row[f'{part}_billion_pairs_a_second']:.2f}" for part in ("kernel", "loop"))
        rows.append([f"`{row['model']}`", rates, f"{row['training_seconds']:.2f}", f"{row['fit_seconds']:.2f}"])
    return rows


# scale and service -------------------------------------------------------------------------------------------------


@from_records("label-speed", "label_speed")
def label_speed() -> list[list[str]]:
    rows = [["task", "program", "CPU s", "times neatrec", "peak MiB"]]
    for task, programs in results("label_speed").items():
        for row in programs:
            cpu = row["cpu"]["median"]
            times = f"{cpu / programs[0]['cpu']['median']:.1f}"
            rows.append(
                [task, row["name"].replace(" .1 %", " 0.1 %"), f"{cpu:.2f}", times, f"{row['peak_mib']['median']:,.0f}"]
            )
    return rows


@from_records("streaming", "streaming")
def streaming() -> list[list[str]]:
    names = {"floor": "1,000 baskets: Python, libraries, parameters", "streamed": "`--stream`"}
    rows = [["training", "peak memory of the process", "CPU s"]]
    for name, run in results("streaming")["runs"].items():
        rows.append([names.get(name, name), f"{run['peak_mib']:,} MiB", f"{run['cpu']:.0f}"])
    return rows


def distributed(name: str) -> list[list[str]]:
    rows = [["training", "HR@10 (95 %)", "CPU s", "peak memory per process", "sent per synchronization"]]
    for way, run in results(name)["runs"].items():
        sent = f"{run['mb_sent']:.1f} MB" if run["mb_sent"] else ""
        hit = f"{run['hr']:.3f} ({span(run['low'], run['high'])})"
        rows.append([way, hit, f"{run['cpu']:.0f}", f"{run['peak_mib']:.0f} MiB", sent])
    return rows


from_records("distributed-quarter", "distributed_training_neat")(lambda: distributed("distributed_training_neat"))
from_records("distributed-half", "distributed_training_neat_half")(
    lambda: distributed("distributed_training_neat_half")
)


@from_records("walmart", "walmart_report")
def walmart() -> list[list[str]]:
    run = results("walmart_report")
    lifts = {row["model"]: row for row in run["held_out_lift"]}
    hits: dict[str, dict[str, list[float]]] = {}
    for row in run["leaderboard"]:
        if row["level"] == 0.05:
            hits.setdefault(row["model"], {})[candidates(row)] = row["hr@10"]
    rows = [["calibrated, q = 0.05", "HR@10, 200 candidates", "HR@10, catalogue", "held-out lift@10"]]
    for model, found in hits.items():
        lift = lifts[model]
        shown = [f"{value:.3f} ({span(low, high)})" for value, low, high in (found["200"], found["catalogue"])]
        interval = span(lift["lift@10_low"], lift["lift@10_high"], 2)
        rows.append([f"`{model}`", *shown, f"{lift['lift@10']:.2f} ({interval})"])
    return rows


@from_records("serve-load", "serve_load")
def serve_load() -> list[list[str]]:
    rows = [["service", "requests per second", "median ms", "99 % ms", "CPU ms per request"]]
    keys = ("requests_per_second", "p50_ms", "p99_ms", "cpu_ms_per_request")
    for name, run in results("serve_load").items():
        if isinstance(run, dict) and set(keys) <= set(run):
            rows.append([name.replace("_", " "), *(f"{run[key]['median']:,.4g}" for key in keys)])
    return rows


@from_records("serve-soak", "serve_soak")
def serve_soak() -> list[list[str]]:
    run = results("serve_soak")["soak"]
    statuses = run["statuses"]
    answers = f"{sum(statuses.values()):,} ({', '.join(f'{n:,} of {status}' for status, n in statuses.items())})"
    slope = f"{run['mib_per_minute']:+.3f} MiB per minute from minute {run['judged_from_minute']:g} on"
    failed = f"{run['unexpected']} and {run['without_answer']}"
    return [
        ["measured", "result"],
        ["requests per second, over minutes", f"{run['requests_per_second']} over {run['minutes']:g}"],
        ["answers", answers],
        ["unexpected answers, requests without an answer", failed],
        ["resident memory", f"{slope}; {run['resident_mib'][-1][1]:.0f} MiB at the end"],
        ["threads, open files (fewest to most)", "; ".join(_span(run[key]) for key in ("threads", "open_files"))],
    ]


@from_records("pairs-latency", "pairs_latency")
def pairs_latency() -> list[list[str]]:
    rows = [
        [row["request"], f"{row['p50_ms']:.1f}", f"{row['p99_ms']:.1f}"] for row in results("pairs_latency")["rows"]
    ]
    return [["filter", "median ms", "p99 ms"], *rows]


def _span(values: dict[str, float]) -> str:
    return f"{values['min']:g} to {values['max']:g}"


@from_records("out-of-core", "out_of_core_14000000")
def out_of_core() -> list[list[str]]:
    rows = [["engine", "CPU s", "peak memory of the process", "written to disk"]]
    for engine, run in results("out_of_core_14000000")["runs"].items():
        rows.append([f"`{engine}`", f"{run['cpu']:.0f}", f"{run['peak_mib']:,} MiB", f"{run['disk_mib']:,} MiB"])
    return rows


SPARK = tuple(f"spark_counting_{part}" for part in ("paper", "calibrated", "candidates", "simulated"))


@from_records("spark", *SPARK)
def spark() -> list[list[str]]:
    rows = [
        ["run", "wall s", "CPU s", "again", "memory engine", "labels at 0.05", "pairs", "longest task / median, CPU"]
    ]
    rows[0].append("run time")
    for name in SPARK:
        for run, found in results(name)["runs"].items():
            took = [f"{found[key]:.1f}" if key in found else "" for key in ("wall", "cpu", "cpu_again", "cpu_memory")]
            labels = f"{found['labels']['0.05']:,}" if "labels" in found else ""
            pairs = f"{found['pairs']:,}" if "pairs" in found else ""
            cpu, run_time = (
                ", ".join(
                    f"{stage[f'{kind}longest'] / stage[f'{kind}median']:.1f}"
                    for stage in found["stages"]
                    if f"{kind}longest" in stage
                )
                for kind in ("cpu_", "")
            )
            rows.append([run, *took, labels, pairs, cpu, run_time])
    return rows


@from_records("ann-recall", "ann_recall", "ann_recall_large")
def ann_recall() -> list[list[str]]:
    rows = [
        [
            "items",
            "table",
            "CPU s",
            "of the first ten found",
            "of the hundred",
            "2,000 other items: first ten",
            "hundred",
        ]
    ]
    for name in ("ann_recall", "ann_recall_large"):
        for run in results(name)["runs"]:
            found = run["answer"] if isinstance(run["answer"], dict) else None
            shares = [found, found["checked"]] if found else []
            cells = [f"{part[key]:.1%}" for part in shares for key in ("first", "all")] or ["100 %"] * 4
            cpu = f"{run['cpu']['median']:.0f}"
            rows.append([f"{results(name)['task']['items']:,}", run["name"], cpu, *cells])
    return rows


@from_records("scaling-runs", "scaling")
def scaling_runs() -> list[list[str]]:
    rows = [["stage", "items", "baskets: CPU s", "peak MiB at the largest"]]
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for run in results("scaling")["runs"]:
        key = (run["stage"], 0 if run["stage"].startswith("table_") else run["items"])
        runs.setdefault(key, []).append(run)
    for (stage, items), group in sorted(runs.items()):
        size = "baskets" if items else "items"
        group.sort(key=lambda run: run[size])
        seconds = ", ".join(f"{run[size]:,}: {two_digits(run['cpu'])}" for run in group)
        rows.append(
            [stage, f"{items:,}" if items else "(in the next column)", seconds, f"{group[-1]['peak_mib']:,.0f}"]
        )
    return rows


@from_records("scaling-laws", "scaling")
def scaling_laws() -> list[list[str]]:
    rows = [["stage", "exponent of work", "of items", "bytes per line", "bytes per item", "seconds off", "memory off"]]
    held_out = {row["stage"]: row for row in results("scaling")["held_out"]}
    for stage, law in results("scaling")["laws"].items():
        fitted = [f"{law[key]:.2f}" for key in ("exponent", "item_exponent")]
        sizes = [f"{law[key]:,.0f}" for key in ("bytes_by_line", "bytes_by_item")]
        errors = [f"{held_out[stage][key]:+.0%}" for key in ("seconds_error", "bytes_error")]
        rows.append([stage, *fitted, *sizes, *errors])
    return rows


@from_records("scaling-forecast", "scaling")
def scaling_forecast() -> list[list[str]]:
    rows = [
        ["stage", "core hours", "GPU hours", "hours on the cluster", "money", "GiB per worker", "GiB on one machine"]
    ]
    ahead = results("scaling")["forecast"]
    for row in ahead["stages"]:
        cells = [two_digits(row[key]) if key in row else "" for key in ("core_hours", "gpu_hours", "hours", "money")]
        sizes = [f"{row[key] / 2**30:,.0f}" if key in row else "" for key in ("bytes", "bytes_in_one")]
        rows.append([row["stage"], *cells, *sizes])
    for processes, sums in ahead.get("synchronizations", ahead.get("agreements", {})).items():
        rows.append([f"synchronization of {processes}", "", "", f"{sums['hours']:.2g}", "", "", ""])
    return rows


@from_records("million-items", "million_items")
def million_items() -> list[list[str]]:
    found, stages = results("million_items"), ("fit", "table")
    header = ["baskets", "items", "fit: CPU s", "MiB", "table: CPU s", "MiB", "MiB on disk", "of the exact first ten"]
    rows = [header]
    for row in found["rows"]:
        costs = [f"{row[stage][key]:,.0f}" for stage in stages for key in ("cpu", "peak_mib")]
        sizes = [f"{row[key]:,}" for key in ("baskets", "items")]
        rows.append([*sizes, *costs, f"{row['table_mib']:,}", f"{row['recall']['first']:.1%}"])
    ahead = [f"{found['forecast'][stage][key]:,.0f}" for stage in stages for key in ("cpu", "peak_mib")]
    return [*rows, ["forecast of the last row", "", *ahead, "", ""]]


def half_lives(row: dict[str, Any]) -> str:
    """The half-lives that were chosen, and the days of the validation baskets."""
    choices = row.get("choices", [row])  # a record of one shop has its choice beside the results
    days = dict.fromkeys(choice["chosen_days"] for choice in choices)
    shown = " or ".join("none" if each is None else f"{each:g} days" for each in days)
    return f"{shown} ({choices[0]['validation_days']})"


def recency_rows(name: str, measures: dict[str, str]) -> list[list[str]]:
    rows = [
        ["model", "half-life (chosen on so many days)", "HR@10 over", "number", "none", "half-life", "ratio (95 %)"]
    ]
    for row in results(f"recency-{name}")[name]:
        for measure, words in measures.items():
            of = row[measure]
            shown = [f"{of[key]:.3f}" for key in ("none", "weighted")]
            ratio = f"{of['ratio']:.2f} ({span(of['low'], of['high'], 2)})"
            rows.append([f"`{row['model']}`", half_lives(row), words, f"{of['labels']:,}", *shown, ratio])
    return rows


@from_records("recency-changing", "recency-changing")
def recency_changing() -> list[list[str]]:
    measures = {"planted": "planted complements", "catalogue": "labels, all items", "top200": "labels, 200 candidates"}
    return recency_rows("changing", measures)


@from_records("recency-journey", "recency-journey")
def recency_journey() -> list[list[str]]:
    return recency_rows("journey", {"top200": "labels, 200 candidates"})


@from_records("recency-copies", "recency-copies")
def recency_copies() -> list[list[str]]:
    rows = results("recency-copies")["copies"]
    return [["copies", "HR@10"], *([str(row["copies"]), f"{row['90d']:.3f}"] for row in rows)]


@from_records("recency-null", "recency-null")
def recency_null() -> list[list[str]]:
    rows = [["half-life", "labels", "by chance", "false-discovery rate"]]
    for row in results("recency-null")["null"]:
        days = row["half_life_days"]
        name = "none" if days is None else f"{days:g} days"
        rows.append([name, f"{row['labels']}", f"{row['by_chance_0.05']:g}", f"{row['fdr_0.05']:.2%}"])
    return rows


for part in ("orders", "speed", "labels"):
    from_records(f"simulator-{part}", f"simulator_{part}")(lambda part=part: results(f"simulator_{part}")["rows"])  # type: ignore[misc]


@from_records("label-strata", "label_strata")
def label_strata() -> list[list[str]]:
    from benchmarks.label_strata import rows_of

    return rows_of(results("label_strata")["shops"])


@from_records("served-evidence", "served_evidence")
def served_evidence() -> list[list[str]]:
    from benchmarks.served_evidence import rows_of

    return rows_of(results("served_evidence")["shops"])


# imports -----------------------------------------------------------------------------------------------------------


def imports() -> str:
    """Which package may import which."""
    test = runpy.run_path(str(ROOT / "tests" / "test_architecture.py"))
    allowed, base = test["ALLOWED"], test["BASE"]
    rows = [["package", "may import"]]
    for package, others in allowed.items():
        if len(others) >= len(allowed) - 2:
            shown = ["every other package"]
        else:
            shown = [f"`{name}`" for name in allowed if name in others - {package} and name not in base]
            base_only = others & base - {package}
            shown = ["base", *shown] if base <= others else [*(f"`{n}`" for n in sorted(base_only)), *shown]
        rows.append([f"`{package}`", ", ".join(shown) or "nothing"])
    members = ", ".join(f"`{name}`" for name in sorted(base))
    return f"{markdown(rows)}\n\nBase: {members}.\n"


TABLES["imports"] = imports


# pages -------------------------------------------------------------------------------------------------------------


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@from_records("interval-instacart", "interval_instacart")
def interval_instacart() -> list[list[str]]:
    rows = [["labels", "model", "HR@10", "interval", "by queries", "wider", "difference wider"]]
    for row in results("interval_instacart")["rows"]:
        wider = "" if row["difference_wider"] is None else f"{row['difference_wider']:.2f}x"
        ends = [span(*row[way]) for way in ("dyads", "queries")]
        rows.append([row["protocol"], row["model"], f"{row['hr@10']:.3f}", *ends, f"{row['wider']:.2f}x", wider])
    return rows


@from_records("interval-coverage", "interval_populations")
def interval_coverage_table() -> list[list[str]]:
    rows = [["labels", "draws", "share", "by queries", "difference", "by queries", "width", "by queries"]]
    for name, found in results("interval_populations").items():
        cells = [f"{found[way][key]:.3f}" for key in ("share", "difference", "width") for way in ("dyads", "queries")]
        rows.append([name, f"{found['draws']}", *cells])
    return rows


def filled(text: str) -> str:
    """The page with every marked table as the records have it now."""

    def fill(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in TABLES:
            sys.exit(f"no table {name!r}; there are {', '.join(sorted(TABLES))}")
        return f"{found[1]}\n{TABLES[name]()}\n{found[4]}"

    return MARKED.sub(fill, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a page differs")
    only_check = parser.parse_args().check
    changed = [page for page in pages() if filled(page.read_text()) != page.read_text()]
    for page in changed:
        print(f"{'differs from the records' if only_check else 'filled'}: {page.relative_to(ROOT)}")
        if not only_check:
            page.write_text(filled(page.read_text()))
    return int(bool(changed) and only_check)


if __name__ == "__main__":
    sys.exit(main())
