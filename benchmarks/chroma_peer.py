"""Chroma, a vector database with an HTTP server of its own, filled and asked for the items similar to one.

It runs in an interpreter that has it (`pip install chromadb`), where only `fill` is called: nothing of ours is needed.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

HEALTHY = "/api/v2/heartbeat"
QUERY = "/api/v2/tenants/default_tenant/databases/default_database/collections/{}/query"
BATCH = 5000
ASKED = 2000
"""Items that are asked for, drawn by lot: the bodies of their requests are written beforehand."""

LUA = """
math.randomseed(os.time())
local bodies = {}
for line in io.lines("%s") do bodies[#bodies + 1] = line end
local headers = { ["content-type"] = "application/json" }
request = function()
  return wrk.format("POST", "%s", headers, bodies[math.random(#bodies)])
end
"""


def vectors(items: int, dim: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((items, dim), dtype=np.float32)


def words(python: str, folder: Path, port: int) -> list[str]:
    """The command of its server, which is to talk to nobody else."""
    where = ["--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    return ["env", "ANONYMIZED_TELEMETRY=False", str(Path(python).with_name("chroma")), "run", *where]


def fill(port: int, items: int, dim: int) -> None:
    """Put the vectors in; prints the id of the collection."""
    import chromadb

    silent = chromadb.config.Settings(anonymized_telemetry=False)
    found = chromadb.HttpClient(host="127.0.0.1", port=port, settings=silent)
    held = found.create_collection("items", metadata={"hnsw:space": "cosine"}, embedding_function=None)
    rows = vectors(items, dim)
    for first in range(0, items, BATCH):
        ids = [str(code) for code in range(first, min(items, first + BATCH))]
        held.add(ids=ids, embeddings=rows[first : first + BATCH])
    print(held.id)


def filled(python: str, port: int, items: int, dim: int, root: Path) -> str:
    """The path of the question, once the server of `port` holds the vectors."""
    program = f"from benchmarks.chroma_peer import fill; fill({port}, {items}, {dim})"
    done = subprocess.run([python, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    return QUERY.format(done.stdout.split()[-1])


@contextmanager
def script(path: str, items: int, dim: int, k: int) -> Iterator[str]:
    """A script for wrk that asks for items at random. The caller sends the vector: the server knows no such question as
    "like this id" that needs one request alone."""
    rows = vectors(items, dim)
    with tempfile.TemporaryDirectory() as place:
        bodies = Path(place) / "bodies"
        with bodies.open("w") as out:
            for code in np.random.default_rng(1).integers(items, size=ASKED):
                question = {
                    "query_embeddings": [rows[code].round(5).tolist()],
                    "n_results": k,
                    "include": ["distances"],
                }
                out.write(json.dumps(question) + "\n")
        file = Path(place) / "ask.lua"
        file.write_text(LUA % (bodies, path))
        yield str(file)
