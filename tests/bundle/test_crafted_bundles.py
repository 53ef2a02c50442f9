"""Bundles whose hashes are right and whose content is not: refused by name, or every address answers below 500."""

import hashlib
import json
import os
import shutil
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
from neatrec.release.publish import publish
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings
from neatrec.serving import PairTable
from neatrec.serving.files import write_columns

MODELS: dict[str, dict[str, Any]] = {
    "ease": {"min_count": 1},
    "shrunk-lift-tuned": {},
    "neat": {"dim": 8, "epochs": 2},
}
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**40,
    1e308,
    "",
    "text",
    "../../etc/passwd",
    [],
    [1],
    {},
    {"a": [None]},
)
"""In place of a value in JSON."""
ITEMS = ("100", "200", "305", "900", "901")
"""Of a planted pair, a plain one, one never bought, one without category."""
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
    entries["files"] = {
        file.relative_to(bundle).as_posix(): vars(file_record(file)) for file in files
    }
    change(entries)
    del entries["content_hash"], entries["manifest_hash"]
    entries["manifest_hash"] = _hash(entries)
    entries["content_hash"] = _hash(
        {name: value for name, value in entries.items() if name not in ("created", "manifest_hash")}
    )
    (bundle / NAME).write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n")


def _hash(entries: dict[str, Any]) -> str:
    return hashlib.sha256(
        (json.dumps(entries, indent=2, sort_keys=True) + "\n").encode()
    ).hexdigest()


# ---- mutations


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each value stands in JSON."""
    if path:
        yield path
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, part in entries:
        yield from paths_of(part, (*path, key))


def put(entries: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        entries = entries[step]
    if value is KeyError:
        del entries[path[-1]]
    else:
        entries[path[-1]] = value


def in_manifest(path: tuple[Any, ...], value: Any, bundle: Path) -> None:
    sign(bundle, lambda entries: put(entries, path, value))


def changed(
    values: np.ndarray[Any, Any], how: str, rng: np.random.Generator
) -> np.ndarray[Any, Any] | None:
    """Other numbers in place of `values`; None: the column is gone."""
    out = values.copy()
    place = int(rng.integers(len(out))) if len(out) else 0
    if how == "gone":
        return None
    if how == "empty":
        return out[:0]
    if how == "short":
        return out[:-1]
    if how == "long":
        return np.concatenate([out, out[:1]])
    if how == "other-type":
        return (
            out.astype(np.float64)
            if out.dtype.kind in "iu"
            else np.arange(out.size).reshape(out.shape)
        )
    if how == "flat":
        return out.reshape(-1, 1) if out.ndim == 1 else out.ravel()
    if len(out):
        kind = np.iinfo(out.dtype) if out.dtype.kind in "iu" else np.finfo(out.dtype)
        out[place] = {
            "lowest": kind.min,
            "highest": kind.max,
            "negative": -1 if kind.min < 0 else kind.max,
        }.get(how, 0)
        if out.dtype.kind == "f" and how in ("nan", "inf"):
            out[place] = np.nan if how == "nan" else np.inf
        if how == "shuffled":
            out = rng.permutation(out)
    return out


HOW = (
    *("gone", "empty", "short", "long", "other-type", "flat"),
    *("lowest", "highest", "negative", "nan", "inf", "shuffled"),
)


def in_arrays(name: str, how: str, seed: int, bundle: Path) -> None:
    arrays = load_file(bundle / "arrays.safetensors")
    value = changed(arrays.pop(name), how, np.random.default_rng(seed))
    save_file(
        arrays if value is None else {**arrays, name: np.ascontiguousarray(value)},
        bundle / "arrays.safetensors",
    )
    sign(bundle)


def in_columns(bundle: Path, file: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Write a file of the table again with changed columns."""
    place = bundle / "table" / file
    batch = pa.ipc.open_file(pa.BufferReader(place.read_bytes())).get_batch(0)
    columns = {name: batch.column(name).to_numpy().copy() for name in batch.schema.names}
    change(columns)
    write_columns(place, columns)
    sign(bundle)


def in_table(file: str, name: str, how: str, seed: int, bundle: Path) -> None:
    """A record batch has one length: a column of another one changes them all."""
    place = bundle / "table" / file
    batch = pa.ipc.open_file(pa.BufferReader(place.read_bytes())).get_batch(0)
    columns = {column: batch.column(n).to_numpy() for n, column in enumerate(batch.schema.names)}
    value = changed(columns[name], how if how != "flat" else "gone", np.random.default_rng(seed))
    if value is None:
        del columns[name]
    else:
        columns[name] = value
        columns = {column: np.resize(values, len(value)) for column, values in columns.items()}
    out = pa.record_batch([pa.array(values) for values in columns.values()], list(columns))
    with pa.OSFile(str(place), "wb") as sink, pa.ipc.new_file(sink, out.schema) as writer:
        for _ in range(0 if how == "nan" and columns[name].dtype.kind != "f" else 1):
            writer.write_batch(out)
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
    elif how == "other-type":
        table = table.set_column(position, name, pa.array(np.arange(len(table), dtype=np.float64)))
    elif how == "flat":
        table = table.replace_schema_metadata(None)
    else:
        table = table.set_column(
            position, name, pa.nulls(len(table), table.schema.field(position).type)
        )
    pq.write_table(table, file)
    sign(bundle)


