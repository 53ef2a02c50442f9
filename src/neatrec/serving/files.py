"""The files of the table: Arrow, not compressed, so that their columns are used as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.bundle import Manifest
from neatrec.bundle.manifest import NAME, Kinds, check_entries, damaged
from neatrec.bundle.store import named_file
from neatrec.errors import BundleError, ResourceError
from neatrec.memory import total_memory
from neatrec.serving.column_parts import ColumnParts, Columns, write_arrow
from neatrec.serving.pairs import PairTable
from neatrec.serving.topk import TopK
from neatrec.statistics import LiftPrior
from neatrec.text import printable

FOLDER = "topk"
NOTE = "topk"
"""The entry of the manifest's notes that describes the table."""
ANSWERS, ITEMS, PAIRS, ATTACHMENT = "answers.arrow", "items.arrow", "pairs.arrow", "attachment.json"
LIFT_PRIOR = "lift_prior.json"
COLUMNS_VERSION = 2
"""Columns may be added under this number; one that changes its meaning raises it. Version 1 had other grades."""

PAIR_COLUMNS = ("count", "customers", "forward", "q", "expected", "explained", "season", "weighted")
"""Columns of a pair beside its items; all but `count` and `q` may be missing."""
UNKNOWN_COLUMNS = ("customers", "forward", "backward", "weighted")
"""Left out of the file where they are not known of any pair."""
MAX_MEMORY_SHARE = 0.25
"""Tables that take more of the memory are not read into it."""
ROWS = 1 << 20
"""Answers whose evidence is looked up at a time."""
SECTION_BITS = 48
PLACE_MASK = (1 << SECTION_BITS) - 1
LARGEST = float(np.finfo(np.float32).max)
ABOUT: Kinds = {"columns": (int,), "k": (int,), "reason": (str,), "evidence": (dict,)}
ABOUT_EVIDENCE: Kinds = {"by_customer": (bool,), "min_count": (int,), "baskets": (int,), "records": (int,)}
ABOUT_WEIGHTS: Kinds = {"half_life": (float, int, type(None))}
ABOUT_RECALL: Kinds = {"first": (float, int), "all": (float, int), "sample": (int,)}
"""What the manifest's entry about the table must hold."""
ATTACHED_BOARD: Kinds = {"labels": (int,), "queries": (int,), "candidates": (str,), "models": (list,)}
ATTACHED_MODEL: Kinds = {"name": (str,), "kind": (str,), "mean": (dict,), "low": (dict,), "high": (dict,)}
ATTACHED_TABLE: Kinds = {"caption": (str,), "columns": (list,), "rows": (list,)}
"""What the page shows of an attached report."""


class GoalOrder(NamedTuple):
    """The answers by one goal, item after item, best first."""

    start: npt.NDArray[np.int64]
    """Where the answers of each item start, shape (items + 1,)."""
    row: npt.NDArray[Any]
    """Where each answer stands among the columns."""
    score: npt.NDArray[np.float32]


class AnswerSections:
    """The answers of all items, written block by block: those by the model's own goal, then what other goals add.

    Rows of other goals' answers are known once all sections are: until then they are section and place in it.
    """

    def __init__(self, folder: Path, goals: Sequence[str]) -> None:
        """`goals`: the other goals of the model, in the order of their sections."""
        self.folder, self.goals = folder, goals
        self.sections = [ColumnParts(folder) for _ in ("own", *goals)]
        self.orders = {goal: ColumnParts(folder) for goal in goals}
        self.answers: dict[str, npt.NDArray[np.int64]] = {}
        """By goal, `` for the own one: how many answers each item has."""
        self._known: set[str] = set()

    def add(self, best: TopK, others: Mapping[str, TopK], pairs: PairTable) -> None:
        """The answers of further items, with their evidence."""
        for goal, top in (("", best), *others.items()):
            self.answers[goal] = self.answers.get(goal, 0) + np.diff(top.start)
        query, item, rows, ends = pooled([best, *others.values()])
        score = np.full(len(item), np.nan, dtype=np.float32)
        score[: len(best.item)] = best.score
        done = [section.rows.get("item", 0) for section in self.sections]
        for (goal, top), row in zip(others.items(), rows, strict=True):
            section = np.searchsorted(ends, row, side="right")
            place = row + np.array(done)[section] - np.concatenate([[0], ends])[section]
            self.orders[goal].append({"row": section.astype(np.int64) << SECTION_BITS | place, "score": top.score})
        for number, (first, last) in enumerate(pairwise([0, *ends])):
            for begin in range(first, max(last, first + 1), ROWS):  # once for no rows, which have columns too
                part = slice(begin, min(begin + ROWS, last))
                columns = pairs.columns(query[part], item[part])
                self._known |= {name for name, values in columns.items() if _known(name, values)}
                self.sections[number].append({"item": item[part], "score": score[part], **columns})

    def write(self) -> None:
        own = self.sections[0]
        write_arrow(
            self.folder / ANSWERS, [n for n in own.types if n in {"item", "score"} | self._known], self.sections
        )
        base = np.concatenate([[0], np.cumsum([section.rows["item"] for section in self.sections])])
        kind = np.int32 if base[-1] < 2**31 else np.int64
        for goal, order in self.orders.items():
            coded, final = order.column("row"), ColumnParts(self.folder)
            for first in range(0, max(len(coded), 1), ROWS):
                some = coded[first : first + ROWS]
                final.append({"row": (base[some >> SECTION_BITS] + (some & PLACE_MASK)).astype(kind)})
            final.take("score", order)
            write_arrow(self.folder / goal_file(goal), ["row", "score"], [final])


