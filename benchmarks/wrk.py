"""wrk, which asks a service as fast as it answers (Debian and Ubuntu: the package `wrk`)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

CONNECTIONS, SECONDS = 16, 10

LUA = """
math.randomseed(os.time())
request = function()
  return wrk.format("GET", "%s" .. math.random(0, %d))
end
"""


def wrk(port: int, path: str, items: int, *, connections: int = CONNECTIONS, seconds: int = SECONDS) -> dict[str, Any]:
    """Requests a second, latencies and failures by wrk, asking for random items."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA % (path, items - 1))
        script.flush()
        return run_wrk(port, script.name, connections=connections, seconds=seconds)


def run_wrk(port: int, script: str, *, connections: int = CONNECTIONS, seconds: int = SECONDS) -> dict[str, Any]:
    tool = shutil.which("wrk")
    if tool is None:
        sys.exit("This benchmark needs wrk: install the package `wrk`.")
    words = [tool, "-t2", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", script]
    done = subprocess.run([*words, f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True)
    return read_wrk(done.stdout)


def read_wrk(text: str) -> dict[str, Any]:
    def number(pattern: str) -> float:
        found = re.search(pattern, text)
        return float(found[1]) if found else 0.0

    scale = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    latency = {
        share: float(value) * scale[unit] for share, value, unit in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)\b", text)
    }
    return {
        "requests_per_second": number(r"Requests/sec:\s+([\d.]+)"),
        "requests": int(number(r"(\d+) requests in")),
        "p50_ms": latency.get("50"),
        "p99_ms": latency.get("99"),
        "not_2xx": int(number(r"Non-2xx or 3xx responses: (\d+)")),
        "socket_errors": sum(map(int, re.findall(r"(?:connect|read|write|timeout) (\d+)", text))),
    }
