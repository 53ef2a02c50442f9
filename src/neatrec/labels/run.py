"""One run of `neatrec labels`: labels, the shuffle null beside them, the answer as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neatrec._version import __version__
from neatrec.data.baskets import Baskets
from neatrec.errors import ResourceError, must_be_one_of
from neatrec.labels import EXPECTED, PROTOCOLS, WITHIN, Labels, NullResult, make_labels, shuffle_null
from neatrec.labels.config import checked_levels
from neatrec.labels.null import check_within
from neatrec.text import printable

JSON_FORMAT = 1
ENGINE_OPTIONS = ("engine", "memory_limit", "threads")


@dataclass(frozen=True)
class LabelRun:
    """Labels of some baskets and, where rounds were asked for, how many come out by chance."""

    labels: Labels
    null: NullResult | None
    source: str
    baskets: int
    """Baskets read; the smaller ones among them are not counted."""
    seed: int

    def to_json(self) -> dict[str, Any]:
        """The object that `neatrec labels --json` prints."""
        answer = self.labels.to_json()
        answer["null"] = None if self.null is None else self.null.to_json()
        return {
            "format": JSON_FORMAT,
            **answer,
            "source": self.source,
            "baskets_read": self.baskets,
            "seed": self.seed,
            "version": __version__,
            "options": dict(self.labels.options),
        }


def check_label_options(
    protocol: str, levels: Sequence[float], *, expected: str = "quasi", null_within: str = "none"
) -> None:
    """Refuse options that no baskets could mend: asked before any are read."""
    checked_levels(levels)
    for name, choices, chosen in (
        ("protocol", PROTOCOLS, protocol),
        ("expected", EXPECTED, expected),
        ("null_within", WITHIN, null_within),
    ):
        if chosen not in choices:
            raise must_be_one_of(name, choices, chosen)


def run_labels(
    baskets: Baskets,
    *,
    protocol: str = "calibrated",
    levels: Sequence[float] = (0.05, 0.01, 0.001),
    null_rounds: int = 0,
    null_within: str = "none",
    seed: int = 0,
    **options: Any,
) -> LabelRun:
    """Labels by `protocol` at `levels`, and `null_rounds` rounds of the shuffle null. `options` go to `make_labels`."""
    check_within(baskets, null_within)
    labels = make_labels(baskets, protocol, levels, **options)
    null = None
    if null_rounds:
        engine = {key: options[key] for key in ENGINE_OPTIONS if key in options}
        null = shuffle_null(baskets, labels, null_rounds, within=null_within, seed=seed, **engine)
    return LabelRun(labels, null, baskets.source, len(baskets), seed)


def write_labels(labels: Labels, path: Path) -> None:
    """The label table as Parquet or CSV, by the name's ending; written beside and renamed."""
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    beside = path.with_name(f".{path.name}.part")
    try:
        if path.suffix == ".parquet":
            pq.write_table(labels.table(), beside, compression="zstd")
        else:
            pacsv.write_csv(labels.table(), beside)
        beside.replace(path)
    except OSError as error:
        raise ResourceError(f"cannot write {printable(path)}: {printable(error)}", file=str(path)) from error
    finally:
        beside.unlink(missing_ok=True)
