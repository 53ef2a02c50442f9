"""The model folder: verified by hashes, replaced atomically."""

from neatrec.bundle.export import export_vectors
from neatrec.bundle.folder import BundleLock, is_bundle
from neatrec.bundle.manifest import Manifest
from neatrec.bundle.store import load_bundle, read_bundle, read_manifest, rewrite_bundle, save_bundle, stream_hash

__all__ = [
    "BundleLock",
    "Manifest",
    "export_vectors",
    "is_bundle",
    "load_bundle",
    "read_bundle",
    "read_manifest",
    "rewrite_bundle",
    "save_bundle",
    "stream_hash",
]
