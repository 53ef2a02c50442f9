"""Awkward files on the command line: an answer, or exit 2 and a sentence (an object with --json); never a traceback."""

import json
import re
from pathlib import Path

import pytest

from helpers.bad_files import BAD_FILES, POSITIONS, BadFile, options_for
from neatrec.cli.main import exit_code_of

NOT_OPTIONS = {"attributes"}
"""`check` has no strata to name them for."""


def words_for(bad: BadFile, folder: Path) -> list[str]:
    words = []
    for name, value in options_for(bad, folder).items():
        for entry in value if isinstance(value, tuple | list) else [value]:
            words += [f"--{name.replace('_', '-')}", str(entry)]
    return words


FROM_THE_PROMPT = [
    bad
    for bad in BAD_FILES
    if not NOT_OPTIONS & set(bad.options)
    and (bad.expected == "refuses" or bad.options != POSITIONS)
]
"""Refusals, and what other options make readable; that the rest is read: tests/io."""


@pytest.mark.parametrize("bad", FROM_THE_PROMPT, ids=lambda bad: bad.name)
def test_awkward_file_from_the_prompt(bad: BadFile, tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    code = exit_code_of(["check", bad.write(tmp_path), *words_for(bad, tmp_path), "--json"])
    out, err = capfd.readouterr()
    answer = json.loads(out)
    assert "Traceback" not in err
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", err)
    if bad.expected == "reads":
        assert code == 0, err
        assert answer["baskets"] >= 1
    else:
        assert code == 2, err
        assert answer["error"]["message"] in err
        assert re.search(bad.match, err, flags=re.DOTALL)


@pytest.mark.parametrize(
    "command",
    ["train supermarket --out u:secret@h/x", "recommend u:secret@h/x tea", "publish u:secret@h s"],
)
def test_a_path_like_a_login_is_refused_and_not_repeated(
    command: str, tmp_path, monkeypatch, capfd
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code_of(command.split()) == 2
    assert "must be a path on this machine, not a login" in (said := "".join(capfd.readouterr()))
    assert "secret" not in said
    assert not list(tmp_path.iterdir())
