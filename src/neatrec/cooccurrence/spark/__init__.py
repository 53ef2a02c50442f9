"""Counting on Spark: the compiled counter on a cluster, or on this machine in local mode."""

from neatrec.cooccurrence.spark.session import connect

__all__ = ["connect"]
