"""A bundle saved with its table, and the table of a bundle written anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neatrec.bundle import BundleLock, Manifest, load_bundle, read_manifest, rewrite_bundle, save_bundle, stream_hash
from neatrec.data.baskets import BasketStream
from neatrec.errors import BundleError
from neatrec.models.base import Model
from neatrec.serving.build import K, ServingArrays, build_index, index_of
from neatrec.serving.files import FOLDER, NOTE, write_index
from neatrec.serving.index import ServingTable
from neatrec.text import printable


def save_indexed(
    model: Model,
    path: str | Path,
    baskets: BasketStream,
    *,
    seed: int | None,
    k: int = K,
    ann: bool = False,
    keep_users: bool = False,
    notes: Mapping[str, Any] | None = None,
    threads: int | None = None,
    device: str = "auto",
) -> Manifest:
    """The manifest of the bundle that now stands at `path`, with the serving table of the baskets it learned from."""

    def write_table(folder: Path) -> dict[str, Any]:
        return write_index(build_index(model, baskets, k=k, ann=ann, threads=threads, device=device), folder)

    return save_bundle(
        model,
        path,
        baskets_hash=stream_hash(baskets),
        seed=seed,
        keep_users=keep_users,
        notes=notes,
        write_extra=write_table,
    )


def rewrite_index(
    bundle: str | Path,
    *,
    baskets: BasketStream | None = None,
    k: int | None = None,
    attachment: Mapping[str, Any] | None = None,
    ann: bool | None = None,
    threads: int | None = None,
    device: str = "auto",
) -> Manifest:
    """The manifest of the bundle after its table was computed again, put in place whole.

    From its model and the pair counts it holds, or from the `baskets` it learned from where it has no table yet. `k`
    None: as many answers as before. `attachment` None: what was attached before stays. `ann`: an approximate table, for
    millions of items, whose recall stands in the manifest, or an exact one; None: as before. `device`: where the best
    are looked for; `auto` is a GPU where there is one and it can find them for this model.
    """
    with BundleLock(bundle):
        if ann is None:
            ann = "recall" in read_manifest(bundle, verify=False).notes.get(NOTE, {})
        if baskets is None:
            old = ServingTable.open(bundle)
            size = old.k if k is None else k
            arrays = index_of(old.model, old.pairs, k=size, ann=ann, threads=threads, device=device)
            kept = old.attachment
        else:
            arrays = _from_baskets(bundle, baskets, k, ann=ann, threads=threads, device=device)
            kept = _attached(bundle)
        return rewrite_bundle(
            bundle,
            lambda folder: write_index(arrays, folder, kept if attachment is None else attachment),
            without=FOLDER,
        )


def has_table(manifest: Manifest) -> bool:
    """Whether a bundle has a serving table."""
    return NOTE in manifest.notes


def _from_baskets(bundle: str | Path, baskets: BasketStream, k: int | None, **how: Any) -> ServingArrays:
    manifest = read_manifest(bundle)
    if stream_hash(baskets) != manifest.data_hash:
        raise BundleError(
            f"{printable(bundle)} did not learn from these baskets: their hash is not the one in its manifest",
            file=str(bundle),
            hint="Evidence must come from the training baskets. Name the source it was trained on, or train it anew; a "
            "bundle of --stream, --validation or several processes gets its table from `neatrec train` alone.",
        )
    before = manifest.notes.get(NOTE, {}).get("k", K)
    return build_index(load_bundle(bundle), baskets, k=before if k is None else k, **how)


def _attached(bundle: str | Path) -> dict[str, Any] | None:
    return ServingTable.open(bundle).attachment if has_table(read_manifest(bundle, verify=False)) else None
