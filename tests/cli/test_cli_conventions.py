"""Conventions of every command: exit codes, streams, JSON errors, no traceback."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from neatrec.cli.main import PANELS, app, exit_code_of
from neatrec.compiled import cache_folder
from neatrec.errors import GateError

SMALL = "supermarket:baskets=400,items=80"


def test_help_names_the_twelve_commands_and_that_of_train_fits_on_a_screen(
    neatrec, monkeypatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = neatrec("--help").stdout
    names = [name for commands in PANELS.values() for name in commands]
    assert len(names) == len(app.registered_commands) == 12
    assert all(f"│ {name} " in shown for name in names)
    assert all(panel in shown for panel in PANELS)
    assert len(neatrec("train", "--help").stdout.splitlines()) <= 50


HEAVY = {"numpy", "pyarrow", "scipy", "numba", "pydantic", "fastapi", "duckdb"}


def test_help_loads_nothing_heavy() -> None:
    code = f"import sys; from neatrec.cli.main import exit_code_of as run; run(['--help']); assert not {HEAVY} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=300)


VERBS = "Accept|Allow|Apply|Count|Find|Give|Keep|Leave|Let|Read|Show|Take|Train|Use|Write"


def test_the_help_of_every_option_is_a_noun_phrase() -> None:
    commands = typer.main.get_command(app).commands.items()
    parameters = [(name, each) for name, command in commands for each in command.params]
    assert len(parameters) > 200
    for name, each in parameters:
        words = " ".join((each.help or "").split())
        assert each.opts[0] == "--help" or re.fullmatch(
            rf"(?!({VERBS}|So many)\b)[A-Z].*[.)]", words
        ), (name, each.opts)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["labels"], "Missing argument"),
        (["labels", SMALL, "--levle", "0.05"], "No such option"),
        (["labels", SMALL, "--level", "abc"], "Invalid value for '--level'"),
        (["labels", SMALL, "--level", "5"], "must be between 0 and 1"),
        (["labels", SMALL, "--engine", "sprak"], "Did you mean 'spark'"),
        (["labels", SMALL, "--threads", "100000"], "Invalid value for '--threads'"),
        (["labels", SMALL, "--strata", "moon"], "moon"),
        (["labels", SMALL, "--null-within", "siz"], "Did you mean 'size'"),
        (["labels", SMALL, "--out", "labels.txt"], "a file ending in .parquet or .csv"),
        (["labels", SMALL, "--out", "no/such/folder/labels.csv"], "(No such file or directory)"),
        (["train", SMALL, "-k", "0"], "`neatrec train --help` lists the options."),
        (["labels", "supermarket:basket=3"], "Did you mean 'baskets'"),
        (["labels", SMALL, "--basket", "order"], "knows its own columns"),
        (["demo", "--out", "/proc/self"], "a folder that can be written"),
        (["leaderboard", SMALL, "--models", "shrunk-lft"], "Did you mean 'shrunk-lift'?"),
        (["leaderboard", SMALL, "--models", "popco@papr"], "'papr'"),
        (["leaderboard", SMALL, "--models", "no_module:Model"], "cannot import the model"),
        (["leaderboard", SMALL, "--split", "halves"], "Did you mean 'half'?"),
        (["recomend"], "No such command 'recomend'. Did you mean 'recommend'? `neatrec --help`"),
    ],
)
def test_bad_usage_is_exit_2_and_a_sentence(arguments: list[str], sentence: str, capfd) -> None:
    assert exit_code_of(arguments) == 2
    out, err = capfd.readouterr()
    assert sentence in err
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (GateError("coverage fell from 80 % to 12 %"), 3, "error: coverage fell"),
        (
            ZeroDivisionError("of ours"),
            1,
            "error: neatrec failed: ZeroDivisionError: of ours. This is a bug in neatrec; run "
            "again with --verbose",
        ),
        (EOFError("cut off"), 1, "error: neatrec failed: EOFError: cut off. This is a bug"),
        (KeyboardInterrupt(), 130, "stopped by the user"),
    ],
)
def test_an_error_inside_a_command_has_its_exit_code(
    error: BaseException, code: int, words: str, monkeypatch, neatrec
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("neatrec.check.run.check_baskets", fail)
    done = neatrec("check", SMALL, "--json")
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    kind = "Interrupted" if code == 130 else type(error).__name__
    assert json.loads(done.stdout)["error"]["kind"] == kind


def test_an_interrupt_that_a_library_renames_is_an_interrupt(monkeypatch, neatrec) -> None:
    """DuckDB ends a query on Ctrl-C with an error of its own."""

    def interrupted(*_: object, **__: object) -> None:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr("neatrec.check.run.check_baskets", interrupted)
    monkeypatch.setattr("neatrec.cli.main._signals", [signal.SIGINT])
    done = neatrec("check", SMALL)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, "stopped by the user")


@pytest.mark.parametrize("arguments", [f"labels {SMALL} --quiet", "--help"])
def test_a_reader_that_leaves_early_is_no_error(arguments: str) -> None:
    command = f"{sys.executable} -m neatrec {arguments} | head -c 1 > /dev/null"
    words = ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "0"
    assert "error" not in done.stderr.lower()


def test_logs_go_to_stderr_as_lines_or_json_or_not_at_all(neatrec) -> None:
    plain = neatrec("check", SMALL)
    assert "read " in plain.stderr
    assert "read " not in neatrec("check", SMALL, "--quiet").stderr
    for line in neatrec("check", SMALL, "--log-json", "--verbose").stderr.splitlines():
        assert {"time", "level", "logger", "message"} <= json.loads(line).keys()


NO_NETWORK = """
import os, sys
def refuse(event, _):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        os.write(2, b"the network was asked for")
        os._exit(99)