def mutations(bundle: Path) -> list[tuple[str, Mutation]]:
    """Every column, array and field of a bundle, in every way above."""
    entries = json.loads((bundle / NAME).read_text())
    found: list[tuple[str, Mutation]] = []
    for path in paths_of(
        {key: value for key, value in entries.items() if not key.endswith(("files", "hash"))}
    ):
        found += [
            (f"manifest {path} = {value!r}", partial(in_manifest, path, value))
            for value in (*STRANGE, KeyError)
        ]
    for name in load_file(bundle / "arrays.safetensors"):
        found += [
            (f"array {name} {how}", partial(in_arrays, name, how, n)) for n, how in enumerate(HOW)
        ]
    for file in sorted((bundle / "table").glob("*.arrow")):
        for name in pa.ipc.open_file(pa.BufferReader(file.read_bytes())).schema.names:
            found += [
                (f"{file.name} {name} {how}", partial(in_table, file.name, name, how, n))
                for n, how in enumerate(HOW)
            ]
    for name in pq.read_schema(bundle / "items.parquet").names:
        found += [
            (f"items.parquet {name} {how}", partial(in_catalogue, name, how, n))
            for n, how in enumerate(HOW)
        ]
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
        answers["cart"] = client.post(
            "/v1/cart/complements", json={"items": ["100", "201"], "k": 5}
        )
    # 422: the question itself is wrong, so that nothing was tried
    bad = {
        path: answer
        for path, answer in answers.items()
        if answer.status_code == 422 or answer.status_code >= 500
    }
    failed = {path: answer.text[:200] for path, answer in bad.items()}
    return f"failed: {failed}" if failed else "answers"


PATHS = (
    *(
        "/",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/v1/model",
        "/v1/items?q=sa",
        "/quality",
        "/pairs",
    ),
    *("/v1/pairs.csv", "/cart?item=100&item=201"),
    *(f"/v1/complements?item={item}&k=60&min_evidence=guess" for item in ITEMS),
    *(f"/v1/complements?item={item}&include=explained" for item in ITEMS),
    *(f"/item?id={item}" for item in ITEMS),
    *(
        f"{page}?a={one}&b={other}"
        for one, other in pairwise(ITEMS)
        for page in ("/pair", "/v1/pair")
    ),
)


def try_out(bundles: dict[str, Path], folder: Path, tries: int, seed: int) -> dict[str, int]:
    """So many mutations, drawn at random: how many were refused, how many answer."""
    rng = np.random.default_rng(seed)
    found = {"refused": 0, "answers": 0}
    every = {name: mutations(bundle) for name, bundle in bundles.items()}
    for _ in range(tries):
        name = list(every)[int(rng.integers(len(every)))]
        what, mutate = every[name][int(rng.integers(len(every[name])))]
        copy = crafted(bundles[name], folder, mutate)
        result = outcome(copy)
        assert result in found, f"{name}, {what}: {result}"
        found[result] += 1
        shutil.rmtree(copy)
    return found


def crafted(bundle: Path, folder: Path, mutate: Mutation) -> Path:
    copy = Path(shutil.copytree(bundle, folder / "crafted"))
    mutate(copy)
    return copy


@pytest.mark.parametrize(
    ("file", "column", "how", "why"),
    [
        ("answers.arrow", "item", "highest", "must be from 0 to"),
        ("answers.arrow", "pair", "negative", "must be from 0 to"),
        ("pairs.arrow", "other", "negative", "must be from 0 to"),
        ("pairs.arrow", "grade", "highest", "must be from 0 to"),
        ("pairs.arrow", "count", "other-type", "must be int32, got float64"),
        ("items.arrow", "item_factor", "nan", "must be from 0 to"),
        ("items.arrow", "item_factor", "gone", "is missing"),
    ],
)
def test_columns_out_of_their_declared_bounds_are_not_published(
    bundles, tmp_path, file, column, how: str, why: str
) -> None:
    copy = crafted(bundles["shrunk-lift-tuned"], tmp_path, partial(in_table, file, column, how, 0))
    with pytest.raises(BundleError, match=rf"{file} is damaged: column '{column}' {why}"):
        publish(copy, tmp_path / "store")
    assert not (tmp_path / "store" / "current").exists()


def test_a_pair_with_evidence_has_numbers(bundles: dict[str, Path], tmp_path: Path) -> None:
    def without_low(bundle: Path) -> None:
        in_columns(bundle, "pairs.arrow", lambda columns: columns["lift_low"].fill(np.nan))

    with pytest.raises(BundleError, match="'lift_low' must hold a number for each pair with evid"):
        PairTable.open(crafted(bundles["shrunk-lift-tuned"], tmp_path, without_low))


