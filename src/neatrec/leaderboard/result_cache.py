"""Trainings of a leaderboard: each is done once, kept, and found again by what went into it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from neatrec.bundle import load_bundle, read_manifest, save_bundle
from neatrec.data.baskets import Baskets
from neatrec.errors import BundleError
from neatrec.evaluation.ranks import resolve_ranking_device
from neatrec.evaluation.task import EvaluationTask, ModelRanks, evaluate_model, with_label_free
from neatrec.leaderboard.model_specs import ModelSpec
from neatrec.models import Model, Run
from neatrec.text import printable
from neatrec.training.measure import measured

log = logging.getLogger(__name__)

FORMAT = 2
Took = dict[str, float | None]
COSTS = ("train_seconds", "peak_mb", "judge_seconds", "label_free_seconds")


@dataclass(frozen=True)
class TrainingResult:
    """One training of one spec with one seed, and how it answered."""

    answers: ModelRanks
    train_seconds: float | None
    """None where the training was found in a bundle that does not say."""
    peak_mb: float | None
    judge_seconds: float
    """Seconds for the ranks of the labels."""
    label_free_seconds: float = 0.0
    """Seconds for the questions that need no labels."""
    reused: str | None = None
    """What was found: its "answers", its "bundle", the "arrays" of a model that learns the same; None: trained."""

    @property
    def own_seconds(self) -> float:
        """Seconds of training, which a model that took the arrays of another did not need."""
        return 0.0 if self.reused == "arrays" or self.train_seconds is None else self.train_seconds


@dataclass(frozen=True)
class ResultCache:
    """Where trainings are kept: `bundles/NAME-seedN` (the model) and `answers/NAME-seedN` (what it answered)."""

    folder: Path | None
    task_key: str
    """A hash of the task: answers to another one are not taken."""
    shared: frozenset[str] = frozenset()
    """Learnings that several model_specs share."""
    learned: dict[tuple[str, int], tuple[Model, Took]] = field(default_factory=dict)
    """What was learned of these so far, by learning and seed."""

    def keep_only(self, learnings: set[str]) -> None:
        """Forget what was learned but is not among these: counts of a large shop are gigabytes."""
        for key in [key for key in self.learned if key[0] not in learnings]:
            del self.learned[key]

    def bundle(self, spec: ModelSpec, seed: int) -> Path | None:
        kept = self.folder is not None and spec.ours and spec.learns
        return bundle_of(self.folder, spec.name, seed) if kept and self.folder else None

    def answers(self, spec: ModelSpec, seed: int) -> Path | None:
        return self.folder / "answers" / _file_name(spec.name, seed) if self.folder else None


def bundle_of(folder: Path, name: str, seed: int) -> Path:
    """Where the leaderboard in `folder` keeps this training."""
    return folder / "bundles" / _file_name(name, seed)


def _file_name(name: str, seed: int) -> str:
    safe = re.sub(r"[^A-Za-z0-9._-]", "-", name).strip(".") or "model"
    # names that differ only in what was replaced stay apart
    mark = "" if safe == name else "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{safe}{mark}-seed{seed}"


def task_key(task: EvaluationTask, options: dict[str, Any]) -> str:
    """A hash of everything that decides the questions."""
    parts = [FORMAT, task.train_hash, task.test_hash, task.labels.hash, options]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def fit_and_evaluate(
    spec: ModelSpec,
    seed: int,
    train: Baskets,
    task: EvaluationTask,
    shelf: ResultCache,
    run: Run,
    *,
    label_free: bool = True,
) -> TrainingResult:
    """The answers of a spec trained with `seed`: found on the shelf, or from a bundle there, or trained anew."""
    where = _where(spec, run)
    key = {"identity": spec.identity, "task": shelf.task_key, "seed": seed, "label_free": label_free, **where}
    kept = shelf.answers(spec, seed)
    if kept is not None and (found := _read_answers(kept, key)) is not None:
        return found
    bundle = shelf.bundle(spec, seed)
    model, cost, reused = _model(spec, seed, train, bundle, shelf, run)
    device = resolve_ranking_device(model, run.device)
    label_ranks = measured(lambda: evaluate_model(model, task, label_free=False, device=device))
    answered = measured(
        lambda: with_label_free(model, task, label_ranks.result, device=device) if label_free else label_ranks.result
    )
    training = TrainingResult(
        answered.result, cost["train_seconds"], cost["peak_mb"], label_ranks.seconds, answered.seconds, reused
    )
    if kept is not None:
        _write_answers(kept, key, training)
    return training


def _model(
    spec: ModelSpec, seed: int, train: Baskets, bundle: Path | None, shelf: ResultCache, run: Run
) -> tuple[Any, Took, str | None]:
    """A trained model, what it took, and whether a bundle had it."""
    model, where = spec.make(), _where(spec, run)
    if not spec.learns:
        return model, {"train_seconds": 0.0, "peak_mb": None}, None
    if bundle is not None and (found := trained_so(bundle, model, seed, train, **where)) is not None:
        return *found, "bundle"
    model, took, reused = _learned(spec, model, seed, train, shelf, run)
    if bundle is not None:
        save_bundle(model, bundle, baskets_hash=train.hash, seed=seed, notes={**took, **where})
    return model, took, reused


def _where(spec: ModelSpec, run: Run) -> dict[str, str]:
    """The device where that makes another training of it; nothing for the CPU."""
    device = spec.make().fit_device(run) if spec.ours and spec.learns else run.device
    return {"device": device} if spec.learns and device == "gpu" else {}


def _learned(
    spec: ModelSpec, model: Any, seed: int, train: Baskets, shelf: ResultCache, run: Run
) -> tuple[Any, Took, str | None]:
    """The model trained, or given what another one learned that learns the same; then it took what that took.

    Only our own classes are known to learn the same: a subclass from elsewhere may learn in its own way.
    """
    key = spec.learning, seed
    shares = spec.ours and spec.learning in shelf.shared
    if shares and key in shelf.learned:
        other, took = shelf.learned[key]
        return type(model).from_arrays(model.parameters, other.catalog, other.arrays()), took, "arrays"
    work: Callable[[], Any] = lambda: model.fit(train, run)  # noqa: E731 (a name for the type)
    cost = measured(work)
    took = {"train_seconds": cost.seconds, "peak_mb": cost.peak_mb}
    if shares:
        shelf.learned[key] = model, took
    return model, took, None


def trained_so(
    bundle: Path, wanted: Model, seed: int, train: Baskets, device: str = "cpu"
) -> tuple[Model, Took] | None:
    """The model in the bundle and what it took, if it was trained so; None otherwise."""
    if not bundle.exists():
        return None
    try:
        manifest = read_manifest(bundle, verify=False)
        same = (manifest.model, manifest.data_hash, manifest.seed) == (wanted.name, train.hash, seed)
        same = same and manifest.notes.get("device", "cpu") == device
        if not same or manifest.parameters != json.loads(json.dumps(wanted.parameters.to_dict())):
            return None
        model = load_bundle(bundle)
    except BundleError as error:
        log.warning("trained anew: %s", printable(error, limit=300))
        return None
    log.info("%s: found in %s", wanted.name, printable(bundle))
    return model, {name: manifest.notes.get(name) for name in ("train_seconds", "peak_mb")}


def _write_answers(path: Path, key: dict[str, Any], training: TrainingResult) -> None:
    """The arrays, then the record that vouches for them: cut off in between, there is no record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays, record = path.with_suffix(path.suffix + ".safetensors"), path.with_suffix(path.suffix + ".json")
    record.unlink(missing_ok=True)
    save_file(training.answers.arrays(), arrays)
    costs = {name: getattr(training, name) for name in COSTS}
    content = json.dumps({"key": key, "sha256": _sha256(arrays), **costs}, indent=2, sort_keys=True) + "\n"
    beside = record.with_name(f".{record.name}.writing")
    beside.write_text(content)
    os.replace(beside, record)


def _read_answers(path: Path, key: dict[str, Any]) -> TrainingResult | None:
    arrays, record = path.with_suffix(path.suffix + ".safetensors"), path.with_suffix(path.suffix + ".json")
    try:
        about = json.loads(record.read_text())
        if about["key"] != key or about["sha256"] != _sha256(arrays):
            return None
        with safe_open(arrays, framework="numpy") as tensors:
            found = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 (not a mapping)
        return TrainingResult(ModelRanks.from_arrays(found), **{name: about[name] for name in COSTS}, reused="answers")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        log.warning("answered anew: cannot use %s (%s)", printable(record), printable(error))
        return None


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
