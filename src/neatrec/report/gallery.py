"""The gallery: queries with what each model answers, and which answers are labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import Catalog
from neatrec.evaluation.ranks import LabelQueries
from neatrec.report.page import Gallery, GalleryAnswer, GalleryQuery, Paragraph, Section

QUERIES = 10
ANSWERS = 5


def gallery_section(
    label_queries: LabelQueries,
    best: Mapping[str, npt.NDArray[np.int32]],
    catalog: Catalog,
    purchases: npt.NDArray[np.int64],
    *,
    queries: int = QUERIES,
    answers: int = ANSWERS,
) -> Section:
    """Some queries from rare to popular. `best` holds for each model its answers, shape (queries, answers)."""
    rows = chosen_queries(label_queries, purchases, queries)
    lines = [_line(label_queries, row, best, catalog, answers) for row in rows]
    words = Paragraph(
        f"{len(lines)} queries with labels, evenly spaced from the rarest to the most popular, and the first "
        f"{answers} answers of each model. A tick marks an answer that is a label: a pair that goes together in the "
        "held-out baskets. An answer without a tick may still be right: it was perhaps bought too rarely to be "
        "proved."
    )
    return Section("gallery", "What the models answer", (words, Gallery(tuple(lines))))


def chosen_queries(label_queries: LabelQueries, purchases: npt.NDArray[np.int64], count: int) -> list[int]:
    """Rows of `label_queries.queries`, evenly spaced by purchases, those with several labels first."""
    labels = np.diff(label_queries.offsets)
    rows = np.flatnonzero(labels >= 2)
    if len(rows) < count:
        rows = np.arange(len(labels))
    ordered = rows[np.argsort(purchases[label_queries.queries[rows]], kind="stable")]
    spaced = np.unique(np.linspace(0, len(ordered) - 1, min(count, len(ordered))).round().astype(int))
    return [int(row) for row in ordered[spaced][::-1]]


def _line(
    label_queries: LabelQueries, row: int, best: Mapping[str, npt.NDArray[np.int32]], catalog: Catalog, answers: int
) -> GalleryQuery:
    code = int(label_queries.queries[row])
    labels = set(label_queries.item[label_queries.offsets[row] : label_queries.offsets[row + 1]].tolist())
    shown = tuple((name, _answers(codes[row, :answers].tolist(), labels, catalog)) for name, codes in best.items())
    return GalleryQuery(catalog.name(code), " / ".join(catalog.category_path(code)), len(labels), shown)


def _answers(codes: Sequence[int], labels: set[int], catalog: Catalog) -> tuple[GalleryAnswer, ...]:
    return tuple(GalleryAnswer(catalog.name(code), code in labels) for code in codes if code >= 0)
