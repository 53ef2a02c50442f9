"""Trainings of a leaderboard, cached under the hash of their inputs."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from neatrec.bundle import load_bundle, read_manifest, save_bundle
from neatrec.bundle.manifest import file_record
from neatrec.data.baskets import Baskets
from neatrec.errors import BundleError
from neatrec.evaluation.ranks import resolve_ranking_device
from neatrec.evaluation.task import EvaluationTask, ModelRanks, add_label_free, evaluate_model
from neatrec.leaderboard.model_specs import ModelSpec
from neatrec.leaderboard.results_json import write_json
from neatrec.models import Model, Run
from neatrec.text import printable
from neatrec.training.measure import measured

log = logging.getLogger(__name__)

FORMAT = 4
Cost = dict[str, float | None]
COSTS = ("train_seconds", "peak_mb", "rank_seconds", "label_free_seconds")


@dataclass(frozen=True)
class TrainingResult:
    """One training of one model with one seed, its ranks and its cost."""

    ranks: ModelRanks
    train_seconds: float | None
    """None for a bundle that does not record it."""
    peak_mb: float | None
    rank_seconds: float
    """Seconds for the ranks of the labels."""
    label_free_seconds: float = 0.0
    """Seconds for the measures that need no labels."""
    reused: str | None = None
    """What came from the cache: its "ranks", its "bundle", the "arrays" of a model with the same fit; None: trained."""

    @property
    def own_seconds(self) -> float:
        """Seconds of training, which a model that took the arrays of another did not need."""
        return 0.0 if self.reused == "arrays" or self.train_seconds is None else self.train_seconds


@dataclass(frozen=True)
class ResultCache:
    """Folder of trainings: `bundles/NAME-seedN` (the model) and `ranks/NAME-seedN` (its ranks)."""

    folder: Path | None
    task_key: str
    """A hash of the task: ranks of another task are not reused."""
    shared: frozenset[str] = frozenset()
    """Fits that several models share (`ModelSpec.learning`)."""
    learned: dict[tuple[str, int], tuple[Model, Cost]] = field(default_factory=dict)
    """Models fitted so far, by shared fit and seed."""

    def keep_only(self, learnings: set[str]) -> None:
        """Drop all fits but these: counts of a large shop are gigabytes."""
        for key in [key for key in self.learned if key[0] not in learnings]:
            del self.learned[key]

    def bundle(self, spec: ModelSpec, seed: int) -> Path | None:
        kept = self.folder is not None and spec.ours and spec.learns
        return bundle_of(self.folder, spec.name, seed) if kept and self.folder else None

    def ranks_file(self, spec: ModelSpec, seed: int) -> Path | None:
        return self.folder / "ranks" / _file_name(spec.name, seed) if self.folder else None


def bundle_of(folder: Path, name: str, seed: int) -> Path:
    """Where the leaderboard in `folder` keeps this training."""
    return folder / "bundles" / _file_name(name, seed)


def _file_name(name: str, seed: int) -> str:
    safe = re.sub(r"[^A-Za-z0-9._-]", "-", name).strip(".") or "model"
    # names that differ only in what was replaced stay apart
    mark = "" if safe == name else "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{safe}{mark}-seed{seed}"


def task_key(task: EvaluationTask, options: dict[str, Any]) -> str:
    """A hash of everything that decides the task."""
    parts = [FORMAT, task.train_hash, task.test_hash, task.labels.hash, options]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class FitContext:
    """What a training needs in addition to the model and the seed."""

    train: Baskets
    task: EvaluationTask
    cache: ResultCache
    run: Run


def fit_and_evaluate(spec: ModelSpec, seed: int, context: FitContext, *, label_free: bool = True) -> TrainingResult:
    """The result of a model trained with `seed`: cached ranks, or those of a cached bundle or of a new training."""
    task, cache, run = context.task, context.cache, context.run
    where = _device_note(spec, run)
    key = {"identity": spec.identity, "task": cache.task_key, "seed": seed, "label_free": label_free, **where}
    file = cache.ranks_file(spec, seed)
    if file is not None and (found := _read_ranks(file, key)) is not None:
        return found
    model, cost, reused = _fitted(spec, seed, context)
    device = resolve_ranking_device(model, run.device)
    ranked = measured(lambda: evaluate_model(model, task, label_free=False, device=device))
    free = measured(lambda: add_label_free(model, task, ranked.result, device=device) if label_free else ranked.result)
    training = TrainingResult(free.result, cost["train_seconds"], cost["peak_mb"], ranked.seconds, free.seconds, reused)
    if file is not None:
        _write_ranks(file, key, training)
    return training


def _fitted(spec: ModelSpec, seed: int, context: FitContext) -> tuple[Any, Cost, str | None]:
    """A trained model, its cost, and what of it came from the cache."""
    model, where = spec.make(), _device_note(spec, context.run)
    if not spec.learns:
        return model, {"train_seconds": 0.0, "peak_mb": None}, None
    bundle = context.cache.bundle(spec, seed)
    if bundle is not None and (found := load_training(bundle, model, seed, context.train, **where)) is not None:
        return *found, "bundle"
    model, cost, reused = _fit_or_share(spec, model, seed, context)
    if bundle is not None:
        save_bundle(model, bundle, baskets_hash=context.train.hash, seed=seed, notes={**cost, **where})
    return model, cost, reused


def _device_note(spec: ModelSpec, run: Run) -> dict[str, str]:
    """The device where the training depends on it; empty for the CPU."""
    device = spec.make().fit_device(run) if spec.ours and spec.learns else run.device
    return {"device": device} if spec.learns and device == "gpu" else {}


def _fit_or_share(spec: ModelSpec, model: Any, seed: int, context: FitContext) -> tuple[Any, Cost, str | None]:
    """The model trained, or given the arrays and the cost of a model with the same fit.

    Only our own classes are known to share a fit: a subclass from elsewhere may learn in its own way.
    """
    key = spec.learning, seed
    cache = context.cache
    shares = spec.ours and spec.learning in cache.shared
    if shares and key in cache.learned:
        other, cost = cache.learned[key]
        return type(model).from_arrays(model.parameters, other.catalog, other.arrays()), cost, "arrays"
    fit: Callable[[], Any] = lambda: model.fit(context.train, context.run)  # noqa: E731 (a name for the type)
    fitted = measured(fit)
    cost = {"train_seconds": fitted.seconds, "peak_mb": fitted.peak_mb}
    if shares:
        cache.learned[key] = model, cost
    return model, cost, None


def load_training(
    bundle: Path, like: Model, seed: int, train: Baskets, device: str = "cpu"
) -> tuple[Model, Cost] | None:
    """The model in the bundle and its cost, if parameters, baskets, seed and device are these; None otherwise."""
    if not bundle.exists():
        return None
    try:
        manifest = read_manifest(bundle, verify=False)
        same = (manifest.model, manifest.data_hash, manifest.seed) == (like.name, train.hash, seed)
        same = same and manifest.notes.get("device", "cpu") == device
        if not same or manifest.parameters != json.loads(json.dumps(like.parameters.to_dict())):
            return None
        model = load_bundle(bundle)
    except BundleError as error:
        log.warning("training again: %s", printable(error, limit=300))
        return None
    log.info("%s: loaded from %s", like.name, printable(bundle))
    return model, {name: manifest.notes.get(name) for name in ("train_seconds", "peak_mb")}


def _write_ranks(path: Path, key: dict[str, Any], training: TrainingResult) -> None:
    """Write the arrays, then the record with their hash: an interrupted write leaves no record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays, record = path.with_suffix(path.suffix + ".safetensors"), path.with_suffix(path.suffix + ".json")
    record.unlink(missing_ok=True)
    save_file(training.ranks.arrays(), arrays)
    costs = {name: getattr(training, name) for name in COSTS}
    write_json(record, {"key": key, "sha256": file_record(arrays).sha256, **costs})


def _read_ranks(path: Path, key: dict[str, Any]) -> TrainingResult | None:
    arrays, file = path.with_suffix(path.suffix + ".safetensors"), path.with_suffix(path.suffix + ".json")
    try:
        record = json.loads(file.read_text())
        if record["key"] != key or record["sha256"] != file_record(arrays).sha256:
            return None
        with safe_open(arrays, framework="numpy") as tensors:
            found = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 (not a mapping)
        return TrainingResult(ModelRanks.from_arrays(found), **{name: record[name] for name in COSTS}, reused="ranks")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        log.warning("ranking again: cannot use %s (%s)", printable(file), printable(error))
        return None
