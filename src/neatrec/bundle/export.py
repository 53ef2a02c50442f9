"""Exports the vectors of a model for other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.bundle.folder import replacing
from neatrec.errors import ParameterError, must_be
from neatrec.models.base import Model
from neatrec.text import printable


def export_vectors(model: Model, path: str | Path) -> Path:
    """Write the vectors as Parquet (`.parquet`) or as word2vec text, which gensim reads (`.txt`)."""
    writers: dict[str, Callable[[Model, Path], None]] = {".parquet": _parquet, ".txt": _word2vec_text}
    path = Path(path)
    if path.suffix not in writers:
        raise must_be("path", "a name that ends in .parquet or .txt", str(path))
    with replacing(path) as unfinished:
        writers[path.suffix](model, unfinished)
    return path


def _trained_items(model: Model) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]:
    """Codes of the items in training baskets, and their vectors, shape (items, dim)."""
    vectors = model.item_vectors()
    if vectors is None:
        raise ParameterError(
            f"model {model.name!r} has no vectors to export",
            hint="It ranks by counts. Models with vectors: item2vec, neat, triple2vec, cf, bprmf, bayes.",
        )
    codes = np.flatnonzero(model.item_count > 0)
    return codes, np.ascontiguousarray(vectors[codes], dtype=np.float32)


def _parquet(model: Model, path: Path) -> None:
    """id, name, count, vector (a list of fixed length)."""
    codes, vectors = _trained_items(model)
    flat = pa.array(vectors.ravel(), pa.float32())
    columns: dict[str, Any] = {
        "id": model.catalog.ids.take(pa.array(codes)),
        "name": pa.array([model.catalog.name(code) for code in codes], pa.large_string()),
        "count": pa.array(model.item_count[codes]),
        "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
    }
    pq.write_table(pa.table(columns), path, compression="zstd")


def _word2vec_text(model: Model, path: Path) -> None:
    """A line "items dim", then per item its id and its values, separated by spaces."""
    codes, vectors = _trained_items(model)
    ids = [model.catalog.id(code) for code in codes]
    for item in ids:
        if not item or item.split() != [item]:
            raise ParameterError(
                f"item id {printable(item)!r} has white space in it, which word2vec text cannot hold",
                hint="Export to .parquet.",
            )
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write(f"{len(ids)} {vectors.shape[1]}\n")
        for item, vector in zip(ids, vectors, strict=True):
            # nine digits restore a float32 exactly
            out.write(item + " " + " ".join(f"{value:.9g}" for value in vector.tolist()) + "\n")
