"""Any changed byte is refused, with the name of the file."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.toyshop import toy_baskets
from neatrec.bundle import Manifest, load_bundle, read_manifest
from neatrec.errors import BundleError
from neatrec.models import Run, make_model
from neatrec.serving import PairTable, save_indexed

FILES = (
    *("manifest.json", "arrays.safetensors", "items.parquet", "table/answers.arrow"),
    *("table/items.arrow", "table/pairs.arrow", "table/lift_prior.json"),
)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    model = make_model("shrunk-lift").fit(toy_baskets(), Run(threads=1))
    save_indexed(model, tmp_path / "bundle", toy_baskets(), seed=0, k=4)
    return tmp_path / "bundle"


def refused_everywhere(bundle: Path, sentence: str) -> None:
    for reader in (load_bundle, read_manifest, PairTable.open):
        with pytest.raises(BundleError, match=sentence):
            reader(bundle)


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_is_refused_wherever_it_is(bundle: Path, name: str) -> None:
    file = bundle / name
    content = file.read_bytes()
    rng = np.random.default_rng(8)
    size = len(content)
    every = range(size) if name == "manifest.json" else rng.choice(size, size=60, replace=False)
    for position in every:
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        with pytest.raises(BundleError, match=name):
            read_manifest(bundle)
    refused_everywhere(bundle, name)
    file.write_bytes(content)
    assert load_bundle(bundle).name == "shrunk-lift"


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_off_or_grown_or_missing_is_refused(bundle: Path, name: str) -> None:
    file = bundle / name
    content = file.read_bytes()
    for size in (0, 1, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:size])
        refused_everywhere(bundle, name)
    file.write_bytes(content + b"\n")
    refused_everywhere(bundle, name)
    file.unlink()
    refused_everywhere(bundle, name.replace("manifest.json", "it has no manifest"))


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"{}", b'{"format": 1}', b"\xff\xfe", b"[" * 100_000]
)
def test_a_file_that_is_no_manifest_is_refused(bundle: Path, content: bytes) -> None:
    (bundle / "manifest.json").write_bytes(content)
    refused_everywhere(bundle, r"manifest\.json is damaged")


def forge(bundle: Path, change: Callable[[Manifest], Manifest]) -> None:
    """Rewrite the manifest so that its own hash fits again: not damage but a lie."""
    manifest = change(read_manifest(bundle, verify=False))
    (bundle / "manifest.json").write_bytes(manifest.to_bytes())


@pytest.mark.parametrize(
    ("lie", "sentence"),
    [
        ({"format": 2}, r"has bundle format 2, this version of neatrec reads 1\. Train it again"),
        ({"model": "os:system"}, "a model 'os:system', which this version does not have"),
        ({"parameters": {"k": -1.0}}, "the parameters do not fit the model"),
        ({"parameters": {"q": 1.0}}, "the parameters do not fit the model"),
    ],
)
def test_a_manifest_that_lies_is_refused(bundle: Path, lie: dict[str, Any], sentence: str) -> None:
    forge(bundle, lambda manifest: replace(manifest, **lie))
    with pytest.raises(BundleError, match=sentence):
        load_bundle(bundle)
