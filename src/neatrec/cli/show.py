"""`neatrec show`, and the parameters that `neatrec train --print-config` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

import typer

from neatrec.cli.output import OutputOptions, percent, print_table
from neatrec.cli.publish import print_versions
from neatrec.text import plural


def show(
    output: OutputOptions,
    bundle: Path | None = typer.Argument(
        None, metavar="[BUNDLE|STORE]", help="Show a bundle, or a store; without one, the models.", show_default=False
    ),
) -> None:
    """Show what a bundle holds, or a store and its live one; without one, the models, their parameters and defaults."""
    from neatrec.bundle.versions import bundle_in, is_store
    from neatrec.release.store import versions_in

    if bundle is None:
        _show_models(output)
    else:
        _show_bundle(output, bundle_in(bundle), versions_in(bundle) if is_store(bundle) else None)


def _show_models(output: OutputOptions) -> None:
    from neatrec.models import describe

    models = describe()
    if output.printed_json({"models": [model.to_dict() for model in models]}):
        return
    print_table("Models", ["name", "kind", "what it is"], [[m.name, m.kind, m.description] for m in models])
    print("neatrec train --print-config all lists every parameter with its default.")


def _show_bundle(output: OutputOptions, bundle: Path, versions: list[dict[str, Any]] | None) -> None:
    from neatrec.bundle import read_manifest
    from neatrec.serving import ServingTable, has_table, table_words

    found = read_manifest(bundle)
    manifest = found.to_dict()
    index = ServingTable.open(bundle, verify=False) if has_table(found) else None
    coverage = None if index is None else index.coverage()
    if output.printed_json({**manifest, "coverage": coverage, **({} if versions is None else {"store": versions})}):
        return
    rows: list[list[object]] = [[key, value] for key, value in manifest.items() if not isinstance(value, dict | list)]
    rows += [[f"parameter {key}", value] for key, value in manifest["parameters"].items()]
    rows += _learned(manifest["learned"])
    print_table(str(bundle), ["field", "value"], [[key, str(value)] for key, value in rows])
    print_rankings(manifest["learned"])
    if index is not None and coverage is not None:
        print(f"Serving table: {index.k} answers per item. {table_words(index.recall)}")
        print(index.pairs.words())
        print_coverage(coverage)
    if versions is not None:
        print_versions(versions)


def _learned(learned: Mapping[str, Any]) -> list[list[object]]:
    """A row for each thing that the fit found out; of losses, how many epochs were run."""
    rows: list[list[object]] = [["epochs run", len(learned["losses"])]] if "losses" in learned else []
    tables = ("goals", "comparison") if "comparison" in learned else ()
    return rows + [[f"learned {key}", _brief(value)] for key, value in learned.items() if key not in tables]


def _brief(value: Any) -> str:
    """
    >>> _brief([0.5, 0.3, 0.2]), _brief({"1": 0.25, "2": [7]})
    ('3 values, the last 0.2', '1: 0.25, 2: 1 value, the last 7')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_brief(part)}" for key, part in value.items())
    if isinstance(value, list):
        return plural(len(value), "value") + (f", the last {_brief(value[-1])}" if value else "")
    return str(value)


def print_rankings(learned: Mapping[str, Any]) -> None:
    """Which ranking to use on these baskets: the goals of a model beside simple statistics, where it compared them."""
    if "comparison" not in learned:
        return
    compared = learned["comparison"]
    ranks_by = "; ".join(f"{goal}: {_ranks_by(by)}" for goal, by in learned["goals"].items())
    note = fill(f"Goals rank by: {ranks_by}.", 80)
    if not compared:
        print(f"Too few pairs in held-out training baskets to compare rankings.\n{note}")
        return
    highest = []
    for measure, pairs in (("lift", "high-lift"), ("evidence", "certain")):
        gains = {row["name"]: row[f"{measure}_gain"] for row in compared if row[f"{measure}_gain"] is not None}
        highest += [f"by {pairs} pairs: {max(gains, key=gains.__getitem__)}"] if gains else []
    note = f"held-out training baskets show.\n{note}\nHighest {'; '.join(highest)}."
    print_table(
        "Which ranking to use on these baskets",
        ["ranking", "high-lift pairs", "certain pairs"],
        [[row["name"], _gain(row, "lift"), _gain(row, "evidence")] for row in compared],
        note=f"Hits plus NDCG among the first ten (0 to 2), 95 % interval, of pairs that\n{note}",
    )


