"""Models of a leaderboard: ours by name, external classes by address, external scores by file."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neatrec.bundle.manifest import file_record
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import ParameterError, SourceError, bad_file, must_be
from neatrec.models import MODEL_NAMES, Model, make_model, model_class
from neatrec.text import printable
from neatrec.training.train import ranked_within, weighted_by

KIND = "external"
NEEDED = ("fit", "score", "score_all")


def external_class(address: str) -> Callable[[], Any]:
    """The class at `pkg.mod:Class`; it must keep as much of the contract of `Model` as is used here."""
    module, colon, attribute = address.partition(":")
    if not colon or not module or not attribute:
        raise must_be("model", "a model's name or an address pkg.mod:Class", address)
    try:
        found: Any = getattr(import_module(module), attribute)
    except ImportError as error:
        raise ParameterError(
            f"cannot import the model {printable(address)}: {printable(error)}",
            hint="Its package must be installed, or its folder on PYTHONPATH.",
        ) from error
    except AttributeError as error:
        raise ParameterError(f"module {printable(module)} has no {printable(attribute)!r}") from error
    missing = [name for name in NEEDED if not callable(getattr(found, name, None))]
    if not isinstance(found, type) or missing:
        raise ParameterError(
            f"{printable(address)} must be a class with {', '.join(NEEDED)}, it has no {', '.join(missing) or 'type'}",
            hint="Derive it from neatrec.models.Model.",
        )
    return found


class ExternalScores:
    """Scores that were computed elsewhere: a pair that is not among them scores lower than every pair that is."""

    kind = KIND

    def __init__(
        self, name: str, catalog: Catalog, query: npt.NDArray[Any], item: npt.NDArray[Any], score: Any
    ) -> None:
        self.name = name
        self.catalog = catalog
        key = query.astype(np.int64) * len(catalog) + item
        order = np.argsort(key, kind="stable")
        self._key, self._score = key[order], np.asarray(score, dtype=np.float64)[order]
        if len(key) and (np.diff(self._key) == 0).any():
            twice = int(self._key[np.flatnonzero(np.diff(self._key) == 0)[0]])
            pair = [printable(catalog.id(code), 40) for code in divmod(twice, len(catalog))]
            raise ParameterError(f"the scores of {printable(name)!r} give the pair {pair[0]}, {pair[1]} twice")

    @classmethod
    def read(cls, name: str, file: str | Path, catalog: Catalog) -> ExternalScores:
        """Scores from a Parquet file with the columns query, item (ids) and score."""
        try:
            table = pq.read_table(file)
        except (OSError, pa.ArrowException) as error:
            message = f"cannot read scores from {printable(file)}: {printable(error)}"
            raise SourceError(message, file=str(file)) from error
        missing = [column for column in ("query", "item", "score") if column not in table.column_names]
        if missing:
            hint = f"Found: {', '.join(printable(column, 40) for column in table.column_names)}."
            trouble = f"must have the columns query, item and score, it has no {', '.join(missing)}"
            raise bad_file(file, trouble, hint=hint)
        query, item = (_codes(table[column], catalog, file, column) for column in ("query", "item"))
        try:
            return cls(name, catalog, query, item, _numbers(table["score"], file))
        except ParameterError as error:
            raise SourceError(error.message, file=str(file)) from error

    def score(self, queries: npt.NDArray[Any], items: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """The scores of these pairs, -inf where the file has none."""
        keys = np.asarray(queries).astype(np.int64) * len(self.catalog) + items
        if not len(self._key):
            return np.full(len(keys), -np.inf)
        place = np.minimum(np.searchsorted(self._key, keys), len(self._key) - 1)
        return np.where(self._key[place] == keys, self._score[place], -np.inf)

    def score_all(self, queries: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """The scores of all items for each query, -inf where the file has none, shape (queries, items)."""
        size = len(self.catalog)
        out = np.full((len(queries), size), -np.inf)
        for row, query in enumerate(np.asarray(queries).tolist()):
            first, last = np.searchsorted(self._key, [query * size, (query + 1) * size])
            out[row, self._key[first:last] - query * size] = self._score[first:last]
        return out


def _codes(values: pa.ChunkedArray, catalog: Catalog, file: str | Path, column: str) -> npt.NDArray[np.int64]:
    ids = string_array(values)
    codes = pc.index_in(ids, catalog.ids)
    if codes.null_count:
        first = codes.is_null().index(True).as_py()
        trouble = f"{printable(ids[first].as_py(), 40)!r} is no item of the baskets{_more(codes.null_count)}"
        hint = "Ids are compared as text: they must be written as in the baskets."
        raise bad_file(file, trouble, line=first + 1, unit="row", column=column, hint=hint)
    return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64)


def _numbers(column: pa.ChunkedArray, file: str | Path) -> npt.NDArray[np.float64]:
    try:
        values = np.asarray(column.cast(pa.float64()).to_numpy())
    except pa.ArrowException as error:
        raise bad_file(file, f"must hold numbers: {printable(error)}", column="score") from error
    bad = np.flatnonzero(np.isnan(values))  # nulls too: they become NaN
    if len(bad):
        hint = "Leave pairs without a score out of the file."
        trouble = f"must be a number{_more(len(bad))}"
        raise bad_file(file, trouble, line=int(bad[0]) + 1, unit="row", column="score", hint=hint)
    return values


def _more(rows: int) -> str:
    return "" if rows == 1 else f" (the first of {rows:,} such rows)"


def parse_named_file(text: str) -> tuple[str, Path]:
    """`NAME=FILE` as a command line gives it.

    >>> parse_named_file("theirs=scores.parquet")[0]
    'theirs'
    """
    name, equals, file = text.partition("=")
    if not equals or not name.strip() or not file.strip():
        raise must_be("scores", "of the form NAME=FILE.parquet", text)
    return name.strip(), Path(file.strip())


Models = Sequence[str | Model] | Mapping[str, str | Model]
"""Models of a leaderboard, by the name of their row where given as a mapping."""


@dataclass(frozen=True)
class ModelSpec:
    """One row of the table."""

    name: str
    kind: str
    make: Callable[[], Any] = field(compare=False)
    """A model that has not learned yet; scores are there at once."""
    identity: str
    """What makes it this model: two specs with the same identity, data and seed give the same ranks."""
    learning: str = ""
    """What decides its fit: of models that share it one is trained, and the others take its arrays."""
    devices: tuple[str, ...] = ("cpu", "gpu")
    """Where it can learn."""
    learns: bool = True
    """Whether it is trained, and so may come out differently for another seed."""
    ours: bool = True
    """Whether a bundle can hold it."""


def model_specs(
    models: Models | None,
    scores: Mapping[str, str | Path],
    train: Baskets,
    strata: Sequence[str] = (),
    half_life: Any = None,
) -> tuple[tuple[ModelSpec, ...], dict[str, str]]:
    """The specs, trained within `strata` and with a `half_life` as `train` does, and the models left out with the
    reason.

    A model is a name, `name@preset`, an address `pkg.mod:Class`, or a `Model` (its parameters count, not what it may
    have learned); in a mapping, rows have names of their own. Without any: all of ours that can learn from the baskets.
    """
    skipped: dict[str, str] = {}
    chosen: list[ModelSpec] = []
    rows: Models = default_rows() if models is None else models
    named = rows.items() if isinstance(rows, Mapping) else ((None, model) for model in rows)
    for name, model in named:
        spec = _model_spec(model, strata, half_life)
        spec = spec if name is None else replace(spec, name=name)
        if half_life is not None and not hasattr(getattr(spec.make(), "parameters", None), "half_life"):
            skipped[spec.name] = "it cannot weigh baskets by their age"
        elif models is None and train.users is None and getattr(spec.make(), "needs_users", False):
            skipped[spec.name] = "it learns from users, and the users of these baskets are not known"
        else:
            chosen.append(spec)
    chosen += [_scores(name, file, train) for name, file in scores.items()]
    names = [spec.name for spec in chosen]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(
                f"two models of the leaderboard are called {printable(name)!r}",
                hint="Each row needs a name of its own.",
            )
    if not chosen:
        left_out = "; ".join(f"{printable(name)} is left out: {reason}" for name, reason in skipped.items())
        raise ParameterError("a leaderboard needs at least one model", hint=f"{left_out}." if left_out else None)
    return tuple(chosen), skipped


def default_rows() -> list[str]:
    """Every model of ours, and each of its further goals: those share one training."""
    goals = {name: model_class(name).goals[1:] for name in MODEL_NAMES}
    return [row for name in MODEL_NAMES for row in (name, *(f"{name}@{goal}" for goal in goals[name]))]


def _model_spec(model: str | Model, strata: Sequence[str], half_life: Any) -> ModelSpec:
    def parameters_of(made: Model) -> Any:
        weighs = hasattr(made.parameters, "half_life")
        return ranked_within(weighted_by(made, half_life) if weighs else made.parameters, strata)

    if isinstance(model, Model):
        return _ours_or_outside(model.name, type(model), parameters_of(model))
    if ":" in model:
        return _outside(model)
    name, _, preset = model.partition("@")
    made = make_model(name, preset=preset or None)
    return _ours_or_outside(model, type(made), parameters_of(made))


def _ours_or_outside(name: str, kind: type[Model], parameters: Any) -> ModelSpec:
    def make() -> Model:
        return kind(parameters)

    sample = make()
    ours = type(sample).__module__.startswith("neatrec.models")
    code = [] if ours else [_source(type(sample))]
    learning = _identity(*sample.fit_key())
    identity = _identity(sample.name, parameters.to_dict(), *code)
    return ModelSpec(name, sample.kind, make, identity, learning, tuple(sample.devices), ours=ours)


def _outside(address: str) -> ModelSpec:
    found = external_class(address)
    sample = found()
    name = str(getattr(sample, "name", "") or address)
    parameters: Any = getattr(sample, "parameters", None)
    described = parameters.to_dict() if hasattr(parameters, "to_dict") else repr(parameters)
    identity = _identity(address, described, _source(found))
    devices = tuple(getattr(sample, "devices", ("cpu", "gpu")))
    return ModelSpec(name, str(getattr(sample, "kind", KIND)), found, identity, devices=devices, ours=False)


def _scores(name: str, file: str | Path, train: Baskets) -> ModelSpec:
    scores = ExternalScores.read(name, file, train.catalog)
    identity = _identity("scores", file_record(Path(file)).sha256)
    return ModelSpec(name, KIND, lambda: scores, identity, learns=False, ours=False)


def _source(kind: Any) -> str:
    """The source of a class: an edited class is another model."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""


def _identity(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()
