"""Baskets from files, folders, data frames and simulators: all behind `read_baskets`."""

from __future__ import annotations

from neatrec.io.options import SourceOptions, read_source_toml
from neatrec.io.read import as_baskets, load, read_baskets

__all__ = ["SourceOptions", "as_baskets", "load", "read_baskets", "read_source_toml"]
