"""A model into a bundle and out again, for every model; what the manifest says; where bundles may be written."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from helpers.kernel_cases import assert_equal_arrays
from helpers.toyshop import toy_baskets, toy_catalog
from neatrec.bundle import load_bundle, read_manifest, save_bundle
from neatrec.errors import BundleError, ParameterError
from neatrec.models import MODEL_NAMES, Model, Run, make_model, rank

RUN = Run(rng=3, device="cpu", threads=1, reproducible=True)


@cache
def quick(name: str) -> Model:
    """A fitted model; how well it learned does not matter here."""
    model = make_model(name)
    settings = {key: 2 for key in ("dim", "epochs") if hasattr(model.parameters, key)}
    return make_model(name, settings).fit(toy_baskets(120), RUN)


def save(model: Model, path: Path, **options: object) -> object:
    return save_bundle(model, path, seed=3, **options)


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_every_model_is_restored_from_its_bundle(name: str, tmp_path: Path) -> None:
    model = quick(name)
    save(model, tmp_path / "bundle")
    back = load_bundle(tmp_path / "bundle")
    assert type(back) is type(model)
    assert back.parameters == model.parameters
    assert back.catalog.hash == model.catalog.hash
    assert back.learned == model.learned
    every = np.arange(len(toy_catalog()))
    assert np.array_equal(back.score_all(every), model.score_all(every))
    assert rank(back, "tea-green").names == rank(model, "tea-green").names


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_users_stay_out_unless_they_are_asked_for(name: str, tmp_path: Path) -> None:
    model = quick(name)
    save(model, tmp_path / "without")
    for file in (tmp_path / "without").iterdir():
        assert b"user-" not in file.read_bytes(), file.name
    assert load_bundle(tmp_path / "without").user_ids is None
    save(model, tmp_path / "with", keep_users=True)
    back = load_bundle(tmp_path / "with")
    assert read_manifest(tmp_path / "with").keeps_users
    assert_equal_arrays(back, model)
    if model.user_ids is not None:
        assert back.user_ids.to_pylist() == model.user_ids.to_pylist()


def test_the_manifest_describes_the_bundle(tmp_path: Path) -> None:
    model = quick("shrunk-lift-tuned")
    written = save(model, tmp_path / "bundle", notes={"source": "toy"})
    entries = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    assert entries["format"] == 1
    assert (entries["model"], entries["kind"], entries["seed"]) == (
        "shrunk-lift-tuned",
        "statistic",
        3,
    )
    assert entries["parameters"] == model.parameters.to_dict()
    assert entries["learned"] == model.learned
    assert entries["data_hash"] == model.trained_on.hash
    assert entries["notes"] == {"source": "toy"}
    assert (entries["items"], entries["lines"]) == (22, toy_baskets(120).lines)
    assert set(entries["files"]) == {"arrays.safetensors", "items.parquet"}
    assert {"neatrec", "python", "numpy"} <= entries["versions"].keys()
    assert entries["keeps_users"] is False
    assert read_manifest(tmp_path / "bundle").to_dict() == entries == written.to_dict()


@pytest.mark.parametrize("place", ["bundle", "empty", "a/b/bundle"])
def test_a_bundle_replaces_the_old_one_or_an_empty_folder_and_makes_missing_parents(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "empty").mkdir()
    bundle = tmp_path / place
    for name in ("pop", "lift"):
        save(quick(name), bundle)
        assert load_bundle(bundle).name == name
        assert {file.name for file in bundle.iterdir()} == {
            "manifest.json",
            "arrays.safetensors",
            "items.parquet",
        }
        assert {file.name for file in bundle.parent.iterdir()} <= {
            "bundle",
            "empty",
        }  # nothing is left beside it


def test_a_link_is_followed(tmp_path: Path) -> None:
    save(quick("pop"), tmp_path / "real")
    (tmp_path / "current").symlink_to("real")
    assert load_bundle(tmp_path / "current").name == "pop"
    save(quick("lift"), tmp_path / "current")
    assert (tmp_path / "current").is_symlink()
    assert load_bundle(tmp_path / "real").name == "lift"


def test_other_folders_and_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("mine")
    for place in ("home", "file"):
        with pytest.raises(
            ParameterError,
            match=r"`out` must be a new folder or an older bundle.*Nothing was overwritten",
        ):
            save(quick("pop"), tmp_path / place)
    assert (tmp_path / "home" / "letter.txt").read_text() == "dear"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "home"]


def test_a_folder_without_manifest_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"there is no bundle at .*nowhere. `neatrec train"):
        load_bundle(tmp_path / "nowhere")
    with pytest.raises(BundleError, match=r"is not a bundle: it has no manifest.json"):
        load_bundle(tmp_path)
    with pytest.raises(ParameterError, match="`bundle` must be a folder of its own"):
        load_bundle("/")
