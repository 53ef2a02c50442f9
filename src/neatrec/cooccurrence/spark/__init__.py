"""Counting on Spark: the statements of `sql/` on a cluster, or on this machine in local mode."""

from neatrec.cooccurrence.spark.session import connect

__all__ = ["connect"]
