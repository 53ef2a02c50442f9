"""The counters of /metrics, by bundle version."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which several workers' counts are added up; prometheus-client reads it."""
AGES = ("neatrec_bundle_created_timestamp_seconds", "neatrec_bundle_loaded_timestamp_seconds")
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """Counters of one process, or of all workers where they share a folder."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.version = ""
        made: Any = {"registry": self.registry, "namespace": "neatrec"}
        self.requests = Counter("requests", "Requests answered", ["route", "status", "bundle"], **made)
        self.latency = Histogram("request_seconds", "Time to answer", ["route", "bundle"], buckets=BUCKETS, **made)
        self.unknown = Counter("unknown_items", "Requests for items the bundle does not hold", ["bundle"], **made)
        self.empty = Counter("empty_answers", "Answers without any item", ["bundle"], **made)
        self.short = Counter("short_answers", "Answers with fewer items than asked for", ["bundle"], **made)
        self.answers = Counter("answers", "Items recommended, by grade", ["grade", "bundle"], **made)
        self.rule_hits = Counter("rule_hits", "Rules that changed an answer", ["action", "bundle"], **made)
        self.rule_edits = Counter("rule_edits", "Rules that editors wrote or undid", ["action"], **made)
        self.shed = Counter("shed_requests", "Requests refused because too many were in flight", **made)
        self.refused = Counter("refused_bundles", "Bundles that were not taken because they are bad", **made)
        self.swaps = Counter("bundle_swaps", "Bundles taken while serving", **made)
        self.bad_files = Counter("bad_files", "Rules, lists or keys not taken because they are bad", ["file"], **made)
        about = "1 while the bundle that should be live is refused and an older one answers"
        self.refusing = Gauge("refusing_bundle", about, **made, multiprocess_mode="livemax")
        modes: Any = {**made, "multiprocess_mode": "mostrecent"}
        self.age = Gauge("bundle_created_timestamp_seconds", "When the live bundle was made", ["bundle"], **modes)
        self.loaded = Gauge("bundle_loaded_timestamp_seconds", "When the live bundle was taken", ["bundle"], **modes)

    def live(self, version: str, created: str) -> None:
        """`version` answers from now on; the age is the time since its creation."""
        self.version = version
        for gauge, value in ((self.age, _seconds(created)), (self.loaded, time.time())):
            if SHARED not in os.environ:
                gauge.clear()
            gauge.labels(version).set(value)

    def text(self) -> bytes:
        if SHARED not in os.environ:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        counted = MultiProcessCollector(None)  # type: ignore[no-untyped-call]
        registry.register(_Live(counted, self.version))
        return generate_latest(registry)


class _Live(Collector):
    """What all workers counted; of the bundles' ages that of `version` alone.

    The shared folder keeps the ages of older bundles, which would grow for ever.
    """

    def __init__(self, counted: Any, version: str) -> None:
        self.counted, self.version = counted, version

    def collect(self) -> Iterable[Metric]:
        for metric in self.counted.collect():
            if metric.name in AGES:
                metric.samples = [one for one in metric.samples if one.labels["bundle"] == self.version]
            yield metric


def _seconds(created: str) -> float:
    try:
        return datetime.fromisoformat(created).timestamp()
    except ValueError:
        return 0.0
