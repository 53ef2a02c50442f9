"""What /metrics counts, and of which bundle."""

import os
import subprocess
import sys
from pathlib import Path

from starlette.testclient import TestClient

from helpers.service_bundle import id_of
from neatrec.service.app import make_app
from neatrec.service.settings import ServiceSettings

TWO_NIGHTS = """
from neatrec.service.metrics import Metrics
metrics = Metrics()
metrics.live("2024-01-01T00:00:00+00:00")
metrics.empty.labels("older").inc()
metrics.live("2024-01-02T00:00:00+00:00")
print(metrics.text().decode())
"""


def test_workers_tell_the_age_of_the_live_bundle_alone(tmp_path: Path) -> None:
    """In a process of its own: prometheus-client looks for the shared folder when it is imported."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", TWO_NIGHTS], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "neatrec_bundle_created_timestamp_seconds 1.7041536e+09" in done.stdout
    assert 'neatrec_empty_answers_total{bundle="older"} 1.0' in done.stdout


def test_unknown_items_are_counted_wherever_they_are_asked_for(bundle: Path) -> None:
    asking = TestClient(make_app(ServiceSettings(bundle)))

    def counted() -> float:
        lines = asking.get("/metrics").text.split("\n")
        return sum(
            float(line.split(" ")[1])
            for line in lines
            if line.startswith("neatrec_unknown_items_total{")
        )

    asking.get("/v1/complements?item=spagheti")
    assert counted() == 1
    asking.get("/v1/pair?a=100&b=spagheti")
    assert counted() == 2
    asking.get("/v1/pair?a=spagheti&b=salza")
    assert counted() == 4
    asking.post("/v1/cart/complements", json={"items": ["100", "spagheti", "salza"]})
    assert counted() == 6
    asking.post("/v1/cart/complements", json={"items": ["100", id_of("Salsa")]})
    assert counted() == 6
