"""Whatever is not byte for byte what was written is refused, with the name of the file."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.toyshop import toy_baskets
from neatrec.bundle import load_bundle, read_manifest, save_bundle
from neatrec.bundle.manifest import MAX_BYTES, FileRecord, Manifest, file_record
from neatrec.errors import BundleError
from neatrec.models import Run, make_model

FILES = ("manifest.json", "arrays.safetensors", "items.parquet")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    model = make_model("shrunk-lift").fit(toy_baskets(60), Run(threads=1))
    save_bundle(model, tmp_path / "bundle", seed=0)
    return tmp_path / "bundle"


def forge(bundle: Path, change: Callable[[Manifest], Manifest]) -> None:
    """Rewrite the manifest so that its own hash fits again: not damage but a lie."""
    manifest = change(read_manifest(bundle, verify=False))
    (bundle / "manifest.json").write_bytes(manifest.to_bytes())


def refused_everywhere(bundle: Path, sentence: str) -> None:
    for reader in (load_bundle, read_manifest):
        with pytest.raises(BundleError, match=sentence):
            reader(bundle)


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_is_refused_wherever_it_is(bundle: Path, name: str) -> None:
    file = bundle / name
    content = file.read_bytes()
    rng = np.random.default_rng(8)
    positions = (
        range(len(content))
        if name == "manifest.json"
        else rng.choice(len(content), size=60, replace=False)
    )
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        with pytest.raises(BundleError, match=name):
            read_manifest(bundle)
    refused_everywhere(bundle, name)
    file.write_bytes(content)
    assert load_bundle(bundle).name == "shrunk-lift"


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_off_or_grown_is_refused(bundle: Path, name: str) -> None:
    file = bundle / name
    content = file.read_bytes()
    for size in (0, 1, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:size])
        refused_everywhere(bundle, name)
    file.write_bytes(content + b"\n")
    refused_everywhere(bundle, name)


def test_the_error_names_the_file_and_the_reason(bundle: Path) -> None:
    file = bundle / "arrays.safetensors"
    size = file.stat().st_size
    os.truncate(file, size - 1)
    refused_everywhere(
        bundle,
        rf"arrays\.safetensors is damaged: it has {size - 1:,} bytes, {size:,} were written\. Restore",
    )


@pytest.mark.parametrize("name", FILES[1:])
def test_a_missing_file_is_refused(bundle: Path, name: str) -> None:
    (bundle / name).unlink()
    refused_everywhere(bundle, f"cannot read .*{name}: No such file")


def test_a_manifest_may_be_read_without_looking_at_the_files(bundle: Path) -> None:
    (bundle / "items.parquet").unlink()
    assert read_manifest(bundle, verify=False).model == "shrunk-lift"


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"{}", b'{"format": 1}', b"\xff\xfe", b"[" * 100_000]
)
def test_what_is_no_manifest_is_refused(bundle: Path, content: bytes) -> None:
    (bundle / "manifest.json").write_bytes(content)
    refused_everywhere(bundle, r"manifest\.json is damaged")


def test_a_huge_manifest_is_not_read(bundle: Path) -> None:
    with (bundle / "manifest.json").open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    refused_everywhere(bundle, r"manifest\.json is damaged: it is larger than")


def test_another_format_is_refused_with_a_hint(bundle: Path) -> None:
    forge(bundle, lambda manifest: replace(manifest, format=2))
    refused_everywhere(
        bundle,
        r"has bundle format 2, this version of neatrec reads 1\. Train it again, or use the version",
    )


def test_an_unknown_model_is_refused(bundle: Path) -> None:
    forge(bundle, lambda manifest: replace(manifest, model="os:system"))
    with pytest.raises(
        BundleError, match="holds a model 'os:system', which this version does not have"
    ):
        load_bundle(bundle)


def test_parameters_that_do_not_fit_are_refused(bundle: Path) -> None:
    for parameters in ({"k": -1.0}, {"q": 1.0}):
        forge(bundle, lambda manifest, p=parameters: replace(manifest, parameters=p))
        with pytest.raises(
            BundleError, match=r"manifest\.json is damaged: the parameters do not fit the model"
        ):
            load_bundle(bundle)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a//b", "", "..\\x"])
def test_a_manifest_cannot_point_outside_the_bundle(bundle: Path, name: str) -> None:
    forge(
        bundle,
        lambda manifest: replace(manifest, files={**manifest.files, name: FileRecord(1, "0")}),
    )
    refused_everywhere(bundle, "names a file outside the bundle")


def test_arrays_of_another_model_are_refused(bundle: Path, tmp_path: Path) -> None:
    save_bundle(make_model("pop").fit(toy_baskets(60)), tmp_path / "pop", seed=0)
    (bundle / "arrays.safetensors").write_bytes(
        (tmp_path / "pop" / "arrays.safetensors").read_bytes()
    )
    record = file_record(bundle / "arrays.safetensors")
    forge(
        bundle,
        lambda manifest: replace(manifest, files={**manifest.files, "arrays.safetensors": record}),
    )
    with pytest.raises(BundleError, match="these are not the arrays of a 'shrunk-lift' model"):
        load_bundle(bundle)


def test_files_that_are_none_are_refused_although_their_hash_fits(bundle: Path) -> None:
    for name, sentence in (
        ("arrays.safetensors", "arrays.safetensors is damaged"),
        ("items.parquet", "items.parquet"),
    ):
        before, manifest = (bundle / name).read_bytes(), (bundle / "manifest.json").read_bytes()
        (bundle / name).write_bytes(b"no such format")
        record = file_record(bundle / name)
        forge(bundle, lambda m, n=name, r=record: replace(m, files={**m.files, n: r}))
        with pytest.raises(BundleError, match=sentence):
            load_bundle(bundle)
        (bundle / name).write_bytes(before)
        (bundle / "manifest.json").write_bytes(manifest)


def test_there_is_no_pickle_in_a_bundle(bundle: Path) -> None:
    for file in bundle.iterdir():
        assert not file.read_bytes().startswith(b"\x80"), file.name
    json.loads((bundle / "manifest.json").read_text())
