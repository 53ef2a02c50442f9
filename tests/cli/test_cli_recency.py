"""The commands of docs/how-to/recency.md."""

import shlex
from pathlib import Path

import pytest

from neatrec.serving import ServingTable

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "recency.md"


@pytest.mark.long
def test_the_commands_of_the_page_run(process, tmp_path: Path) -> None:
    commands = [line.removeprefix("$ ") for line in PAGE.read_text().splitlines() if line.startswith("$ ")]
    assert len(commands) == 5
    said = {}
    for command in commands:
        done = process(*shlex.split(command)[1:])
        assert done.returncode == 0, done.stderr
        said[command] = done.stdout
    assert "Weighted: half-life 90 days." in said[commands[2]]
    assert "(weighted: " in said[commands[1]]
    assert ServingTable.open(tmp_path / "recent").pairs.half_life == 90.0
