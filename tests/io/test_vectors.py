"""Vectors of items from a Parquet file: aligned with the catalogue, and refused with a sentence."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.toyshop import toy_baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import ParameterError, SourceError
from neatrec.io.vectors import read_vectors
from neatrec.models import Run, make_model


def write(path: Path, ids: Any, vectors: Any, kind: pa.DataType | None = None) -> Path:
    file = path / "vectors.parquet"
    pq.write_table(pa.table({"id": ids, "vector": pa.array(vectors, kind)}), file)
    return file


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)])
def test_vectors_follow_the_catalogue(tmp_path: Path, kind: pa.DataType, caplog: pytest.LogCaptureFixture) -> None:
    file = write(tmp_path, ["c", "nowhere", "a"], [[1.0, 2.0], [0.0, 0.0], [3.0, 4.0]], kind)
    with caplog.at_level(logging.INFO):
        found = read_vectors(file).of_catalog(Catalog.from_ids("abc"))
    np.testing.assert_array_equal(found, [[3, 4], [np.nan, np.nan], [1, 2]])
    assert "vectors: 2 items of 2 numbers, 1 item without, 1 id not in the catalogue" in caplog.text


def test_numbers_as_ids_and_the_vector_of_a_variant(tmp_path: Path) -> None:
    catalog = Catalog(
        ["1", "2"],
        variants=["11", "21"],
        variant_codes=np.array([0, 1], dtype=np.int32),
    )
    found = read_vectors(write(tmp_path, [21, 1, 11], [[1], [2], [3]])).of_catalog(catalog)
    np.testing.assert_array_equal(found, [[2], [1]])


@pytest.mark.parametrize(
    ("ids", "vectors", "message"),
    [
        (["a", "b"], [[1.0], [1.0, 2.0]], "row 2, column 'vector': must hold 1 numbers as in row 1, got 2"),
        (["a", "b"], [[1.0], None], "row 2, column 'vector': must hold 1 numbers as in row 1, got 0"),
        (["a", "b"], [[], [1.0]], "row 1, column 'vector': must hold at least one number, got 0"),
        (["a", "b"], [[1.0], [float("nan")]], "row 2, column 'vector': must hold finite numbers"),
        (["a", "b"], [[1.0], [float("inf")]], "row 2, column 'vector': must hold finite numbers"),
        (["a"], [1.0], "column 'vector': must be lists of numbers, got double"),
        (["a"], [["x"]], "column 'vector': must be lists of numbers, got list"),
        (["a", None], [[1.0], [2.0]], "row 2, column 'id': must not be empty"),
        (["a", "a"], [[1.0], [2.0]], "column 'id': 'a' stands there more than once"),
    ],
)
def test_bad_vectors_are_refused(tmp_path: Path, ids: list[str], vectors: list[Any], message: str) -> None:
    with pytest.raises(SourceError, match=r"vectors\.parquet") as caught:
        read_vectors(write(tmp_path, ids, vectors))
    assert message in str(caught.value)
    assert "Write a Parquet file with the columns id" in str(caught.value)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot read vectors from .*gone\.parquet"):
        read_vectors(tmp_path / "gone.parquet")
    (tmp_path / "text.parquet").write_text("id,vector")
    with pytest.raises(SourceError, match=r"cannot read vectors from .*text\.parquet"):
        read_vectors(tmp_path / "text.parquet")
    pq.write_table(pa.table({"id": ["a"], "embedding": [[1.0]]}), tmp_path / "other.parquet")
    with pytest.raises(SourceError, match="has no column 'vector', only id, embedding"):
        read_vectors(tmp_path / "other.parquet")
    with pytest.raises(SourceError, match="none of its 1 id is an item of the catalogue"):
        read_vectors(write(tmp_path, ["x"], [[1.0]])).of_catalog(Catalog.from_ids("ab"))
    with pytest.raises(SourceError, match="holds no vectors"):
        read_vectors(write(tmp_path, pa.array([], pa.string()), [], pa.list_(pa.float32())))


def test_models_that_cannot_use_vectors_refuse_them() -> None:
    baskets = toy_baskets()
    with pytest.raises(ParameterError, match="`vectors` are of no use to model 'llr'"):
        make_model("llr").fit(baskets, Run(vectors=np.zeros((len(baskets.catalog), 2), dtype=np.float32)))
    with pytest.raises(ParameterError, match="`vectors` must be of shape"):
        make_model("bayes").fit(baskets, Run(vectors=np.zeros((3, 2), dtype=np.float32)))
