"""Fill the tables of the docs from the records: `python -m benchmarks.tables`.

A page marks a table by `<!-- table: NAME -->` and `<!-- end -->`; what stands between is replaced.
Each table ends with its records, their commits and dates.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import RESULTS, ROOT

MARKED = re.compile(
    r"(<!-- table: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(<!-- end -->)", flags=re.DOTALL
)
TABLES: dict[str, Callable[[], str]] = {}

Table = Callable[[], Sequence[Sequence[Any]]]


def record(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return loaded


def results(name: str) -> Any:
    return record(name)["results"]


def from_records(name: str, *records: str) -> Callable[[Table], Table]:
    """Register a function that returns a head and rows as the table `name`."""

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


# the default ranking

METRICS = "hr@10, ndcg@10"
PROTOCOLS = ("paper", "calibrated")
GOALS = ("odds", "odds@lift", "odds@evidence")


@from_records("odds-splits", "odds_claim")
def odds_splits() -> list[list[str]]:
    """The goals beside the statistic that is best on the labels of each split."""
    ends = ["HR interval", "NDCG interval"]
    rows = [["split", "labels", *GOALS, "best statistic", "`odds` over it", *ends]]
    for split, found in results("odds_claim").items():
        for protocol in PROTOCOLS if split not in ("cold", "cost") else ():
            one = found[protocol]
            means, best = one[METRICS], one["best"]
            ratio = pair([a / b for a, b in zip(means["odds"], means[best], strict=True)])
            intervals = [span(*interval) for interval in one["less_best"]["odds"]]
            labels = f"{one['labels']:,} {protocol}"
            goals = [pair(means[goal]) for goal in GOALS]
            rows.append([split, labels, *goals, f"{best} {pair(means[best])}", ratio, *intervals])
    return rows


@from_records("no-regret", "no_regret")
def no_regret() -> list[list[str]]:
    ends = ["HR interval", "NDCG interval"]
    rows = [["shop", "protocol", "labels", "`odds`", "best statistic", *ends]]
    for shop, found in results("no_regret").items():
        for one in (each for each in found if each["labels"]):
            means, best = one[METRICS], one["best"]
            scores = [pair(means["odds"]), f"{best} {pair(means[best])}"]
            intervals = [span(*interval) for interval in one["less_best"]["odds"]]
            rows.append([shop, one["protocol"], f"{one['labels']:,}", *scores, *intervals])
    return rows


class Claim(NamedTuple):
    """The default model and the best simple statistic, by the labels of one protocol."""

    protocol: str
    statistic: str
    statistic_hit: float
    hit: float
    interval: str


def claims() -> list[Claim]:
    """HR@10 on the half-split, labels at 0.05 among 200 candidates: one claim per protocol."""
    found = []
    for protocol in PROTOCOLS:
        one = results("odds_claim")["half"][protocol]
        means, best = one[METRICS], one["best"]
        interval = span(*one["less_best"]["odds"][0])
        found.append(Claim(protocol, best, means[best][0], means["odds"][0], interval))
    return found


@from_records("claim", "odds_claim")
def claim() -> list[list[str]]:
    head = ["labels", "strongest simple statistic", "its HR@10", "neatrec"]
    rows = [[one.protocol, f"`{one.statistic}`"] for one in claims()]
    for row, one in zip(rows, claims(), strict=True):
        row += [f"{one.statistic_hit:.3f}", f"{one.hit:.3f}", one.interval]
    return [[*head, "95 % of the difference"], *rows]


@from_records("odds-cold", "odds_claim")
def odds_cold() -> list[list[str]]:
    rows = [["labels", "of hidden queries", "HR@10", "NDCG@10"]]
    for protocol, found in results("odds_claim")["cold"].items():
        shown = [f"{found[key][0]:.3f} ({span(*found[key][1:])})" for key in ("hr@10", "ndcg@10")]
        rows.append([protocol, f"{found['labels']:,}", *shown])
    return rows


@from_records("cart-completion", "cart_completion")
def cart_completion() -> list[list[str]]:
    less_ease = ["HR@10 less `ease`", "NDCG@10 less `ease`"]
    rows = [["model", "HR@10", "NDCG@10", "lift of the answers", *less_ease]]
    for row in results("cart_completion")["models"]:
        scores = [f"{row['hr@10'][0]:.3f}", f"{row['ndcg@10'][0]:.3f}", f"{row['lift@10'][0]:.2f}"]
        ends = [row["less_ease"][metric][1:] for metric in ("hr@10", "ndcg@10")]
        less = [f"{low:+.4f} to {high:+.4f}" for low, high in ends]
        if row["model"] == "ease":
            less = ["", ""]
        rows.append([f"`{row['model']}`", *scores, *less])
    return rows


ORDERS = ("instacart", "instacart_1", "instacart_2")
OTHERS = ("journey_1", "journey_2", "journey_time", "simulator_0", "simulator_5")
COVERAGE = [f"lift_coverage_{name}" for name in (*ORDERS, *OTHERS)]


@from_records("lift-coverage", *COVERAGE)
def lift_coverage() -> list[list[str]]:
    """A row for each data set and kind of pairs, coverage by how often pairs were seen."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in (row for name in COVERAGE for row in results(name)["rows"]):
        found.setdefault((row["data"], row["pairs"]), {})[row["seen"]] = row
    seen = ("2-4", "5-9", "10-29", "30+", "2 and more")
    out = [["baskets", "pairs", *seen, "came / estimated", "came / counted"]]
    for (data, kind), cells in found.items():
        found_in = [cells.get(times) for times in seen]
        covered = [f"{c['covered']:.3f} of {c['number']:,}" if c else "" for c in found_in]
        came = [f"{cells[seen[-1]][f'came / {what}']:.2f}" for what in ("estimated", "counted")]
        out.append([data, kind, *covered, *came])
    return out


