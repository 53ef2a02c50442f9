"""Bundles that an earlier version wrote still load and still say the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.make_golden import QUERIES
from neatrec.bundle import load_bundle, read_manifest

GOLDEN = sorted(folder for folder in Path(__file__).parent.glob("golden-v*/*") if folder.is_dir())


def test_there_is_a_golden_bundle_for_each_kind_of_arrays() -> None:
    assert {folder.name for folder in GOLDEN} >= {"pop", "shrunk-lift-tuned", "cf", "neat", "item2vec", "triple2vec"}


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_a_golden_bundle_still_answers_as_it_did(folder: Path) -> None:
    model = load_bundle(folder)
    assert model.name == read_manifest(folder).model == folder.name
    wanted = json.loads(folder.with_name(f"{folder.name}.answers.json").read_text())
    for query, answer in zip(QUERIES, wanted, strict=True):
        found = model.recommend(query, 4)
        assert found.ids == [item for item, _ in answer]
        assert found.scores.tolist() == pytest.approx([score for _, score in answer], rel=1e-5)


def test_a_golden_bundle_that_kept_its_users_has_them() -> None:
    (folder,) = [folder for folder in GOLDEN if folder.name == "cf"]
    model = load_bundle(folder)
    assert len(model.user_ids) == len(model.arrays(users=True)["user_vectors"])
