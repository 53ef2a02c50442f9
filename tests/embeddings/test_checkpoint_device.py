"""A fit may resume on another device after a whole epoch; within an epoch it is refused with a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from helpers.toyshop import toy_baskets
from neatrec.errors import BundleError
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.embeddings.checkpoints import FILE
from neatrec.models.run import Progress

RUN = Run(rng=5, device="cpu", threads=1, reproducible=True)


def fit(run: Run) -> Model:
    return make_model("neat", dim=4, epochs=3).fit(toy_baskets(), run)


def written_elsewhere(folder: Path) -> None:
    """Make the checkpoint one of a GPU."""
    with safe_open(folder / FILE, framework="numpy") as file:
        about = json.loads(file.metadata()["neatrec"])
        tables = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert about["task"]["device"] == "cpu"
    about["task"]["device"] = "gpu"
    save_file(tables, folder / FILE, metadata={"neatrec": json.dumps(about)})


def test_a_fit_may_resume_on_another_device_between_epochs(tmp_path: Path) -> None:
    class Died(Exception):
        pass

    def die(progress: Progress) -> None:
        if progress.epoch == 2:
            raise Died

    with pytest.raises(Died):
        fit(replace(RUN, checkpoints=tmp_path, progress=die))
    written_elsewhere(tmp_path)
    epochs: list[int] = []
    run = replace(RUN, checkpoints=tmp_path, resume=True, progress=lambda progress: epochs.append(progress.epoch))
    resumed, whole = fit(run), fit(RUN)
    assert min(epochs) == 1  # the first epoch was not done again
    assert resumed.history == whole.history
    np.testing.assert_array_equal(resumed.item_vectors(), whole.item_vectors())


def test_a_fit_must_resume_on_the_same_device_within_an_epoch(tmp_path: Path) -> None:
    looks = iter([False, True])
    with pytest.raises(KeyboardInterrupt):
        fit(replace(RUN, checkpoints=tmp_path, stop=lambda: next(looks)))
    written_elsewhere(tmp_path)
    with pytest.raises(BundleError, match=r"of another fit: device was gpu, now it is cpu\. Train without --resume"):
        fit(replace(RUN, checkpoints=tmp_path, resume=True))
