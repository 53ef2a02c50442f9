"""`neatrec show`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from neatrec.cli.output import OutputOptions, percent, print_table
from neatrec.cli.publish import print_versions
from neatrec.text import plural


def show(
    output: OutputOptions,
    bundle: Path | None = typer.Argument(
        None,
        metavar="[BUNDLE|STORE|MODEL]",
        help="Bundle, store, or name of a model; without one, all models.",
        show_default=False,
    ),
) -> None:
    """Show a bundle, a store with its versions, or the parameters of a model; without one, the models."""
    from neatrec.bundle.versions import bundle_in, is_store
    from neatrec.models import MODEL_NAMES
    from neatrec.release.store import versions_in

    if bundle is None:
        _show_models(output)
    elif str(bundle) in MODEL_NAMES and not bundle.exists():
        _show_parameters(output, str(bundle))
    else:
        _show_bundle(output, bundle_in(bundle), versions_in(bundle) if is_store(bundle) else None)


def _show_models(output: OutputOptions) -> None:
    from neatrec.models import describe

    models = describe()
    if output.printed_json({"models": [model.to_dict() for model in models]}):
        return
    print_table(
        "Models", ["name", "kind", "what it is"], [[m.name, m.kind, m.description] for m in models]
    )
    print("`neatrec show NAME` lists the parameters of a model with their defaults.")


def _show_bundle(
    output: OutputOptions, bundle: Path, versions: list[dict[str, Any]] | None
) -> None:
    from neatrec.bundle import read_manifest
    from neatrec.serving import PairTable

    found = read_manifest(bundle)
    manifest = found.to_dict()
    index = PairTable.open(bundle, verify=False)
    coverage = index.coverage()
    if output.printed_json(
        {**manifest, "coverage": coverage, **({} if versions is None else {"store": versions})}
    ):
        return
    if versions is not None:
        print_versions(versions)
    rows: list[list[object]] = [
        [key, value] for key, value in manifest.items() if not isinstance(value, dict | list)
    ]
    rows += [[f"parameter {key}", value] for key, value in manifest["parameters"].items()]
    rows += _learned(manifest["learned"])
    print_table(str(bundle), ["field", "value"], [[key, str(value)] for key, value in rows])
    print_odds(manifest["learned"])
    print(f"Serving table: {index.k} answers per item.")
    print(index.pairs.words())
    print_coverage(coverage)


def _learned(learned: Mapping[str, Any]) -> list[list[object]]:
    """A row for each thing that the fit found out; of losses, how many epochs were run."""
    rows: list[list[object]] = (
        [["epochs run", len(learned["losses"])]] if "losses" in learned else []
    )
    return rows + [
        [f"learned {key}", _brief(value)]
        for key, value in learned.items()
        if key not in ("strong", "dependent")
    ]


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


def print_odds(learned: Mapping[str, Any]) -> None:
    """What a model of odds learned: from how many pairs, what that gained, and its weights."""
    if "strong" not in learned:
        return
    words = gain_words(learned)
    print(f"{words[0].upper()}{words[1:]}.")
    for name in ("strong", "dependent"):
        weights = weight_words(learned[name]) or "none stands out, so the statistic ranks"
        print(f"Weights of a {name} pair: {weights}.")


def gain_words(learned: Mapping[str, Any]) -> str:
    """What a fit learned from and what it gained, in one line.

    >>> gain = {"pairs": 1200, "hit_rate": 0.5, "start_hit_rate": 0.4, "more": [0.05, 0.15]}
    >>> print(gain_words({"strong": gain, "dependent": gain}))
    learned from 1,200 strong and 1,200 dependent pairs: 10.0 (5.0 to 15.0) and 10.0 (5.0 to 15.0) \
points more of them among the first ten than by shrunk lift and G²
    """
    numbers, points = [], []
    for name in ("strong", "dependent"):
        gain = learned[name]
        more = gain["hit_rate"] - gain["start_hit_rate"], *gain["more"]
        numbers.append(f"{gain['pairs']:,} {name}")
        points.append("{:.1f} ({:.1f} to {:.1f})".format(*(100 * value for value in more)))
    return (
        f"learned from {' and '.join(numbers)} pairs: {' and '.join(points)} points more of them "
        "among the first ten than by shrunk lift and G²"
    )


def weight_words(gain: Mapping[str, Any]) -> str:
    """The features that matter for an outcome in this shop, the largest weight first.

    >>> weight_words({"weights": {"names": 0.6, "seen_chance": -0.3, "cosine": 0.02}})
    'similar names +0.60, count x chance -0.30'
    """
    from neatrec.models.odds.features import CURVE, FEATURES

    words = FEATURES | CURVE
    weights = gain["weights"].items()
    return ", ".join(f"{words[name]} {value:+.2f}" for name, value in weights if abs(value) >= 0.1)


def _show_parameters(output: OutputOptions, name: str) -> None:
    """The parameters of a model with their defaults, as a TOML file for `neatrec train --config`."""
    from neatrec.models import describe

    [model] = describe([name])
    if output.printed_json(model.to_dict()):
        return
    print(f"# {model.description}\nmodel = {_toml(model.name)}\n[parameters]")
    for parameter in model.parameters:
        # TOML has no null: a parameter that is not set stays a comment
        unset = "# " if parameter.default is None else ""
        print(f"# {parameter.description}\n{unset}{parameter.name} = {_toml(parameter.default)}")


def _toml(value: object) -> str:
    import json

    return (
        str(value)
        if isinstance(value, int | float) and not isinstance(value, bool)
        else json.dumps(value)
    )


def print_coverage(coverage: dict[str, dict[str, float]]) -> None:
    """The share of items and of sales at each grade of evidence."""
    rows = [
        [grade, percent(shares["items"]), percent(shares["sales"])]
        for grade, shares in coverage.items()
        if grade not in ("chance", "category", "rule")
    ]
    print_table("Best evidence among an item's answers", ["grade", "items", "sales"], rows)