def ranking_words(answer: Mapping[str, Any]) -> str:
    """Which ranking a model took, and by how much it won on held-out training baskets: by high-lift and by certain
    pairs, on average.

    >>> row = {"lift_gain": 1.5, "evidence_gain": 1.8}
    >>> compared = [{**row, "name": "bayes lift"}, {"name": "llr", "lift_gain": 1.2, "evidence_gain": 1.8}]
    >>> ranking_words({"goal": "lift", "goals": {"lift": {"ranks_by": "odds"}}, "comparison": compared})
    ', ranked by odds (11.8 % above llr)'
    """
    if "comparison" not in answer:
        return ""
    words = f", ranked by {_ranks_by(answer['goals'][answer['goal']])}"
    means = {row["name"]: _mean_gain(row) for row in answer["comparison"]}
    own = means.pop(f"bayes {answer['goal']}", None)
    others = {name: mean for name, mean in means.items() if mean and not name.startswith("bayes ")}
    if not own or not others:
        return f"{words} (too few pairs to compare)"
    best = max(others, key=others.__getitem__)
    gain = 100 * (own / others[best] - 1)
    return f"{words} ({abs(gain):.1f} % {'above' if gain >= 0 else 'below'} {best})"


def _mean_gain(row: Mapping[str, Any]) -> float | None:
    """The geometric mean of both measures; None where neither was measured."""
    gains = [row[f"{measure}_gain"] for measure in ("lift", "evidence") if row[f"{measure}_gain"] is not None]
    return math.prod(gains) ** (1 / len(gains)) if gains else None


def _ranks_by(ranking: Mapping[str, Any]) -> str:
    """
    >>> _ranks_by({"ranks_by": "shrunk-lift", "k": 0.5}), _ranks_by({"ranks_by": "odds", "weights": {"cosine": 1.0}})
    ('shrunk-lift, k = 0.5', 'odds')
    >>> _ranks_by({"ranks_by": "odds", "lift_weight": 0.25})
    'odds, lift weight 0.25'
    """
    shown = {"k": "k =", "lift_weight": "lift weight"}
    settings = [f", {words} {ranking[name]:g}" for name, words in shown.items() if name in ranking]
    return "".join([ranking["ranks_by"], *settings])


def _gain(row: Mapping[str, Any], measure: str) -> str:
    gain, low, high = (row[f"{measure}_{part}"] for part in ("gain", "low", "high"))
    return "-" if gain is None else f"{gain:.3f} ({low:.3f} to {high:.3f})"


def print_config(model: str) -> None:
    """The parameters of a model (or of "all") with their defaults, as a TOML file for `neatrec train --config`."""
    from neatrec.models import describe

    for entry in describe() if model == "all" else describe([model]):
        # one file trains one model, so only a single model is left uncommented
        mark = "# " if model == "all" else ""
        print(f"# {entry.description}\n{mark}model = {_toml(entry.name)}\n{mark}[parameters]")
        for parameter in entry.parameters:
            # TOML has no null: a parameter that is not set stays a comment
            unset = mark or ("# " if parameter.default is None else "")
            print(f"# {parameter.description}\n{unset}{parameter.name} = {_toml(parameter.default)}")
        print()


def _toml(value: object) -> str:
    import json

    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else json.dumps(value)


def print_coverage(coverage: dict[str, dict[str, float]]) -> None:
    """The share of items and of sales at each grade of evidence."""
    rows = [
        [grade, percent(shares["items"]), percent(shares["sales"])]
        for grade, shares in coverage.items()
        if grade not in ("category", "rule")
    ]
    print_table("Best evidence among an item's answers", ["grade", "items", "sales"], rows)
