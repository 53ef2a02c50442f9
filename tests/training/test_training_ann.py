"""What keeps a model from an approximate table is said before the fit, not after it."""

import sys
from pathlib import Path

import pytest

from helpers.toyshop import toy_baskets
from neatrec.data.baskets import Baskets
from neatrec.errors import MissingDependencyError, ParameterError
from neatrec.training.train import ModelChoice, TrainOptions, train_bundle


def never() -> Baskets:
    raise AssertionError("the baskets were read")


def test_a_model_without_vectors_is_refused_before_baskets_are_read(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="`ann` must be asked of bayes, or of a model whose score is a product"):
        train_bundle(never, tmp_path / "bundle", ModelChoice(model="lift"), TrainOptions(ann=True))
    assert not (tmp_path / "bundle").exists()


def test_a_missing_faiss_is_named_before_baskets_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingDependencyError, match="an approximate table needs faiss"):
        train_bundle(never, tmp_path / "bundle", ModelChoice(model="neat"), TrainOptions(ann=True))


def test_an_exact_table_asks_for_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    answer = train_bundle(toy_baskets, tmp_path / "bundle", ModelChoice(model="popco"))
    assert answer["model"] == "popco"