# labels


@from_records("label-counts", "label_counts")
def label_counts() -> list[list[str]]:
    found = results("label_counts")
    rows = [[name, *(f"{count:,}" for count in counts)] for name, counts in found["labels"].items()]
    return [["Instacart train orders", *map(str, found["levels"])], *rows]


@from_records("shuffle-null", "label_counts")
def shuffle_null() -> list[list[str]]:
    found = results("label_counts")
    title = "labels by chance, round by round (share of the real labels)"
    rows = [[title, *map(str, found["levels"])]]
    for name, parts in found["by chance"].items():
        rounds = [", ".join(map(str, part["labels"])) for part in parts]
        shares = [f"({100 * part['fdr']:.2g} %)" for part in parts]
        rows.append([name, *map(" ".join, zip(rounds, shares, strict=True))])
    return rows


# embeddings


EMBEDDING_RECORDS = (
    "embedding_quality",
    "embedding_quality_defaults",
    "embedding_quality_presets",
)
"""A row of a later record replaces that of an earlier one."""


@from_records("embedding-quality", *EMBEDDING_RECORDS)
def embedding_quality() -> list[list[str]]:
    rows = [["row", "HR@10 (95 %)", "NDCG@10", "seeds", "log-variance ~ log-popularity"]]
    standings = {
        row["row"]: row for name in EMBEDDING_RECORDS for row in results(name)["standings"]
    }
    for row in sorted(standings.values(), key=lambda row: -row["hr@10"]):
        follows = row["variance ~ popularity"]
        hit = f"{row['hr@10']:.3f} ({span(row['from'], row['to'])})"
        seeds, shown = str(row["seeds"]), "" if follows is None else f"{follows:.2f}"
        rows.append([row["row"], hit, f"{row['ndcg@10']:.3f}", seeds, shown])
    return rows


@from_records("embedding-differences", *EMBEDDING_RECORDS)
def embedding_differences() -> list[list[str]]:
    found = {}
    for name in EMBEDDING_RECORDS:
        for row in results(name)["differences"]:
            shown = f"{row['hr@10']:+.3f} ({row['from']:+.3f} to {row['to']:+.3f})"
            found[row["first"], row["second"]] = [row["first"], row["second"], shown]
    return [["first", "second", "difference in HR@10 (95 %)"], *found.values()]


@from_records("training-speed", "training_speed")
def training_speed() -> list[list[str]]:
    rows = [["training", "million pairs per CPU-second", "times gensim"]]
    models = results("training_speed")["models"]
    peer = next(row for row in models if row["name"].startswith("gensim"))["pairs_per_cpu_second"]
    for row in models:
        speed = row["pairs_per_cpu_second"]
        rows.append([row["name"], f"{speed / 1e6:.1f}", f"{speed / peer:.1f}"])
    return rows


