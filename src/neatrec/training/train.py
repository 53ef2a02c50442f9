"""One run of `neatrec train`: from baskets to a bundle that is whole or not there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from neatrec.bundle import BundleLock, Manifest, load_bundle, read_manifest, save_bundle, stream_hash
from neatrec.bundle.manifest import file_record
from neatrec.bundle.store import parameters_of
from neatrec.bundle.versions import bundle_in
from neatrec.cooccurrence import counting_engine
from neatrec.cooccurrence.recency import half_life_on_spark, parse_half_life
from neatrec.cooccurrence.strata import SIZE, parse_strata, usable_strata
from neatrec.data.baskets import Baskets, BasketStream, as_shards
from neatrec.data.splits import validation_split
from neatrec.errors import ParameterError, must_be
from neatrec.io.shards import ShardFolder
from neatrec.io.vectors import read_vectors
from neatrec.models import make_model
from neatrec.models.base import Model
from neatrec.models.embeddings.model import EmbeddingModel
from neatrec.models.embeddings.synchronize import Synchronizer
from neatrec.models.embeddings.warm_start import check_warm_start
from neatrec.models.run import Progress, Run
from neatrec.serving import ServingTable, save_indexed
from neatrec.serving.approximate import check_approximate
from neatrec.serving.build import K, table_device
from neatrec.serving.files import NOTE
from neatrec.text import plural, printable
from neatrec.training.drift import drift
from neatrec.training.measure import measured
from neatrec.training.streaming import StreamOptions, validation_parts

log = logging.getLogger(__name__)

DEFAULT_MODEL = "bayes"
"""The best by the paper's labels and on the simulator; docs/explanation/evaluation.md says when to choose another."""