sys.addaudithook(refuse)
"""


def test_nothing_is_written_elsewhere_and_nothing_is_sent(process, tmp_path: Path) -> None:
    home, site = tmp_path / "home", tmp_path / "site"
    for folder in (home, site):
        folder.mkdir()
    (site / "sitecustomize.py").write_text(NO_NETWORK)
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    # compiled code is taken from where it is; that it goes where NEATREC_CACHE says: test_compiled.py
    named = {
        "HOME": home,
        "NEATREC_CACHE": cache_folder(),
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": 1,
    }
    environment = {**os.environ, **{name: str(value) for name, value in named.items()}}
    assert process("labels", SMALL, "--out", "labels.csv", env=environment).returncode == 0
    assert {entry.name for entry in tmp_path.iterdir()} == {"home", "site", "labels.csv"}
    assert not list(home.iterdir())
    asks = [
        sys.executable,
        "-c",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')",
    ]
    assert (
        subprocess.run(asks, env=environment, capture_output=True).returncode == 99
    )  # the guard itself works


def test_the_source_is_never_overwritten(neatrec, tmp_path: Path) -> None:
    text = "order_id,sku\n" + "".join(f"{o},{i}\n" for o in range(9) for i in "abc")
    (tmp_path / "orders.csv").write_text(text)
    for source in ("orders.csv", "*.csv", "."):
        done = neatrec(
            "labels", source, "--basket", "order_id", "--item", "sku", "--out", "orders.csv"
        )
        assert done.returncode == 2
        assert "none of the files that are read" in done.stderr
    assert (tmp_path / "orders.csv").read_text() == text


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", SMALL],
        ["labels", SMALL],
        ["leaderboard", SMALL, "--models", "popco,llr", "--min-basket", "2"],
        ["show"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_tables_fit_80_columns_without_breaking_words(
    arguments: list[str], tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = {}
    for columns in (80, 300):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert exit_code_of([*arguments, "--quiet"]) == 0
        shown[columns] = capsys.readouterr().out
    assert max(map(len, shown[80].splitlines())) <= 80
    words = {
        columns: {word for word in text.split() if word.isalpha()}
        for columns, text in shown.items()
    }
    assert words[80] == words[300]


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
