"""Which package may import which, and what the imports must never allow."""

import ast
import subprocess
import sys
from collections import defaultdict
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "neatrec"

BASE = {"errors", "text", "atomic", "compiled", "memory", "data", "_version"}
COUNTS = BASE | {"statistics", "cooccurrence"}
MODELS = COUNTS | {"models"}
ALLOWED: dict[str, set[str]] = {
    "text": set(),
    "atomic": set(),
    "compiled": set(),
    "memory": set(),
    "_version": set(),
    "errors": {"text"},
    "data": {"compiled", "errors", "text"},
    "simulator": BASE,
    "io": COUNTS | {"simulator"},
    "statistics": BASE,
    "cooccurrence": BASE | {"statistics"},
    "labels": COUNTS,
    "models": MODELS | {"io"},
    "evaluation": MODELS | {"labels"},
    "bundle": MODELS,
    "serving": MODELS | {"bundle"},
    "report": MODELS | {"labels", "evaluation", "bundle", "serving", "training", "leaderboard"},
    "check": COUNTS | {"labels", "io"},
    "release": MODELS | {"io", "bundle", "serving"},
    "training": MODELS | {"io", "bundle", "serving", "release"},
    "leaderboard": MODELS | {"labels", "evaluation"},
    "service": BASE | {"bundle", "serving"},
    "shop": MODELS | {"io", "bundle", "serving", "release", "training", "leaderboard", "service"},
    "demo": MODELS
    | {"simulator", "labels", "serving", "check", "training", "leaderboard", "report"},
}
"""Packages of `neatrec` and what each may import."""
ALLOWED["cli"] = set(ALLOWED)
ALLOWED["__main__"] = {"cli"}

NUMERIC_PACKAGES = (
    "simulator",
    "models",
    "data",
    "statistics",
    "cooccurrence",
    "labels",
    "evaluation",
    "bundle",
    "serving",
)
NUMERIC = (
    "numpy",
    "scipy",
    "numba",
    "llvmlite",
    "pyarrow",
    "safetensors",
    "cupy",
    "cupy_backends",
    "fastrlock",
)
"""All that a bare GPU machine has beside Python itself."""
BARE_RUN = """
import tempfile
from neatrec.bundle import load_bundle, save_bundle
from neatrec.data.splits import half
from neatrec.evaluation.task import build_task, evaluate_model
from neatrec.labels import make_labels
from neatrec.models import MODEL_NAMES, Run, make_model
from neatrec.simulator import supermarket

split = half(supermarket(baskets=600, items=80, seed=1).baskets)
for protocol in ("calibrated", "paper"):
    labels = make_labels(split.test, protocol=protocol, levels=(0.05,))
task = build_task(split.train, split.test, labels, candidates=20, queries=20, carts=20)
for name in set(MODEL_NAMES) - {"cf", "bprmf"}:  # those two are the library `implicit`
    small = {"dim": 8, "epochs": 1} if name.startswith(("neat", "item2vec", "triple2vec")) else {}
    model = make_model(name, small).fit(split.train, Run(rng=0, threads=1))
    ranks = evaluate_model(model, task)
    with tempfile.TemporaryDirectory() as folder:
        save_bundle(model, folder + "/bundle", seed=0)
        assert load_bundle(folder + "/bundle").name == name
    print(name, len(ranks.label_ranks))
"""
COMPILED = {"compiled", "part", "loop"}
"""Decorators of compiled functions."""
FILES = sorted(file for file in PACKAGE.rglob("*.py") if file != PACKAGE / "__init__.py")


def package_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(file: Path) -> set[str]:
    """Packages that `file` imports, wherever in the file the statement stands."""
    packages = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module]
                if node.module != "neatrec"
                else [f"neatrec.{alias.name}" for alias in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        packages |= {name.split(".")[1] for name in names if name.startswith("neatrec.")}
    return packages


def import_graph() -> dict[str, set[str]]:
    """Package -> packages that its modules import, read off the sources."""
    graph: dict[str, set[str]] = defaultdict(set)
    for file in FILES:
        graph[package_of(file)] |= imports_of(file)
    return graph


def reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    """Every package that importing `start` can bring in, directly or through others."""
    found: set[str] = set()
    queue = [start]
    while queue:
        for package in graph.get(queue.pop(), set()) - found:
            found.add(package)
            queue.append(package)
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_package_imports_only_what_it_may(file: Path) -> None:
    package = package_of(file)
    assert package in ALLOWED, f"{package} is missing in ALLOWED"
    forbidden = imports_of(file) - ALLOWED[package] - {package}
    assert not forbidden, f"{file.relative_to(PACKAGE)} must not import {sorted(forbidden)}"


@pytest.mark.parametrize("package", ["models", "cooccurrence", "statistics", "bundle", "serving"])
def test_no_label_can_leak_into_training(package: str) -> None:
    """Nothing that a model is trained with reaches labels or evaluation, over any chain of imports
    in the sources."""
    leaks = reachable(package, import_graph()) & {"labels", "evaluation", "leaderboard"}
    assert not leaks, f"{package} can import {sorted(leaks)}"


def names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_compiled_functions_stay_in_their_package() -> None:
    """The cache key covers a folder and the one it lies in: a compiled function of another one
    would go stale."""
    for file in FILES:
        tree = ast.parse(file.read_text())
        decorated = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and any(COMPILED & names_in(decorator) for decorator in node.decorator_list)
        }
        folders = file.relative_to(PACKAGE).parts[:-1]
        own = [".".join(("neatrec", *folders[:depth])) for depth in range(1, len(folders) + 1)][-2:]
        imported = {
            alias.asname or alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("neatrec.")
            for alias in node.names
            if node.module not in (*own, "neatrec.compiled")
            and (node.module or "").rsplit(".", 1)[0] not in own
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in decorated:
                used = names_in(node) & set(imported)
                assert not used, f"{file.name}: {node.name} uses {sorted(used)} of another package"


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
    return subprocess.run(
        [sys.executable, "-c", blocker + code], capture_output=True, text=True, timeout=300
    )


def test_packages_for_a_bare_gpu_machine_import_with_the_numeric_libraries_alone() -> None:
    """Each module in one interpreter; the first that cannot be imported is named."""
    places = [file.relative_to(PACKAGE) for file in FILES]
    assert set(NUMERIC_PACKAGES) <= {place.parts[0] for place in places}
    modules = [
        "neatrec." + place.with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        for place in places
        if place.parts[0] in NUMERIC_PACKAGES
    ]
    done = _in_a_bare_interpreter("\n".join(f"import {module}" for module in modules))
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_what_a_bare_gpu_machine_does_runs_with_the_numeric_libraries_alone() -> None:
    """Simulating, labels by both protocols, every model but those of `implicit`, evaluation,
    bundles."""
    done = _in_a_bare_interpreter(BARE_RUN)
    assert done.returncode == 0, done.stderr
    assert "neat 2" in done.stdout.splitlines()
    refused = _in_a_bare_interpreter("import duckdb")
    assert "duckdb is blocked" in refused.stderr


def test_importing_neatrec_is_cheap() -> None:
    done = _in_a_bare_interpreter(
        "import neatrec\n"
        "heavy = {'numba', 'scipy', 'pyarrow', 'duckdb', 'pydantic', 'matplotlib', 'implicit'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert done.returncode == 0, done.stderr
