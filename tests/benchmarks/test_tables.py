"""The tables of the docs are those of the records, and every script and record backs something in the docs."""

import json
import re
from pathlib import Path

import pytest
from benchmarks.harness import RESULTS, ROOT

from benchmarks import __main__ as command
from benchmarks import tables

PAGES = tables.pages()
TEXT = "\n".join(page.read_text() for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_the_tables_of_the_records(page: Path) -> None:
    assert tables.filled(page.read_text()) == page.read_text(), "run `make tables`"


def test_a_table_that_differs_is_noticed() -> None:
    text = "<!-- table: bayes-cost -->\n\n| fit | 1 |\n\n<!-- end -->"
    assert "| CPU s |" in tables.filled(text)
    with pytest.raises(SystemExit, match="no table 'no-such'"):
        tables.filled("<!-- table: no-such -->\n<!-- end -->")


def test_every_table_stands_in_a_page() -> None:
    assert set(re.findall(r"<!-- table: ([\w-]+) -->", TEXT)) == set(tables.TABLES)


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.json")), ids=lambda file: file.stem)
def test_every_record_backs_a_page(file: Path) -> None:
    assert file.stem in TEXT or json.loads(file.read_text())["command"] in TEXT, "a record that nothing shows"


def test_every_script_is_in_the_list_and_on_the_page() -> None:
    scripts = {
        file.stem
        for file in (ROOT / "benchmarks").glob("*.py")
        if not file.stem.startswith("_") and 'if __name__ == "__main__":' in file.read_text()
    } - {"tables"}
    assert scripts == set(command.SHORT) | set(command.LONG)
    page = (ROOT / "docs" / "studies" / "benchmarks.md").read_text()
    assert not [name for name in scripts if f"`{name}`" not in page]