@dataclass(frozen=True)
class ModelChoice:
    """Which model with which parameters."""

    model: str | None = None
    preset: str | None = None
    settings: tuple[str, ...] = ()
    """KEY=VALUE texts, which win over `parameters`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def updated(self, other: ModelChoice) -> ModelChoice:
        """This choice, overridden by what `other` sets."""
        return replace(
            self, model=other.model or self.model, preset=other.preset or self.preset, settings=other.settings
        )

    def make(self) -> Model:
        from neatrec.models.parameters import parse_settings

        if self.model is None:
            log.debug("using model %s, the default; --model chooses another", DEFAULT_MODEL)
        chosen = {**self.parameters, **dict(parse_settings(self.settings))}
        return make_model(self.model or DEFAULT_MODEL, chosen, preset=self.preset)


@dataclass(frozen=True)
class WarmStart:
    """The bundle that a training starts from."""

    model: Model
    version: str

    @classmethod
    def of(cls, bundle: Path) -> WarmStart:
        bundle = bundle_in(bundle)
        return cls(load_bundle(bundle), read_manifest(bundle, verify=False).content_hash)

    def updated(self, choice: ModelChoice) -> ModelChoice:
        """`choice`; where it names no model: this one and, unless a preset is named, its parameters but `epochs`."""
        if choice.model is not None:
            return choice
        if choice.preset is not None:
            return replace(choice, model=self.model.name)
        known = {name: value for name, value in self.model.parameters.to_dict().items() if name != "epochs"}
        return replace(choice, model=self.model.name, parameters={**known, **choice.parameters})

    def for_model(self, model: Model) -> WarmStart | None:
        """Itself, or None for a model that needs no warm start."""
        if isinstance(model, EmbeddingModel):
            check_warm_start(self.model, model)
            return self
        log.info("ignoring the warm start: model %s counts all baskets", model.name)
        return None

    def summary(self, model: Model) -> dict[str, Any]:
        """The notes in the manifest: the older bundle and the drift from it."""
        found = drift(self.model, model)
        if found.top10_changed is None or found.cosine_aligned is None:
            log.warning("warm start without effect: no item is in both bundles")
        else:
            log.info(
                "compared with the older bundle: %.1f %% of top-10 answers changed, mean cosine %.3f, %s new, %s gone",
                100 * found.top10_changed,
                found.cosine_aligned,
                plural(found.items_new, "item"),
                f"{found.items_gone:,}",
            )
        return {"from": self.version, "epochs": len(model.fit_info()["losses"]), "drift": found.to_json()}


@dataclass(frozen=True)
class TrainOptions:
    """How to train, apart from which model: the options of `neatrec train`."""

    device: str = "auto"
    threads: int | None = None
    seed: int = 0
    reproducible: bool = False
    resume: bool = False
    """Continue from the checkpoint beside the bundle, if there is one."""
    validation_share: float = 0.0
    """Share of the baskets that are held out: training stops early when their loss no longer falls."""
    keep_users: bool = False
    strata: Sequence[str] | None = None
    """Within what evidence is measured, and what must not make a pair come first: basket_size, month, any attribute.
    None: basket size, month and store, as far as the baskets have them; (): none."""
    half_life: str | float | None = None
    """A basket counts half after so many days, or "90d", "12w": in ranking and evidence. None: all count the same."""
    index: bool = True
    """Write the serving table, made of the training baskets."""
    ann: bool = False
    """Make the serving table approximate."""
    k: int | None = None
    """Answers kept per item in the serving table; None: the default."""
    vectors: Path | None = None
    """A Parquet file of item vectors (columns id, vector), for items that few or no baskets hold."""
    warm_start: Path | None = None
    """A bundle to start from; its model and parameters are the defaults."""
    engine: str = "auto"
    """What counts pairs: auto, memory, disk or spark. The model is the same."""
    memory_limit: int | None = None
    """Bytes for counting; None: a share of what is free."""
    sync_every: int | None = None
    """Baskets per process between two synchronizations, where several processes train."""
    progress: Callable[[Progress], None] | None = None
    stopping: Callable[[], AbstractContextManager[Callable[[], bool] | None]] = nullcontext
    """A context around the fit that gives `Run.stop`."""

    def __post_init__(self) -> None:
        if not 0 <= self.validation_share < 1:
            raise must_be("validation", "a share between 0 and 1", self.validation_share)
        if self.ann and not self.index:
            raise must_be("ann", "left out where no table is written", self.ann)
        if self.k is not None and (self.k < 1 or not self.index):
            raise must_be("k", "at least 1, and left out where no table is written", self.k)
        object.__setattr__(self, "strata", parse_strata(self.strata))
        object.__setattr__(self, "half_life", parse_half_life(self.half_life))


def train_bundle(
    read: Callable[[], Baskets] | StreamOptions,
    out: Path,
    choice: ModelChoice,
    options: TrainOptions | None = None,
    synchronizer: Synchronizer | None = None,
) -> dict[str, Any]:
    """Train the chosen model, write the bundle `out` and return a report; an older bundle stays until then.

    The options are checked and the bundle is locked before the baskets are read. `read` returns them all, or describes
    a stream of shards of which one is in memory at a time. With `synchronizer` this is one of several processes that
    all call this function alike; the first one writes the bundle, and the others return {}.
    """
    options = TrainOptions() if options is None else options
    start = None if options.warm_start is None else WarmStart.of(options.warm_start)
    if start is not None:
        choice = start.updated(choice)
    model, lock = choice.make(), BundleLock(out)
    if start is not None:
        start = start.for_model(model)
    vectors = None if options.vectors is None else read_vectors(options.vectors)
    run = Run(
        rng=options.seed,
        device=options.device,
        threads=options.threads,
        reproducible=options.reproducible,
        progress=options.progress,
        checkpoints=lock.checkpoints,
        resume=options.resume,
        warm_start=None if start is None else start.model,
        vectors=None if vectors is None else vectors.vectors,
        synchronizer=synchronizer,
    )
    model.parameters = weighted_by(model, options.half_life)
    _check(model, run, read, options)
    is_main = synchronizer is None or synchronizer.is_main
    with (
        lock if is_main else nullcontext(),
        counting_engine(options.engine, options.memory_limit),
        _open_baskets(read, out, synchronizer) as baskets,
    ):
        validation: BasketStream | None = None
        if options.validation_share:
            baskets, validation = _split(baskets, options)
        if vectors is not None:
            run = replace(run, vectors=vectors.of_catalog(next(iter(as_shards(baskets))).catalog))
        strata = usable_strata(as_shards(baskets), options.strata)[0]
        model.parameters = ranked_within(model.parameters, strata)
        with options.stopping() as stop:
            fit_run = replace(run, validation=validation, stop=stop)
            cost = measured(lambda: model.fit(baskets, fit_run))
        if not is_main:
            return {}
        notes: dict[str, Any] = {} if start is None else {"warm_start": start.summary(model)}
        if options.vectors is not None:
            notes["vectors"] = file_record(options.vectors).sha256
        manifest = _save(model, out, baskets, replace(options, strata=strata), notes)
        lock.remove_checkpoints()
    log.debug("wrote bundle %s", printable(out))
    learned = model.fit_info()
    table = ServingTable.open(out, verify=False) if options.index else None
    return {
        "bundle": str(out),
        "model": model.name,
        "kind": model.kind,
        "train_seconds": cost.seconds,
        "peak_mb": round(cost.peak_mb, 1),
        "seed": options.seed,
        "data_hash": manifest.data_hash,
        "content_hash": manifest.content_hash,
        **({} if table is None else {"pairs": len(table.with_evidence()[0]), "coverage": table.coverage()}),
        **({"goal": model.parameters.goal} if model.goals else {}),
        **{name: learned[name] for name in ("goals", "comparison") if "comparison" in learned},
        **notes,
    }


def trained_otherwise(bundle: Path, baskets: Baskets, choice: ModelChoice, options: TrainOptions) -> str | None:
    """What about a bundle is not as these choices make it: "--model neat", for one; None: nothing.

    Which baskets it was trained on does not matter, but the strata of other baskets are not compared.
    """
    manifest = read_manifest(bundle)
    strata = usable_strata(as_shards(baskets), options.strata)[0]
    model, table = choice.make(), manifest.notes.get(NOTE)
    model.parameters = weighted_by(model, options.half_life)
    chosen, found = ranked_within(model.parameters, strata).to_dict(), parameters_of(manifest, bundle).to_dict()
    facts: dict[str, tuple[Any, Any]] = {
        "--model": (manifest.model, model.name),
        "--seed": (manifest.seed, options.seed),
        "--keep-users": (manifest.keeps_users, options.keep_users),
        "--vectors": (manifest.notes.get("vectors", "none"), "none"),
        "--warm-start": ("warm_start" in manifest.notes, False),
        "serving table": ("none" if table is None else "approximate" if "recall" in table else "exact", "exact"),
    }
    if table is not None:
        facts["-k"] = table["k"], K if options.k is None else options.k
        facts["--strata"] = ",".join(table["evidence"].get("strata", ())) or "none", ",".join(strata) or "none"
    if manifest.data_hash != stream_hash(baskets):
        facts.pop("--strata", None)
        chosen.pop("strata", None)
    if manifest.model == model.name:
        if "half_life" in chosen:
            days = found.get("half_life"), chosen.pop("half_life")
            was, now = ("none" if each is None else f"{each:g}d" for each in days)
            facts["--half-life"] = was, now
        facts |= {f"--set {name}": (found.get(name), value) for name, value in chosen.items()}
    return next((f"{name} {printable(was)}" for name, (was, now) in facts.items() if was != now), None)


def ranked_within(parameters: Any, strata: Sequence[str]) -> Any:
    """The parameters of a model that compares counts with expected ones: within month and store, unless it has its own.

    The basket size is left to the evidence: taken off the counts, it made rankings of held-out baskets worse.
    """
    names = [name for name in strata if name != SIZE]
    if names and getattr(parameters, "strata", "") is None:
        return replace(parameters, strata=",".join(names))
    return parameters


def weighted_by(model: Model, half_life: Any) -> Any:
    """The parameters of a model whose baskets count half after so many days; a model that cannot weigh is refused."""
    if half_life is None:
        return model.parameters
    if not hasattr(model.parameters, "half_life"):
        raise ParameterError(
            f"`half_life` must be none for model {printable(model.name)!r}, which cannot weigh baskets",
            hint=f"Use a model that counts pairs, such as {DEFAULT_MODEL} or shrunk-lift-tuned.",
            argument="half_life",
        )
    return replace(model.parameters, half_life=half_life)


def _check(model: Model, run: Run, read: Callable[[], Baskets] | StreamOptions, options: TrainOptions) -> None:
    """Refuse options that the model cannot honor, before any basket is read."""
    if options.strata and isinstance(read, StreamOptions):
        raise ParameterError(
            "`strata` need all baskets in memory at once, which a stream avoids",
            hint="Train without --stream, or leave --strata out.",
            argument="strata",
        )
    if getattr(model.parameters, "half_life", None) is not None and options.engine == "spark":
        raise half_life_on_spark()
    model.check_run(run, validation=options.validation_share > 0)
    if options.ann:
        check_approximate(model)
    if options.keep_users and not model.has_user_arrays():
        raise ParameterError(
            f"`keep_users` is of no use to model {model.name!r}, which learns nothing about users",
            hint="Leave keep_users out.",
            argument="keep_users",
        )
    if run.synchronizer is None:
        return
    if not isinstance(model, EmbeddingModel):
        raise ParameterError(
            f"model {model.name!r} cannot be trained by several processes: it counts",
            hint="Start it without torchrun; --engine spark counts on a cluster.",
            argument="model",
        )
    if not isinstance(read, StreamOptions):
        raise must_be("read", "a StreamOptions where several processes train", type(read).__name__)


@contextmanager
def _open_baskets(
    read: Callable[[], Baskets] | StreamOptions, out: Path, synchronizer: Synchronizer | None
) -> Iterator[BasketStream]:
    if isinstance(read, StreamOptions):
        with read.shards(out, synchronizer) as shards:
            yield shards
    else:
        yield read()


def _split(baskets: BasketStream, options: TrainOptions) -> tuple[BasketStream, BasketStream]:
    share, seed = options.validation_share, options.seed
    if isinstance(baskets, Baskets):
        return validation_split(baskets, share=share, seed=seed)
    return validation_parts(cast("ShardFolder", baskets), share, seed)


def _save(model: Model, out: Path, baskets: BasketStream, options: TrainOptions, notes: dict[str, Any]) -> Manifest:
    keep_users = options.keep_users and model.user_ids is not None
    if options.keep_users and not keep_users:
        log.warning("keeping no users: the baskets name none")
    if not options.index:
        return save_bundle(
            model, out, baskets_hash=stream_hash(baskets), seed=options.seed, keep_users=keep_users, notes=notes
        )
    return save_indexed(
        model,
        out,
        baskets,
        k=K if options.k is None else options.k,
        strata=options.strata,
        ann=options.ann,
        threads=options.threads,
        device=table_device(model, options.device, ann=options.ann, reproducible=options.reproducible),
        seed=options.seed,
        keep_users=keep_users,
        notes=notes,
    )
