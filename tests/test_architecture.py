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

NUMERIC_PACKAGES = {
    *("simulator", "models", "data", "statistics", "cooccurrence", "labels"),
    *("evaluation", "bundle", "serving"),
}
NUMERIC = {
    *("numpy", "scipy", "numba", "llvmlite", "pyarrow", "safetensors"),
    *("cupy", "cupy_backends", "fastrlock"),
}
"""All that a bare GPU machine has beside Python itself."""
HEAVY = {"numba", "scipy", "pyarrow", "duckdb", "pydantic", "matplotlib", "implicit"}
COMPILED = {"compiled", "part", "loop"}
"""Decorators of compiled functions."""
FILES = sorted(file for file in PACKAGE.rglob("*.py") if file != PACKAGE / "__init__.py")


def package_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(file: Path) -> set[str]:
    """Packages that `file` imports, wherever in the file the statement stands."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("neatrec.")}


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


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_compiled_functions_stay_in_their_package(file: Path) -> None:
    """The cache key covers a folder and the one it lies in: a compiled function of another one
    would go stale."""
    tree = ast.parse(file.read_text())
    folders = ["neatrec", *file.relative_to(PACKAGE).parts[:-1]]
    own = {".".join(folders[:depth]) for depth in range(2, len(folders) + 1)[-2:]}
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("neatrec.")
        for alias in node.names
        if node.module != "neatrec.compiled"
        and not {node.module, str(node.module).rpartition(".")[0]} & own
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            COMPILED & names_in(decorator) for decorator in node.decorator_list
        ):
            used = names_in(node) & imported
            assert not used, f"{node.name} uses {sorted(used)} of another package"


def run_with(allowed: set[str], code: str) -> subprocess.CompletedProcess[str]:
    """`code` in an interpreter that has no other libraries than these."""
    others = packages_distributions().keys() - {*allowed, "neatrec"}
    blocker = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {others!r}:
            raise ImportError(f"{{name}} is blocked: it may be missing on this machine")
sys.meta_path.insert(0, Blocker())
sys.path.insert(0, {str(PACKAGE.parent)!r})
"""
    words = [sys.executable, "-c", blocker + code]
    return subprocess.run(words, capture_output=True, text=True, timeout=300)


def test_packages_for_a_bare_gpu_machine_import_with_the_numeric_libraries_alone() -> None:
    """Each module in one interpreter; the first that cannot be imported is named."""
    files = [file.relative_to(PACKAGE).with_suffix("") for file in FILES]
    assert {file.parts[0] for file in files} >= NUMERIC_PACKAGES
    modules = [
        ".".join(("neatrec", *file.parts)).removesuffix(".__init__")
        for file in files
        if file.parts[0] in NUMERIC_PACKAGES
    ]
    done = run_with(NUMERIC, "\n".join(f"import {module}" for module in modules))
    assert done.returncode == 0, done.stderr
    assert "duckdb is blocked" in run_with(NUMERIC, "import duckdb").stderr


def test_importing_neatrec_is_cheap() -> None:
    code = f"import neatrec\nassert not {HEAVY!r} & set(sys.modules), set(sys.modules)"
    done = run_with(NUMERIC, code)
    assert done.returncode == 0, done.stderr
