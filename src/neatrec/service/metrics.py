"""The counters of /metrics, by bundle version."""

from __future__ import annotations

import os
import time
from collections import Counter as Tally
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which several workers' counts are added up; prometheus-client reads it."""
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """Counters of one process, or of all workers where they share a folder."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: Any = {"registry": self.registry, "namespace": "neatrec"}

        counter: Any = partial(Counter, **made)
        self.requests = counter("requests", "Requests answered", ["route", "status", "bundle"])
        self.latency = Histogram(
            "request_seconds", "Time to answer", ["route", "bundle"], buckets=BUCKETS, **made
        )
        self.unknown = counter(
            "unknown_items", "Requests for items the bundle does not hold", ["bundle"]
        )
        self.empty = counter("empty_answers", "Answers without any item", ["bundle"])
        self.short = counter("short_answers", "Answers with fewer items than asked for", ["bundle"])
        self.answers = counter("answers", "Items recommended, by grade", ["grade", "bundle"])
        self.rule_hits = counter("rule_hits", "Rules that changed an answer", ["action", "bundle"])
        self.rule_edits = counter("rule_edits", "Rules that editors wrote or undid", ["action"])
        self.shed = counter("shed_requests", "Requests refused because too many were in flight")
        self.refused = counter("refused_bundles", "Bundles not taken because they are bad")
        self.swaps = counter("bundle_swaps", "Bundles taken while serving")
        self.bad_files = counter("bad_files", "Rules, lists or keys refused as bad", ["file"])
        about = "1 while the bundle that should be live is refused and an older one answers"
        self.refusing = Gauge("refusing_bundle", about, **made, multiprocess_mode="livemax")
        modes: Any = {**made, "multiprocess_mode": "mostrecent"}
        self.created = Gauge(
            "bundle_created_timestamp_seconds", "When the live bundle was made", **modes
        )
        self.loaded = Gauge(
            "bundle_loaded_timestamp_seconds", "When the live bundle was taken", **modes
        )

    def live(self, created: str) -> None:
        """Another bundle answers from now on; its age is the time since its creation."""
        with suppress(ValueError):  # the manifest may say anything
            self.created.set(datetime.fromisoformat(created).timestamp())
        self.loaded.set(time.time())

    def count_request(self, route: str, status: int, version: str, seconds: float) -> None:
        """Count an answered request and its time."""
        self.requests.labels(route, str(status), version).inc()
        self.latency.labels(route, version).observe(seconds)

    def count(self, version: str, answers: Any) -> None:
        """Count the answers to one request."""
        for grade, count in Tally(line.grade for line in answers.lines).items():
            self.answers.labels(grade, version).inc(count)
        if not answers.lines:
            self.empty.labels(version).inc()
        if len(answers.lines) < answers.k:
            self.short.labels(version).inc()
        for action in answers.rule_hits:
            self.rule_hits.labels(action, version).inc()

    def text(self) -> bytes:
        """The counters as Prometheus reads them; of all workers, where they share a folder."""
        if SHARED not in os.environ:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
