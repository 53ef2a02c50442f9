"""Bundles whose hashes are right and whose content is not: refused by name, or all answers are sound."""

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file
from starlette.testclient import TestClient

from helpers.service_bundle import write_bundle
from neatrec.bundle import load_bundle
from neatrec.bundle.manifest import NAME, file_record
from neatrec.errors import BundleError
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings
from neatrec.serving import PairTable
from neatrec.serving.files import write_columns

MODELS: dict[str, dict[str, Any]] = {
    "odds": {},
    "ease": {"min_count": 1},
    "shrunk-lift-tuned": {},
    "neat": {"dim": 8, "epochs": 2},
}
STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**40, 1e308, "", "text", "../../etc/passwd"),
    *([], [1], {}, {"a": [None]}, KeyError),
)
"""In place of a value in JSON; KeyError: the entry is gone."""
HOW = (
    *("gone", "empty", "short", "long", "other-type", "flat"),
    *("lowest", "highest", "negative", "nan", "inf", "shuffled"),
)
"""Changes to a column or an array."""
ITEMS = ("100", "200", "305", "900", "901")
"""Of a planted pair, a plain one, one never bought, one without category."""
PATHS = (
    *("/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/model", "/v1/items?q=sa"),
    *("/quality", "/pairs", "/v1/pairs.csv", "/cart?item=100&item=201"),
    *(f"/v1/complements?item={item}&k=60&min_evidence=guess" for item in ITEMS),
    *(f"/v1/complements?item={item}&include=explained" for item in ITEMS),
    *(f"/item?id={item}" for item in ITEMS),
    *(f"/{page}?a={a}&b={b}" for a, b in pairwise(ITEMS) for page in ("pair", "v1/pair")),
)
Mutation = Callable[[Path], None]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("crafted")
    made = {
        name: write_bundle(folder / name, model=name, **settings)
        for name, settings in MODELS.items()
    }
    for bundle in made.values():
        sign(bundle)
        assert outcome(bundle) == "answers"
    return made


def sign(bundle: Path, change: Callable[[dict[str, Any]], None] = lambda entries: None) -> None:
    """Rewrite the manifest so that it fits the files, as a buggy or hostile writer would."""
    entries = json.loads((bundle / NAME).read_text())
    files = (file for file in bundle.rglob("*") if file.is_file() and file.name != NAME)
    records = {file.relative_to(bundle).as_posix(): vars(file_record(file)) for file in files}
    entries["files"] = records
    change(entries)
    del entries["content_hash"], entries["manifest_hash"]
    hashed = {name: value for name, value in entries.items() if name != "created"}
    entries |= {"manifest_hash": _hash(entries), "content_hash": _hash(hashed)}
    (bundle / NAME).write_text(_text(entries))


def _text(entries: dict[str, Any]) -> str:
    return json.dumps(entries, indent=2, sort_keys=True) + "\n"


def _hash(entries: dict[str, Any]) -> str:
    return hashlib.sha256(_text(entries).encode()).hexdigest()


