"""The rooms of docs/house.md and who may open which door, read off the import statements."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "neatrec"

FOUNDATION = {"errors", "text", "randomness", "compiled", "catalog", "baskets", "_version"}
STATISTICS = FOUNDATION | {"statistics"}
COUNTED = STATISTICS | {"copurchase"}
MODELLED = COUNTED | {"kernels", "models", "splits"}
ALLOWED: dict[str, set[str]] = {
    "errors": {"text"},
    "text": set(),
    "randomness": {"errors", "text"},
    "compiled": set(),
    "catalog": {"errors", "text"},
    "baskets": {"errors", "text", "catalog"},
    "_version": set(),
    "statistics": FOUNDATION,
    "sources": FOUNDATION,
    "splits": FOUNDATION,
    "copurchase": STATISTICS,
    "labels": COUNTED,
    "kernels": FOUNDATION,
    "models": MODELLED,
    "evaluation": MODELLED | {"labels"},
    "bundle": MODELLED,
    "index": MODELLED | {"bundle"},
    "report": MODELLED | {"labels", "evaluation"},
    "serve": FOUNDATION | {"bundle", "index"},
    "distributed": FOUNDATION,
}
ALLOWED["experiments"] = set(ALLOWED) | {"experiments"}
ALLOWED["cli"] = ALLOWED["experiments"] | {"cli"}
ALLOWED["__main__"] = {"cli"}

LIGHT_ROOMS = (
    "sources/supermarket",
    "kernels",
    "models",
    "splits",
    "statistics",
    "copurchase",
    "labels",
    "evaluation",
    "bundle",
    "index",
)
NUMERIC = ("numpy", "scipy", "numba", "llvmlite", "pyarrow", "safetensors", "cupy", "cupy_backends", "fastrlock")
"""All that a bare GPU machine has beside Python itself."""
BARE_RUN = """
import tempfile
from neatrec.bundle import load_bundle, save_bundle
from neatrec.evaluation.exam import make_exam, sit
from neatrec.labels import make_labels
from neatrec.models import MODEL_NAMES, Run, make_model
from neatrec.sources.supermarket import supermarket
from neatrec.splits import half

split = half(supermarket(baskets=600, items=80, seed=1).baskets)
for protocol in ("calibrated", "paper"):
    labels = make_labels(split.test, protocol, (0.05,))
exam = make_exam(split.train, split.test, labels, recall=20, queries=20, carts=20)
for name in set(MODEL_NAMES) - {"cf", "bprmf"}:  # those two are the library `implicit`
    small = {"dim": 8, "epochs": 1} if name.startswith(("neat", "item2vec", "triple2vec")) else {}
    model = make_model(name, small).fit(split.train, Run(rng=0, threads=1))
    answers = sit(model, exam)
    with tempfile.TemporaryDirectory() as folder:
        save_bundle(model, folder + "/bundle", baskets_hash=split.train.hash, seed=0)
        assert load_bundle(folder + "/bundle").name == name
    print(name, len(answers.judged))
"""


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(file: Path) -> set[str]:
    """Rooms that `file` imports, wherever in the file the statement stands."""
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "neatrec" else [f"neatrec.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("neatrec.")}
    return rooms


FILES = sorted(file for file in PACKAGE.rglob("*.py") if file != PACKAGE / "__init__.py")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_room_opens_only_its_own_doors(file: Path) -> None:
    room = room_of(file)
    assert room in ALLOWED, f"{room} is not a room of docs/house.md"
    forbidden = imports_of(file) - ALLOWED[room] - {room}
    assert not forbidden, f"{file.relative_to(PACKAGE)} must not import {sorted(forbidden)}"


def test_no_label_can_leak_into_training() -> None:
    for room in ("models", "kernels", "copurchase", "bundle"):
        assert not ALLOWED[room] & {"labels", "evaluation", "experiments"}


def test_compiled_functions_stay_in_their_room() -> None:
    """The cache key of compiled code covers one room: a compiled function of another room would go stale."""
    for file in FILES:
        tree = ast.parse(file.read_text())
        decorated = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and any("compiled" in ast.dump(decorator) for decorator in node.decorator_list)
        }
        borrowed = {
            alias.asname or alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("neatrec.")
            for alias in node.names
            if (node.module or "").split(".")[1] not in (room_of(file), "compiled")
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in decorated:
                used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & set(borrowed)
                assert not used, f"{file.name}: {node.name} uses {sorted(used)} of another room"


def _in_a_bare_interpreter(code: str) -> subprocess.CompletedProcess[str]:
    others = packages_distributions().keys() - {*NUMERIC, "neatrec"}
    assert {"duckdb", "pydantic", "implicit", "pandas"} <= others
    blocker = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {others!r}:
            raise ImportError(f"{{name}} is blocked: it may be missing on this machine")
sys.meta_path.insert(0, Blocker())
sys.path.insert(0, {str(PACKAGE.parent)!r})
"""
    return subprocess.run([sys.executable, "-c", blocker + code], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("room", LIGHT_ROOMS)
def test_rooms_for_a_bare_gpu_machine_import_with_the_numeric_libraries_alone(room: str) -> None:
    places = (file.relative_to(PACKAGE).with_suffix("").as_posix() for file in FILES)
    modules = [
        "neatrec." + place.replace("/", ".").removesuffix(".__init__")
        for place in places
        if f"{place}/".startswith(f"{room}/")
    ]
    assert modules
    done = _in_a_bare_interpreter("\n".join(f"import {module}" for module in modules))
    assert done.returncode == 0, done.stderr


def test_what_a_bare_gpu_machine_does_runs_with_the_numeric_libraries_alone() -> None:
    """Simulating, labels by both protocols, every model but those of `implicit`, evaluation, bundles."""
    done = _in_a_bare_interpreter(BARE_RUN)
    assert done.returncode == 0, done.stderr
    assert "neat 2" in done.stdout.splitlines()
    refused = _in_a_bare_interpreter("import duckdb")
    assert "duckdb is blocked" in refused.stderr


def test_importing_neatrec_is_cheap() -> None:
    done = _in_a_bare_interpreter(
        "import neatrec\n"
        "heavy = {'numba', 'scipy', 'pyarrow', 'duckdb', 'pydantic', 'matplotlib', 'implicit'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert done.returncode == 0, done.stderr
