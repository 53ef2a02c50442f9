"""`neatrec show`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from neatrec.cli.output import OutputOptions, percent, print_table, print_text
from neatrec.text import plural

GAINS = {"strong": "shrunk lift", "dependent": "G²"}
"""Kind of pairs that a model learned from -> the statistic that ranks them without it."""


def show(
    output: OutputOptions,
    bundle: Path | None = typer.Argument(
        None,
        metavar="[BUNDLE|STORE|MODEL]",
        help="Bundle, store, or name of a model; without one, all models.",
        show_default=False,
    ),
) -> None:
    """Show a bundle, a store with its versions, or the parameters of a model; or all models."""
    from neatrec.models import MODEL_NAMES, describe

    if bundle is not None and (bundle.exists() or str(bundle) not in MODEL_NAMES):
        _show_bundle(output, bundle)
    elif bundle is not None:
        [model] = describe([str(bundle)])
        if not output.printed_json(model.to_dict()):
            _show_parameters(model)
    elif not output.printed_json({"models": [model.to_dict() for model in describe()]}):
        rows: list[list[Any]] = [[m.name, m.kind, m.description] for m in describe()]
        print_table("Models", ["name", "kind", "description"], rows)
        print("`neatrec show NAME` lists the parameters of a model with their defaults.")


def _show_bundle(output: OutputOptions, path: Path) -> None:
    from neatrec.bundle import read_manifest
    from neatrec.bundle.versions import bundle_in, is_store
    from neatrec.release import versions_in
    from neatrec.serving import PairTable

    bundle = bundle_in(path)
    store = {"store": versions_in(path)} if is_store(path) else {}
    manifest = read_manifest(bundle).to_dict()
    table = PairTable.open(bundle, verify=False)
    coverage = table.coverage()
    if output.printed_json({**manifest, "coverage": coverage, **store}):
        return
    if store:
        _print_versions(store["store"])
    _print_facts(bundle, manifest)
    print(f"Serving table: {table.k} answers per item.")
    print_text(table.pairs.words())
    rows: list[list[Any]] = [
        [grade, percent(shares["items"]), percent(shares["sales"])]
        for grade, shares in coverage.items()
        if grade not in ("chance", "category", "rule")
    ]
    print_table("Best evidence among an item's answers", ["grade", "items", "sales"], rows)


def _print_facts(bundle: Path, manifest: Mapping[str, Any]) -> None:
    """The manifest, parameters and learned values included."""
    learned = manifest["learned"]
    facts = {k: value for k, value in manifest.items() if not isinstance(value, dict | list)}
    facts |= {f"parameter {key}": value for key, value in manifest["parameters"].items()}
    facts |= {"epochs run": len(learned["losses"])} if "losses" in learned else {}
    facts |= {f"learned {k}": _brief(v) for k, v in learned.items() if k not in GAINS}
    print_table(str(bundle), ["field", "value"], [[key, str(v)] for key, v in facts.items()])
    if "strong" in learned:
        print_text(gain_words(learned))
        for name in GAINS:
            words = weight_words(learned[name]) or "none stands out, so the statistic ranks"
            print_text(f"Weights of a {name} pair: {words}.")


def _print_versions(versions: list[dict[str, Any]]) -> None:
    rows = []
    for each in versions:
        state = "live" if each["live"] else "rolled back" if each["rolled_back"] else ""
        facts = ["damaged", "", ""]
        if each["version"]:
            facts = [each["version"][:12], each["model"], each["created"]]
        rows.append([each["number"], *facts, state])
    print_table("Versions", ["number", "version", "model", "made", ""], rows)


def _brief(value: Any) -> str:
    """Learned values in a few words.

    >>> _brief([0.5, 0.3, 0.2]), _brief({"1": 0.25, "2": [7]})
    ('3 values, the last 0.2', '1: 0.25, 2: 1 value, the last 7')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_brief(part)}" for key, part in value.items())
    if isinstance(value, list):
        return plural(len(value), "value") + (f", the last {_brief(value[-1])}" if value else "")
    return str(value)


def gain_words(learned: Mapping[str, Any]) -> str:
    """The pairs that a fit learned from and its gain over the statistics, in one sentence.

    >>> none = {"pairs": 4, "hit_rate": 0.5, "start_hit_rate": 0.5, "more": [0, 0], "weights": {}}
    >>> print(gain_words({"strong": none, "dependent": none}))
    Too few pairs to learn a correction from (4 strong, 4 dependent): pairs are ranked by shrunk \
lift and G² themselves.
    """
    strong, dependent = (f"{learned[name]['pairs']:,} {name}" for name in GAINS)
    gains = []
    for name, statistic in GAINS.items():
        gain = learned[name]
        shares = (gain["hit_rate"] - gain["start_hit_rate"], *gain["more"])
        points, low, high = (round(100 * share, 1) for share in shares)
        if points or low or high:
            gains.append(f"{points} ({low} to {high}) points more {name} pairs than by {statistic}")
    if not gains and not any(map(weight_words, learned.values())):
        return (
            f"Too few pairs to learn a correction from ({strong}, {dependent}): pairs are ranked "
            "by shrunk lift and G² themselves."
        )
    more = ", ".join(gains) or "as many of both as by shrunk lift and G²"
    return f"Learned from {strong} and {dependent} pairs: among the first ten are {more}."


def weight_words(gain: Mapping[str, Any]) -> str:
    """The features that matter for an outcome in this shop, the largest weight first.

    >>> weight_words({"weights": {"names": 0.6, "seen_chance": -0.3, "cosine": 0.02}})
    'similar names +0.60, count x chance -0.30'
    """
    from neatrec.models.odds.features import WORDS

    weights = gain["weights"].items()
    return ", ".join(f"{WORDS[name]} {value:+.2f}" for name, value in weights if abs(value) >= 0.1)


def _show_parameters(model: Any) -> None:
    """The parameters of a model as a TOML file for `neatrec train --config`."""
    print(f"# {model.description}\nmodel = {json.dumps(model.name)}\n[parameters]")
    for parameter in model.parameters:
        # TOML has no null: a parameter that is not set stays a comment
        unset = "# " if parameter.default is None else ""
        default = json.dumps(parameter.default)
        print(f"# {parameter.description}\n{unset}{parameter.name} = {default}")
