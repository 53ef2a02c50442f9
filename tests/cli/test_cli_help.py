"""The help of the commands: their number, the length of a page, the form of the sentences."""

import pytest

from neatrec.cli.main import PANELS, app, exit_code_of

COMMANDS = [name for commands in PANELS.values() for name in commands]


def test_there_are_twelve_commands() -> None:
    assert len(COMMANDS) == len(app.registered_commands) == 12


def test_the_help_of_train_fits_on_a_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert exit_code_of(["train", "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 50
