"""`neatrec audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neatrec.cli.output import OutputOptions, percent, print_json, print_table
from neatrec.cli.source_options import EngineArguments, SourceArguments, output_folder, parse_strata
from neatrec.errors import require_extra
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.labels.audit import Audit


def audit(
    source: SourceArguments,
    engine: EngineArguments,
    output: OutputOptions,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Write text, CSV and SVG files into this folder.")] = Path(
        "neatrec-audit"
    ),
    level: Annotated[
        list[float] | None, typer.Option(help="Accept labels at this level; may be repeated. Default: 0.05 0.01 0.001.")
    ] = None,
    null_rounds: Annotated[
        int, typer.Option(metavar="N", help="Shuffle the baskets so many times to count labels by chance.", min=0)
    ] = 3,
    null_within: Annotated[
        str, typer.Option(metavar="none|size|size+position", help="Leave this unchanged by the shuffle.")
    ] = "none",
    strata: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Use these strata in the calibrated protocol, as for `labels`."),
    ] = None,
    min_basket: Annotated[int, typer.Option(help="Leave out smaller baskets.", min=2)] = 5,
    seed: Annotated[int, typer.Option(help="Shuffle with this seed.", min=0)] = 0,
) -> None:
    """Study the labels: coverage, consistency, accuracy, and what both protocols get wrong."""
    require_extra("report", "the study of the labels")
    from neatrec.labels import LabelOptions
    from neatrec.labels.audit import audit_labels
    from neatrec.labels.null import check_within
    from neatrec.report.audit_report import write_audit

    out = output_folder(out)
    named, columns = parse_strata(strata)
    levels, choices = tuple(level or LabelOptions.levels), engine.choices()
    options = LabelOptions(levels=levels, strata=named, min_basket=min_basket)
    check_within(null_within)
    loaded = source.read(attributes=columns)
    found = audit_labels(
        loaded.baskets,
        options,
        truth=loaded.truth,
        null_rounds=null_rounds,
        null_within=null_within,
        seed=seed,
        **choices,
    )
    files = write_audit(found, out)
    if output.as_json:
        print_json({**found.to_json(), "files": [str(file) for file in files]})
        return
    show_audit(found)
    print(f"The whole study: {printable(out / 'audit.txt')}, with {len(files) - 1} tables and figures beside it.")


def show_audit(found: Audit) -> None:
    """Both protocols side by side: labels, what chance makes, and the truth where it is known."""
    rows = []
    for labels in (found.paper, found.calibrated):
        for level in labels.levels:
            null, score = found.nulls.get(labels.protocol), found.truth.get((labels.protocol, level))
            rows.append(
                [
                    labels.protocol,
                    f"{labels.level_kind} = {level:g}",
                    int(labels.at(level).sum()),
                    "-" if null is None else percent(null.fdr[level], 2),
                    "-" if score is None else percent(score.precision),
                    "-" if score is None else percent(score.recall),
                ]
            )
    columns = ["protocol", "level", "labels", "false-discovery rate", "right (precision)", "found (recall)"]
    wrong = found.negatives[-1]
    print_table(
        "Labels by both protocols",
        columns if found.truth else columns[:4],
        rows if found.truth else [row[:4] for row in rows],
        note=f"Of the {wrong.pairs:,} pairs that the paper calls negative at p < {wrong.level:g}, "
        f"{wrong.lift_above_one:,} are bought together more often than chance.",
    )
