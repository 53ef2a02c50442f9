"""Measurements against the peers: `python -m benchmarks` runs them all, `python -m benchmarks.NAME`
one of them."""