# ---- mutations


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each value stands in JSON."""
    if path:
        yield path
    entries = dict(enumerate(value)) if isinstance(value, list) else value
    for key, part in entries.items() if isinstance(entries, dict) else ():
        yield from paths_of(part, (*path, key))


def in_manifest(path: tuple[Any, ...], value: Any, bundle: Path) -> None:
    def put(entries: Any) -> None:
        for step in path[:-1]:
            entries = entries[step]
        if value is KeyError:
            del entries[path[-1]]
        else:
            entries[path[-1]] = value

    sign(bundle, put)


def changed(values: np.ndarray[Any, Any], how: str, seed: int) -> np.ndarray[Any, Any] | None:
    """Other numbers in place of `values`; None: the column is gone."""
    rng, kind = np.random.default_rng(seed), values.dtype.kind
    if how in ("gone", "empty", "short"):
        return {"gone": None, "empty": values[:0], "short": values[:-1]}[how]
    if how == "long":
        return np.concatenate([values, values[:1]])
    if how == "other-type":
        whole = np.arange(values.size).reshape(values.shape)
        return values.astype(np.float64) if kind in "iu" else whole
    if how == "flat":
        return values.reshape(-1, 1) if values.ndim == 1 else values.ravel()
    if how == "shuffled":
        return rng.permutation(values)
    out, limits = values.copy(), np.iinfo(values.dtype) if kind in "iu" else np.finfo(values.dtype)
    strange = {"lowest": limits.min, "highest": limits.max}
    strange["negative"] = -1 if limits.min < 0 else limits.max
    if kind == "f":
        strange |= {"nan": np.nan, "inf": np.inf}
    if len(out):
        out[int(rng.integers(len(out)))] = strange.get(how, 0)
    return out


def in_arrays(name: str, how: str, seed: int, bundle: Path) -> None:
    arrays = load_file(bundle / "arrays.safetensors")
    value = changed(arrays.pop(name), how, seed)
    if value is not None:
        arrays[name] = np.ascontiguousarray(value)
    save_file(arrays, bundle / "arrays.safetensors")
    sign(bundle)


def columns_of(file: Path) -> dict[str, np.ndarray[Any, Any]]:
    batch = pa.ipc.open_file(pa.BufferReader(file.read_bytes())).get_batch(0)
    return {name: batch.column(name).to_numpy().copy() for name in batch.schema.names}


def in_table(file: str, name: str, how: str, seed: int, bundle: Path) -> None:
    """A record batch has one length: a column of another one changes them all."""
    columns = columns_of(bundle / "table" / file)
    value = changed(columns.pop(name), "gone" if how == "flat" else how, seed)
    if value is not None:
        columns = {key: np.resize(each, len(value)) for key, each in columns.items()}
        columns[name] = value
    write_columns(bundle / "table" / file, columns)
    sign(bundle)


def in_catalogue(name: str, how: str, seed: int, bundle: Path) -> None:
    file = bundle / "items.parquet"
    table = pq.read_table(file)
    position = table.column_names.index(name)
    if how == "gone":
        table = table.remove_column(position)
    elif how in ("empty", "short"):
        table = table.slice(0, 0 if how == "empty" else len(table) - 1)
    elif how == "long":
        table = pa.concat_tables([table, table.slice(0, 1)])
    elif how == "flat":
        table = table.replace_schema_metadata(None)
    else:
        numbers = pa.array(np.arange(len(table), dtype=np.float64))
        nulls = pa.nulls(len(table), table.schema.field(position).type)
        table = table.set_column(position, name, numbers if how == "other-type" else nulls)
    pq.write_table(table, file)
    sign(bundle)


def mutations(bundle: Path) -> list[tuple[str, Mutation]]:
    """Every column, array and field of a bundle, in every way above."""
    entries = json.loads((bundle / NAME).read_text())
    named = {key: value for key, value in entries.items() if not key.endswith(("files", "hash"))}
    found: list[tuple[str, Mutation]] = [
        (f"manifest {path} = {value!r}", partial(in_manifest, path, value))
        for path in paths_of(named)
        for value in STRANGE
    ]
    parts = [(in_arrays, (name,)) for name in load_file(bundle / "arrays.safetensors")]
    for file in sorted((bundle / "table").glob("*.arrow")):
        parts += [(in_table, (file.name, name)) for name in columns_of(file)]
    parts += [(in_catalogue, (name,)) for name in pq.read_schema(bundle / "items.parquet").names]
    for mutate, where in parts:
        found += [(f"{where} {how}", partial(mutate, *where, how, n)) for n, how in enumerate(HOW)]
    return found


# ---- what a bundle may do


def outcome(bundle: Path) -> str:
    """`refused`, `answers` where every address answers below 500, or what went wrong."""
    try:
        load_bundle(bundle)
        app = make_app(ServiceSettings(bundle))
    except BundleError as error:
        return "refused" if str(bundle) in str(error) else f"the refusal names no file: {error}"
    with TestClient(app, raise_server_exceptions=False) as client:
        answers = {path: client.get(path) for path in PATHS}
        cart = {"items": ["100", "201"], "k": 5}
        answers["cart"] = client.post("/v1/cart/complements", json=cart)
    # 422: the question itself is wrong, so that nothing was tried
    bad = (pair for pair in answers.items() if pair[1].status_code in (422, *range(500, 600)))
    failed = {path: answer.text[:200] for path, answer in bad}
    return f"failed: {failed}" if failed else "answers"


def crafted(bundle: Path, folder: Path, mutate: Mutation) -> Path:
    copy = Path(shutil.copytree(bundle, folder / "crafted"))
    mutate(copy)
    return copy


def try_out(bundles: dict[str, Path], folder: Path, tries: int, seed: int) -> Counter[str]:
    """The number of random mutations that were refused, and of those that answer."""
    rng = np.random.default_rng(seed)
    found = Counter[str]()
    every = [(b, *each) for b in bundles.values() for each in mutations(b)]
    for index in rng.integers(len(every), size=tries).tolist():
        bundle, what, mutate = every[index]
        copy = crafted(bundle, folder, mutate)
        result = outcome(copy)
        assert result in ("refused", "answers"), f"{bundle.name}, {what}: {result}"
        found[result] += 1
        shutil.rmtree(copy)
    return found


def without_low(bundle: Path) -> None:
    columns = columns_of(bundle / "table" / "pairs.arrow")
    columns["lift_low"].fill(np.nan)
    write_columns(bundle / "table" / "pairs.arrow", columns)
    sign(bundle)


def behead(header: bytes, bundle: Path) -> None:
    content = (bundle / "arrays.safetensors").read_bytes()
    (bundle / "arrays.safetensors").write_bytes(header + content[8:])
    sign(bundle)


def rename(name: str, bundle: Path) -> None:
    def put(entries: dict[str, Any]) -> None:
        entries["files"][name] = entries["files"].pop("items.parquet")

    sign(bundle, put)


def nest(bundle: Path) -> None:
    deep = '"notes": {"a": ' + "[" * 990 + "]" * 990 + ","
    (bundle / NAME).write_text((bundle / NAME).read_text().replace('"notes": {', deep))


def in_prior(part: str, bundle: Path) -> None:
    file = bundle / "table" / "lift_prior.json"
    value = [[1.0]] if part == "coefficients" else "x"
    file.write_text(json.dumps({**json.loads(file.read_text()), part: value}))
    sign(bundle)


HEADERS = (b"\xff" * 8, b"\x08" + bytes(7) + b'{"a": 1}', b"")
NAMES = ("a\0b", "\ud800", "a/../../x")
PRIOR = ("coefficients", "coverage")
IRREGULAR = ("pipe", "device")


def not_regular(what: str, bundle: Path) -> None:
    file = bundle / "arrays.safetensors"
    file.unlink()
    if what == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")


COLUMNS = [
    ("answers", "item", "highest", "must be from 0 to"),
    ("answers", "pair", "negative", "must be from 0 to"),
    ("pairs", "other", "negative", "must be from 0 to"),
    ("pairs", "grade", "highest", "must be from 0 to"),
    ("pairs", "count", "other-type", "must be int32, got float64"),
    ("items", "item_factor", "nan", "must be from 0 to"),
    ("items", "item_factor", "gone", "is missing"),
]
ARRAYS = [
    ("shrunk-lift-tuned", "pair_count", "other-type", "must hold integers, got float64"),
    ("shrunk-lift-tuned", "pair_item", "highest", "must be from 0 to"),
    ("shrunk-lift-tuned", "pair_start", "short", r"must have the shape \(items \+ 1\)"),
    ("neat", "item_count", "negative", "must be from 0 to inf, got -1"),
    ("odds", "category", "highest", "must be from -1 to"),
]


@pytest.mark.parametrize(
    ("model", "mutate", "sentence"),
    [
        *(
            ("odds", partial(in_table, f"{file}.arrow", column, how, 0), rf"'{column}' {why}")
            for file, column, how, why in COLUMNS
        ),
        *(
            (model, partial(in_arrays, name, how, 0), rf"safetensors is damaged: .*`{name}` {why}")
            for model, name, how, why in ARRAYS
        ),
        ("odds", without_low, "'lift_low' must hold a number for each pair with evidence"),
        ("odds", nest, r"manifest\.json is damaged"),
        *(("odds", partial(behead, each), r"safetensors is damaged") for each in HEADERS),
        *(("odds", partial(rename, each), r"manifest\.json is damaged") for each in NAMES),
        *(("odds", partial(in_prior, each), r"lift_prior\.json is damaged") for each in PRIOR),
        *(("odds", partial(not_regular, each), "not a regular file") for each in IRREGULAR),
    ],
)
def test_a_crafted_file_is_refused_by_name(
    bundles: dict[str, Path], tmp_path: Path, model: str, mutate: Mutation, sentence: str
) -> None:
    copy = crafted(bundles[model], tmp_path, mutate)
    with pytest.raises(BundleError, match=sentence):
        _ = PairTable.open(copy).model


def test_crafted_bundles_are_refused_or_answer(bundles: dict[str, Path], tmp_path: Path) -> None:
    found = try_out(bundles, tmp_path, 100, 0)
    assert found["refused"] > 30
    assert found["answers"] > 10


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_crafted_bundles_are_refused_or_answer(
    bundles: dict[str, Path], tmp_path: Path
) -> None:
    found = try_out(bundles, tmp_path, 2000, int.from_bytes(os.urandom(4)))
    assert found["refused"] > 600