@pytest.mark.parametrize(
    ("model", "name", "how", "why"),
    [
        ("shrunk-lift-tuned", "pair_count", "other-type", "must hold whole numbers, got float64"),
        ("shrunk-lift-tuned", "pair_item", "highest", "must be from 0 to"),
        ("shrunk-lift-tuned", "pair_start", "short", r"must have the shape \(items \+ 1\)"),
        ("neat", "vectors", "short", r"must have the shape \(items, dim\)"),
        ("neat", "item_count", "negative", "must be from 0 to inf, got -1"),
    ],
)
def test_arrays_out_of_their_declared_bounds_are_refused(
    bundles, tmp_path, model: str, name: str, how: str, why: str
) -> None:
    copy = crafted(bundles[model], tmp_path, partial(in_arrays, name, how, 0))
    with pytest.raises(BundleError, match=rf"arrays\.safetensors is damaged: .*`{name}` {why}"):
        load_bundle(copy)


@pytest.mark.parametrize("header", [b"\xff" * 8, b"\x08" + bytes(7) + b'{"a": 1}', b"\0" * 8, b""])
def test_a_header_that_is_none_is_a_damaged_file(bundles, tmp_path, header: bytes) -> None:
    def behead(bundle: Path) -> None:
        content = (bundle / "arrays.safetensors").read_bytes()
        (bundle / "arrays.safetensors").write_bytes(header + content[8:])
        sign(bundle)

    copy = crafted(bundles["neat"], tmp_path, behead)
    with pytest.raises(BundleError, match=r"arrays\.safetensors is damaged"):
        load_bundle(copy)
    with pytest.raises(BundleError, match=r"arrays\.safetensors is damaged"):
        _ = PairTable.open(copy).model


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "../x", "a/../../x", "", "a\nb"])
def test_a_name_that_is_no_file_of_a_bundle_is_refused(bundles, tmp_path, name: str) -> None:
    def rename(entries: dict[str, Any]) -> None:
        entries["files"][name] = entries["files"].pop("items.parquet")

    copy = crafted(bundles["neat"], tmp_path, partial(sign, change=rename))
    with pytest.raises(BundleError, match=r"manifest\.json is damaged"):
        PairTable.open(copy)


def test_notes_within_notes_are_no_manifest(bundles: dict[str, Path], tmp_path: Path) -> None:
    copy = crafted(bundles["neat"], tmp_path, lambda bundle: None)
    content = (
        (copy / NAME)
        .read_text()
        .replace('"notes": {', '"notes": {"a": ' + "[" * 990 + "]" * 990 + ",")
    )
    (copy / NAME).write_text(content)
    with pytest.raises(BundleError, match=r"manifest\.json is damaged"):
        PairTable.open(copy)


@pytest.mark.parametrize("part", ["coefficients", "dispersion", "expected_range", "coverage"])
def test_a_prior_that_is_none_is_refused(bundles, tmp_path, part: str) -> None:
    def change(bundle: Path) -> None:
        file = bundle / "table" / "lift_prior.json"
        prior = json.loads(file.read_text())
        file.write_text(json.dumps({**prior, part: [[1.0]] if part == "coefficients" else "x"}))
        sign(bundle)

    with pytest.raises(BundleError, match=r"lift_prior\.json is damaged"):
        PairTable.open(crafted(bundles["neat"], tmp_path, change))


@pytest.mark.parametrize("name", ["arrays.safetensors", "table/pairs.arrow"])
@pytest.mark.parametrize("what", ["pipe", "device", "link"])
def test_only_regular_files_of_the_bundle_are_opened(
    bundles: dict[str, Path], tmp_path, name: str, what: str
) -> None:
    def replace_file(bundle: Path) -> None:
        (bundle / name).rename(tmp_path / "outside")
        if what == "pipe":
            os.mkfifo(bundle / name)
        else:
            (bundle / name).symlink_to("/dev/zero" if what == "device" else tmp_path / "outside")

    copy = crafted(bundles["neat"], tmp_path, replace_file)
    for verify in (True, False):
        with pytest.raises(
            BundleError, match=f"{name} is damaged: it is not a regular file inside the bundle"
        ):
            PairTable.open(copy, verify=verify)


def test_a_catalogue_of_millions_of_rows_is_not_read(
    bundles: dict[str, Path], tmp_path: Path
) -> None:
    copy = crafted(bundles["neat"], tmp_path, lambda bundle: None)
    many = pa.table({"id": pa.array(np.zeros(20_000_000, dtype=np.int8))})
    pq.write_table(many, copy / "items.parquet")
    sign(copy)
    before = pa.total_allocated_bytes()
    with pytest.raises(
        BundleError, match=r"items\.parquet is damaged: it has 20,000,000 rows, the manifest says"
    ):
        PairTable.open(copy)
    assert pa.total_allocated_bytes() - before < 1_000_000


def test_crafted_bundles_are_refused_or_answer(bundles: dict[str, Path], tmp_path: Path) -> None:
    found = try_out(bundles, tmp_path, 150, 0)
    assert found["refused"] > 50
    assert found["answers"] > 10


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_crafted_bundles_are_refused_or_answer(
    bundles: dict[str, Path], tmp_path: Path
) -> None:
    found = try_out(bundles, tmp_path, 2000, int.from_bytes(os.urandom(4)))
    assert found["refused"] > 600
