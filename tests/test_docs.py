"""What the pages name exists: modules, functions and files of the repository, links, options of the
command line."""

import ast
import json
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from benchmarks import tables
from benchmarks.harness import RESULTS
from docs import generated

import neatrec
from neatrec.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
NAMES = re.compile(r"\bneatrec(?:\.[A-Za-z_]\w*)+")
CODE = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"(?:^|\$ |-m )neatrec ([a-z]+)(?=\s|$)(.*)", flags=re.MULTILINE)
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
FILE = re.compile(r"`((?:src|tests|benchmarks|docs)/[\w./-]+\.\w+)`")


def exists(name: str) -> bool:
    """Whether the dotted name is a module, or an attribute of one."""
    try:
        return pkgutil.resolve_name(name) is not None
    except (AttributeError, ModuleNotFoundError) as error:
        if not (error.name or "").startswith("neatrec") and isinstance(error, ModuleNotFoundError):
            raise
        return False


def names_of(text: str) -> set[str]:
    """Dotted names in prose, and what Python blocks import."""
    names = {name for name in NAMES.findall(text) if name != "neatrec.toml"}
    for block in CODE.findall(text):
        try:
            tree = ast.parse(block)
        except SyntaxError:  # a block of signatures
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "neatrec":
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_name_on_a_page_can_be_imported(page: Path) -> None:
    missing = sorted(name for name in names_of(page.read_text()) if not exists(name))
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_file_and_link_of_a_page_is_there(page: Path) -> None:
    text = page.read_text()
    missing = [file for file in FILE.findall(text) if not (ROOT / file).exists()]
    missing += [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not missing


def test_every_page_that_the_code_names_is_there() -> None:
    files = [
        file for folder in ("src", "tests", "benchmarks") for file in ROOT.glob(f"{folder}/**/*.py")
    ]
    named = {page for file in files for page in re.findall(r"\bdocs/[\w/-]+\.md", file.read_text())}
    assert named
    assert not [page for page in sorted(named) if not (ROOT / page).exists()]


def test_the_reference_names_everything_public() -> None:
    pages = {
        name: (ROOT / "docs" / "reference" / f"{name}.md").read_text()
        for name in ("command-line", "python", "http")
    }
    assert all("<!-- generated: " in page for page in pages.values())
    shown = {name: generated.filled(page) for name, page in pages.items()}
    assert not [page for page in shown.values() if "<!-- generated" in page]
    assert not [
        name
        for name in neatrec.__all__
        if f"## `{name}`\n" not in shown["python"] and name != "__version__"
    ]
    for name, command in COMMANDS.items():
        part = shown["command-line"].split(f"## `neatrec {name}")[1].split("\n## ")[0]
        for option in command.params:
            is_option = option.opts[0].startswith("-")
            word = option.opts[0] if is_option else option.metavar or option.name.upper()
            shown_here = word.replace("|", "\\|") in part
            assert shown_here or option.hidden or option.name == "help", (name, word)
    assert "`--basket COLUMN`" in shown["command-line"]
    assert "## `POST /v1/cart/complements`" in shown["http"]


def wrong_words(text: str) -> list[str]:
    """Commands and options in a page's command lines that the command line does not have."""
    wrong = []
    fence = re.compile(r"^```\w*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
    lines = [*fence.findall(text), *re.findall(r"`([^`\n]+)`", fence.sub("", text))]
    for name, rest in COMMAND.findall("\n".join(lines)):
        if name not in COMMANDS:
            wrong.append(f"neatrec {name}")
            continue
        parameters = COMMANDS[name].params
        options = {word for each in parameters for word in (*each.opts, *each.secondary_opts)}
        flags = re.findall(r"(?<!\S)(--[a-z][a-z-]*)", rest.split("#")[0].split("||")[0])
        wrong += [f"neatrec {name} {flag}" for flag in flags if flag not in options | {"--help"}]
    return wrong


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=page_id)
def test_every_command_line_of_a_page_has_real_options(page: Path) -> None:
    assert not wrong_words(page.read_text())


def test_every_promise_has_its_test_and_they_stay_short() -> None:
    text = (ROOT / "docs" / "reference" / "promises.md").read_text()
    promised = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert text.count("\n| ") - 1 == len(promised) <= 25
    lines = 0
    for file, name in promised:
        tree = ast.parse((ROOT / file).read_text())
        found = [node for node in tree.body if getattr(node, "name", "") == name]
        assert found, f"there is no {file}::{name}"
        lines += sum((node.end_lineno or 0) - node.lineno + 1 for node in found)
    assert lines <= 1500


def test_the_tables_of_the_pages_are_those_of_the_records() -> None:
    different = [page.name for page in PAGES if tables.filled(page.read_text()) != page.read_text()]
    assert not different, "run `make tables`"
    text = "\n".join(page.read_text() for page in PAGES)
    assert set(re.findall(r"<!-- table: ([\w-]+) -->", text)) == set(tables.TABLES)


def test_the_chart_of_the_readme_shows_the_records() -> None:
    chart = (ROOT / "docs" / "pictures" / "hit-rate.svg").read_text()
    for claim in tables.claims():
        assert f"{claim.protocol} labels: {claim.statistic}" in chart, "run `make pictures`"
        assert f">{claim.statistic_hit:.3f}<" in chart
        assert f">{claim.hit:.3f} (difference {claim.interval})<" in chart


def test_every_record_has_its_script_and_a_page_that_shows_it() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    for file in sorted(RESULTS.glob("*.json")):
        record = json.loads(file.read_text())
        assert (ROOT / "benchmarks" / f"{record['benchmark']}.py").is_file(), file.name
        assert record["command"].startswith(f"python -m benchmarks.{record['benchmark']}"), (
            file.name
        )
        assert record["results"], file.name
        assert record["commit"] != "unknown" or record["recorded_in"], file.name
        assert file.stem in text or record["command"] in text, f"{file.name}: no page shows it"
