"""Baskets from files, folders, data frames and simulators: every kind of SOURCE behind `read_baskets`."""

from __future__ import annotations

from neatrec.sources.mapping import SourceOptions
from neatrec.sources.read import read_baskets
from neatrec.sources.source_toml import read_source_toml

__all__ = ["SourceOptions", "read_baskets", "read_source_toml"]
