"""A machine that has numpy, scipy, numba, pyarrow, safetensors (and perhaps cupy), and nothing of ours installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

CODE = """
import sys
from importlib.abc import MetaPathFinder

ABSENT = {
    "duckdb", "polars", "pandas", "pydantic", "pydantic_core", "fastapi", "uvicorn", "starlette", "prometheus_client",
    "implicit", "jinja2", "matplotlib", "typer", "rich", "threadpoolctl", "gensim", "sklearn", "torch",
}


class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())

from pathlib import Path

import numpy as np

from neatrec.bundle import load_bundle, save_bundle
from neatrec.evaluation.task import build_task, evaluate_model
from neatrec.models.embeddings.kernels import gpu, gpu_call, reference
from neatrec.labels import make_labels
from neatrec.models import Run, make_model
from neatrec.simulator import supermarket
from neatrec.data.splits import split_baskets

baskets = supermarket(baskets=4_000, items=300).baskets
split = split_baskets(baskets, "half")
labels = make_labels(split.test, protocol="paper", levels=(0.05,))
model = make_model("neat", dim=8, epochs=2).fit(split.train, Run(device=sys.argv[2], threads=1))
answers = evaluate_model(model, build_task(split.train, split.test, labels, queries=20, carts=5))
save_bundle(model, Path(sys.argv[1]), seed=0)
again = load_bundle(Path(sys.argv[1]))
assert np.array_equal(again.vectors, model.vectors)
print("labels", len(labels.query), "loaded", sorted(ABSENT & set(sys.modules)))
"""


def test_training_labels_evaluation_and_bundle_work_with_little_installed(tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT / "src"), *(folder for folder in sys.path if folder)])
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "bundle"), "auto"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("labels ")
    assert done.stdout.strip().endswith("loaded []")
    assert int(done.stdout.split()[1]) > 0
