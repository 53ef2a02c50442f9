"""Measurements against the peers: `python -m benchmarks`, or `python -m benchmarks.NAME`."""
