"""Vectors as files for other tools."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from helpers.toyshop import code, toy_baskets, toy_catalog
from neatrec.bundle import export_vectors
from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError
from neatrec.models import Model, Run, make_model


@pytest.fixture(scope="module")
def model() -> Model:
    return make_model("cf", dim=5, epochs=3).fit(toy_baskets(200), Run(threads=1))


def test_parquet_holds_ids_names_counts_and_vectors(model: Model, tmp_path: Path) -> None:
    table = pq.read_table(export_vectors(model, tmp_path / "vectors.parquet"))
    bought = np.flatnonzero(model.item_count)
    assert code("saffron") not in bought
    assert table.column_names == ["id", "name", "count", "vector"]
    assert table["id"].to_pylist() == [toy_catalog().id(item) for item in bought]
    assert table["name"].to_pylist() == [toy_catalog().name(item) for item in bought]
    assert table["count"].to_pylist() == model.item_count[bought].tolist()
    assert np.array_equal(np.array(table["vector"].to_pylist(), dtype=np.float32), model.item_vectors()[bought])


def plain_word2vec(path: Path) -> dict[str, np.ndarray]:
    """word2vec text as its format says: a line with two numbers, then a word and its numbers a line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    count, dim = map(int, lines[0].split(" "))
    vectors = {}
    for line in lines[1:]:
        word, *numbers = line.split(" ")
        vectors[word] = np.array(numbers, dtype=np.float32)
        assert len(numbers) == dim
    assert len(vectors) == count
    return vectors


def test_word2vec_text_restores_the_exact_vectors(model: Model, tmp_path: Path) -> None:
    vectors = plain_word2vec(export_vectors(model, tmp_path / "vectors.txt"))
    assert len(vectors) == (model.item_count > 0).sum()
    for item, vector in vectors.items():
        assert np.array_equal(vector, model.item_vectors()[toy_catalog().code_of[item]])


def test_gensim_reads_the_text(model: Model, tmp_path: Path) -> None:
    reason = "gensim is not installed; the plain reader above reads the same text"
    keyed = pytest.importorskip("gensim.models.keyedvectors", reason=reason).KeyedVectors
    read = keyed.load_word2vec_format(str(export_vectors(model, tmp_path / "vectors.txt")), binary=False)
    tea = toy_catalog().id(code("tea"))
    assert np.array_equal(read[tea], model.item_vectors()[code("tea")])
    best, likeness = read.most_similar(tea, topn=1)[0]
    assert model.score([code("tea")], [toy_catalog().code_of[best]])[0] == pytest.approx(likeness, abs=1e-5)


def test_what_cannot_be_exported_is_refused(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"`path` must be a name that ends in \.parquet or \.txt"):
        export_vectors(model, tmp_path / "vectors.csv")
    with pytest.raises(ParameterError, match="model 'pop' has no vectors to export"):
        export_vectors(make_model("pop").fit(toy_baskets(60)), tmp_path / "vectors.txt")
    spaced = make_model("cf", dim=2, epochs=1).fit(Baskets.from_lists([["green tea", "milk"]] * 3), Run(threads=1))
    with pytest.raises(ParameterError, match=r"'green tea' has white space in it.*Export to \.parquet"):
        export_vectors(spaced, tmp_path / "vectors.txt")
    assert list(tmp_path.iterdir()) == []