@from_records("gpu-speed", "gpu_training")
def gpu_speed() -> list[list[str]]:
    rate = "billion pairs per second: kernel / training loop"
    rows = [["model", rate, "5 epochs, s", "fit, s"]]
    for row in results("gpu_training")["speed"]:
        rates = [f"{row[f'{part}_billion_pairs_a_second']:.2f}" for part in ("kernel", "loop")]
        seconds = [f"{row[f'{part}_seconds']:.2f}" for part in ("training", "fit")]
        rows.append([f"`{row['model']}`", " / ".join(rates), *seconds])
    return rows


# scale and service


@from_records("label-speed", "label_speed")
def label_speed() -> list[list[str]]:
    rows = [["task", "program", "CPU s", "times neatrec", "peak MiB"]]
    for task, programs in results("label_speed").items():
        for row in programs:
            cpu = row["cpu"]["median"]
            times = f"{cpu / programs[0]['cpu']['median']:.1f}"
            peak = f"{row['peak_mib']['median']:,.0f}"
            rows.append([task, row["name"], f"{cpu:.2f}", times, peak])
    return rows


@from_records("serve-load", "serve_load")
def serve_load() -> list[list[str]]:
    rows = [["service", "requests per second", "median ms", "99 % ms", "CPU ms per request"]]
    keys = ("requests_per_second", "p50_ms", "p99_ms", "cpu_ms_per_request")
    for name, run in results("serve_load").items():
        if isinstance(run, dict) and set(keys) <= set(run):
            rows.append([name.replace("_", " "), *(f"{run[key]['median']:,.4g}" for key in keys)])
    return rows


SPARK = tuple(f"spark_counting_{part}" for part in ("paper", "calibrated", "simulated"))


@from_records("spark", *SPARK)
def spark() -> list[list[str]]:
    seconds = ["wall s", "CPU s", "CPU s again", "CPU s of the memory engine"]
    rows = [["labels", *seconds, "labels at 0.05", "pairs"]]
    for name in SPARK:
        for run, row in results(name)["runs"].items():
            took = [f"{row[key]:.1f}" for key in ("wall", "cpu", "cpu_again", "cpu_memory")]
            rows.append([run, *took, f"{row['labels']['0.05']:,}", f"{row['pairs']:,}"])
    return rows


@from_records("simulator-labels", "simulator_labels")
def simulator_labels() -> list[list[str]]:
    rows: list[list[str]] = results("simulator_labels")["rows"]
    return rows


@from_records("served-evidence", "served_evidence")
def served_evidence() -> list[list[str]]:
    from benchmarks.served_evidence import rows_of

    return rows_of(results("served_evidence")["shops"])


@from_records("interval-instacart", "interval_instacart")
def interval_instacart() -> list[list[str]]:
    rows = [["labels", "model", "HR@10", "interval", "by queries", "wider", "difference wider"]]
    for row in results("interval_instacart")["rows"]:
        wider = [f"{row['wider']:.2f}x", ""]
        if row["difference_wider"] is not None:
            wider[1] = f"{row['difference_wider']:.2f}x"
        ends = [span(*row[way]) for way in ("dyads", "queries")]
        rows.append([row["protocol"], row["model"], f"{row['hr@10']:.3f}", *ends, *wider])
    return rows


@from_records("interval-coverage", "interval_populations")
def interval_coverage_table() -> list[list[str]]:
    measures = ("share", "difference", "width")
    heads = [head for measure in measures for head in (measure, "by queries")]
    rows = [["labels", "draws", *heads]]
    for name, found in results("interval_populations").items():
        each = [found[way][measure] for measure in measures for way in ("dyads", "queries")]
        rows.append([name, f"{found['draws']}", *(f"{value:.3f}" for value in each)])
    return rows


# pages


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(text: str) -> str:
    """The page with every marked table as the records have it now."""

    def fill(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in TABLES:
            sys.exit(f"no table {name!r}; there are {', '.join(sorted(TABLES))}")
        return f"{found[1]}\n{TABLES[name]()}\n{found[4]}"

    return MARKED.sub(fill, text)


def main() -> None:
    """Fill every page, and name those that changed."""
    for page in pages():
        text = page.read_text()
        if filled(text) != text:
            page.write_text(filled(text))
            print(f"filled: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
