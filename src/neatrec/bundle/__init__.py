"""The model folder: verified by hashes, replaced atomically."""

from neatrec.bundle.folder import bundle_lock, is_bundle
from neatrec.bundle.manifest import Manifest
from neatrec.bundle.store import load_bundle, read_bundle, read_manifest, save_bundle

__all__ = [
    "Manifest",
    "bundle_lock",
    "is_bundle",
    "load_bundle",
    "read_bundle",
    "read_manifest",
    "save_bundle",
]