def pooled(
    tops: Sequence[TopK],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], list[npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    """Query and item of all answers without repetition, those of the first goal first, then what each other one adds.

    With them where the answers of each other goal stand, and where the answers that each goal brings end.
    """
    items = len(tops[0].start) - 1
    keys = [top.query.astype(np.int64) * items + top.item for top in tops]
    lengths = np.cumsum([len(key) for key in keys])
    if len(tops) == 1:
        return tops[0].query, tops[0].item, [], lengths
    distinct, first, inverse = np.unique(np.concatenate(keys), return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    query, item = np.divmod(distinct[order], items)
    ends = np.searchsorted(first[order], lengths)
    return query.astype(np.int32), item.astype(np.int32), np.split(place[inverse], lengths[:-1])[1:], ends


def write_items(
    folder: Path, answers: AnswerSections, pairs: PairTable, variance: npt.NDArray[np.float32] | None
) -> None:
    """One row per item: how many answers and pairs are its own, the factors of expected counts, the variance."""
    columns: dict[str, npt.NDArray[Any]] = {
        "answers": answers.answers[""],
        "pairs": np.diff(pairs.start),
        "query_factor": pairs.query_factor,
        "item_factor": pairs.item_factor,
        "category": pairs.category,
        **{f"answers_{goal}": answers.answers[goal] for goal in answers.goals},
    }
    if variance is not None:
        columns["variance"] = variance
    _write(folder / ITEMS, columns)


def write_pairs(folder: Path, pairs: PairTable) -> None:
    """The pairs, and the prior of their lifts."""
    columns = {name: getattr(pairs, name) for name in ("item", *PAIR_COLUMNS)}
    _write(folder / PAIRS, {name: values for name, values in columns.items() if values is not None})
    if pairs.prior is not None:
        (folder / LIFT_PRIOR).write_text(json.dumps(pairs.prior.to_dict(), sort_keys=True, allow_nan=False))


def _known(name: str, values: npt.NDArray[Any]) -> bool:
    return name not in UNKNOWN_COLUMNS or bool((values >= 0).any())


def _write(file: Path, columns: Columns) -> None:
    """One record batch, each column one flat buffer."""
    whole = ColumnParts()
    whole.append(columns)
    write_arrow(file, list(columns), [whole])


class Bounds(NamedTuple):
    """What a column holds: its kind of numbers (`numpy.dtype.kind`), between which, and whether NaN is one."""

    kind: str
    low: float = -LARGEST
    high: float = LARGEST
    unknown: bool = False

    def refusal(self, values: npt.NDArray[Any]) -> str | None:
        """Why these are no such numbers; None where they are."""
        if values.dtype.kind != self.kind:
            return f"must be {KIND_WORDS[self.kind]}, got {values.dtype}"
        outside = (values < self.low) | (values > self.high)
        if self.kind == "f" and not self.unknown:
            outside |= np.isnan(values)
        if outside.any():
            row = int(np.argmax(outside))
            return f"must be from {self.low:g} to {self.high:g}, got {values[row]} in row {row:,}"
        return None


KIND_WORDS = {"i": "whole numbers", "u": "whole numbers without sign", "f": "numbers"}
SHARE, ESTIMATE, TIMES = Bounds("f", 0, 1, True), Bounds("f", 0, np.inf, True), Bounds("i", -1)
NUMBER_OR_NONE = Bounds("f", unknown=True)
ANSWER_BOUNDS = {
    **{"score": NUMBER_OR_NONE, "count": TIMES, "q": SHARE},
    **dict.fromkeys(("expected", "lift", "lift_low", "lift_high"), ESTIMATE),
}
OPTIONAL_ANSWER_BOUNDS = {
    **dict.fromkeys(("customers", "forward", "backward", "season", "weighted"), TIMES),
    "overall_lift": ESTIMATE,
}
ITEM_BOUNDS = {"query_factor": Bounds("f", 0), "item_factor": Bounds("f", 0), "category": Bounds("i")}
OPTIONAL_ITEM_BOUNDS = {"variance": Bounds("f", 0)}
PAIR_BOUNDS = {"count": Bounds("i", 0), "q": Bounds("f", 0, 1)}
OPTIONAL_PAIR_BOUNDS = {
    **dict.fromkeys(("customers", "forward", "weighted"), TIMES),
    "expected": ESTIMATE,
    "season": Bounds("u", 0, 4095),
}


class TableFiles:
    """The files of a bundle's serving table: read, and checked before anything trusts their numbers.

    Compiled loops follow offsets and codes wherever they lead, so each must be within its bounds. Files are read into
    memory: one that is changed in place cannot change an answer, nor end the process. Where they would take more than
    a quarter of the memory, `private_copy` has the same effect.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        size = sum(record.size for name, record in manifest.files.items() if name.startswith(f"{FOLDER}/"))
        self.too_large = size > MAX_MEMORY_SHARE * total_memory()

    def columns(self, name: str, bounds: Mapping[str, Bounds], optional: Mapping[str, Bounds] | None = None) -> Columns:
        """The columns of a file, read-only arrays of one length."""
        file = named_file(self.folder, self.manifest, f"{FOLDER}/{name}")
        try:
            content = pa.py_buffer(private_copy(file) if self.too_large else file.read_bytes())
            with pa.BufferReader(content) as source:
                reader = pa.ipc.open_file(source)
                if reader.num_record_batches != 1:
                    raise damaged(file, f"it must hold one record batch, got {reader.num_record_batches}")
                batch = reader.get_batch(0)
            batch.validate()
            columns = {column: batch.column(i).to_numpy() for i, column in enumerate(batch.schema.names)}
        except (OSError, ValueError, TypeError, MemoryError, pa.ArrowException) as error:
            raise damaged(file, printable(error, 300)) from error
        for column, limits in {**bounds, **(optional or {})}.items():
            if column not in columns:
                if column in bounds:
                    raise damaged(file, f"it has no column {column!r}")
            elif refusal := limits.refusal(columns[column]):
                raise damaged(file, f"column {column!r} {refusal}")
        return columns

    def starts(self, items: Columns, column: str, rows: int, *, more: bool = False) -> npt.NDArray[np.int64]:
        """Where the rows of each item begin in a file of `rows` rows, and where the last ones end.

        `more`: whether rows may follow that are no item's own.
        """
        found = np.concatenate([[0], np.cumsum(items[column])]).astype(np.int64)
        if found[-1] > rows or (found[-1] < rows and not more):
            file = self.folder / FOLDER / ITEMS
            raise damaged(file, f"column {column!r} counts {found[-1]:,} rows, there are {rows:,}")
        return found


def private_copy(file: Path) -> mmap:
    """A copy of a file in the temporary folder, mapped, under no name: nobody can change it or cut it off.

    A mapped file that is cut off ends the process that reads it with SIGBUS.
    """
    try:
        with TemporaryFile() as copy, file.open("rb") as source:
            copyfileobj(source, copy, 1 << 20)
            copy.flush()
            return mmap(copy.fileno(), 0, access=ACCESS_READ)
    except OSError as error:
        raise ResourceError(
            f"cannot copy {printable(file)} to the temporary folder: {printable(error.strerror)}",
            file=str(file),
            hint="It is larger than a quarter of the memory: set TMPDIR to a folder on a disk with more room.",
        ) from error


def goal_file(goal: str) -> str:
    return f"answers-{goal}.arrow"


def read_goals(files: TableFiles, about: Mapping[str, Any], items: Columns, answers: int) -> dict[str, GoalOrder]:
    """The answers by the other goals that the table holds."""
    found = {}
    for goal in about.get("goals", ()):
        columns = files.columns(goal_file(goal), {"row": Bounds("i", 0, answers - 1), "score": Bounds("f")})
        start = files.starts(items, f"answers_{goal}", len(columns["row"]))
        found[goal] = GoalOrder(start, columns["row"], columns["score"])
    return found


def read_attachment(folder: Path, manifest: Manifest) -> dict[str, Any] | None:
    """What was attached by `train --rewrite-table --report`: see `report.attachment.read_report`."""
    name = f"{FOLDER}/{ATTACHMENT}"
    if name not in manifest.files:
        return None
    file = named_file(folder, manifest, name)
    try:
        content: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(file, printable(error)) from error
    check_entries(content, {}, file)
    if "leaderboard" in content:
        check_entries(content["leaderboard"], ATTACHED_BOARD, file)
        for line in content["leaderboard"]["models"]:
            check_entries(line, ATTACHED_MODEL, file)
            for measures in (line["mean"], line["low"], line["high"]):
                check_entries(measures, dict.fromkeys(measures, (float, int, type(None))), file)
    check_entries({"tables": content.get("tables", [])}, {"tables": (list,)}, file)
    for table in content.get("tables", []):
        check_entries(table, ATTACHED_TABLE, file)
        if not all(isinstance(row, list) for row in table["rows"]):
            raise damaged(file, "the rows of a table must be lists")
    return content


def about_table(manifest: Manifest, bundle: object) -> dict[str, Any]:
    """The manifest's entry about the table; a `BundleError` with the command to run where there is none."""
    about = manifest.notes.get(NOTE)
    if about is None:
        raise BundleError(
            f"{printable(bundle)} has no serving table",
            file=str(bundle),
            hint=f"Run `neatrec train SOURCE --out {printable(bundle)} --rewrite-table` with the baskets it "
            "was trained on.",
        )
    file = Path(str(bundle)) / NAME
    check_entries(about, ABOUT, file)
    check_entries(about["evidence"], ABOUT_EVIDENCE, file)
    check_entries({"half_life": about["evidence"].get("half_life")}, ABOUT_WEIGHTS, file)
    if about.get("recall") is not None:
        check_entries(about["recall"], ABOUT_RECALL, file)
    for names in (about.get("goals", []), about["evidence"].get("strata", [])):
        if not about["k"] or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise damaged(file, "its entry 'topk' must have a `k` above 0, and lists of names as `goals` and `strata`")
    reasons = about.get("reasons", {})
    check_entries(reasons, {}, file)
    check_entries(reasons, dict.fromkeys(reasons, (str,)), file)
    if about["columns"] not in (1, COLUMNS_VERSION):
        raise BundleError(
            f"the serving table of {printable(bundle)} has columns of version {printable(about['columns'])}, "
            f"this version of neatrec reads 1 and {COLUMNS_VERSION}",
            file=str(bundle),
            hint=f"Run `neatrec train {printable(bundle)} --rewrite-table`.",
        )
    return dict(about)


def read_pairs(files: TableFiles, about: Mapping[str, Any], size: int) -> tuple[PairTable, Columns]:
    """The pairs of the table, and its columns of items, of which there are `size`."""
    counted = ("answers", "pairs", *(f"answers_{goal}" for goal in about.get("goals", ())))
    bounds = ITEM_BOUNDS | dict.fromkeys(counted, Bounds("i", 0, 2**31 - 1))
    items = files.columns(ITEMS, bounds, OPTIONAL_ITEM_BOUNDS)
    if len(items["pairs"]) != size:
        raise damaged(files.folder / FOLDER / ITEMS, f"it must have {size:,} rows")
    evidence = about["evidence"]
    strata = evidence.get("strata", [])
    optional = OPTIONAL_PAIR_BOUNDS | {"explained": Bounds("u", 0, len(strata))}
    columns = files.columns(PAIRS, PAIR_BOUNDS | {"item": Bounds("i", 0, size - 1)}, optional)
    start = files.starts(items, "pairs", len(columns["item"]))
    if not _ascends(start, columns["item"]):
        raise damaged(files.folder / FOLDER / PAIRS, "the items of each query must ascend, all above its own code")
    pairs = PairTable(
        start=start,
        item=columns["item"],
        **{name: columns.get(name) for name in PAIR_COLUMNS},  # type: ignore[arg-type]
        strata=tuple(strata),
        query_factor=items["query_factor"],
        item_factor=items["item_factor"],
        category=items["category"],
        by_customer=evidence["by_customer"],
        min_count=evidence["min_count"],
        half_life=evidence.get("half_life"),
        baskets=evidence["baskets"],
        records=evidence["records"],
        prior=_read_prior(files),
    )
    return pairs, items


def _read_prior(files: TableFiles) -> LiftPrior | None:
    """The prior of lifts, tried out; None where the table has none."""
    if f"{FOLDER}/{LIFT_PRIOR}" not in files.manifest.files:
        return None
    file = named_file(files.folder, files.manifest, f"{FOLDER}/{LIFT_PRIOR}")
    try:
        prior = LiftPrior.from_dict(json.loads(file.read_text()))
        estimate = prior.estimate(np.array([0.0, 3.0, 1e6]), np.array([1.0, 1e-6, 1e6]))
        if not all(np.isfinite(values).all() for values in vars(estimate).values()):
            raise ValueError("it gives lifts that are no numbers")
    except Exception as error:  # what it is depends on what it holds
        raise damaged(file, printable(error, 300)) from error
    return prior


def _ascends(start: npt.NDArray[np.int64], item: npt.NDArray[Any]) -> bool:
    """Whether the items of each row r ascend and are above r."""
    rows = np.flatnonzero(np.diff(start))
    rises = np.ones(int(start[-1]), dtype=np.bool_)
    np.greater(item[1 : len(rises)], item[: max(len(rises) - 1, 0)], out=rises[1:])
    rises[start[rows]] = item[start[rows]] > rows
    return bool(rises.all())
