"""What every command keeps to: exit codes, streams, JSON errors, no traceback."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from neatrec.cli.main import PANELS, app, exit_code_of
from neatrec.cli.output import print_table
from neatrec.compiled import cache_folder
from neatrec.errors import GateError
from neatrec.io.options import option_infos

SMALL = "supermarket:baskets=400,items=80"


def test_help_names_every_command(neatrec) -> None:
    shown = neatrec("--help").stdout
    for panel, commands in PANELS.items():
        assert panel in shown
        assert all(f"│ {command} " in shown for command in commands)


def test_the_version_needs_no_parser() -> None:
    code = "import sys; import neatrec.cli; neatrec.cli.run(); print('typer' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "neatrec 0.1.0\nFalse\n"


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from neatrec.cli.main import exit_code_of; code = exit_code_of(['--help']); "
        "print(code, {'numpy', 'pyarrow', 'scipy', 'numba', 'pydantic', 'fastapi', 'duckdb'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("0 set()\n")


def every_command(command: Any, path: str = "neatrec") -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, part in getattr(command, "commands", {}).items():
        yield from every_command(part, f"{path} {name}")


VERBS = "Accept|Allow|Apply|Count|Find|Give|Keep|Leave|Let|Read|Show|Take|Train|Use|Write"


def test_the_help_of_every_option_is_a_noun_phrase() -> None:
    helps = {
        f"{path} {parameter.opts[0]}": parameter.help
        for path, command in every_command(typer.main.get_command(app))
        for parameter in command.params
        if not parameter.opts[0].startswith("--help")
        and not parameter.opts[0].endswith("-completion")
    }
    assert len(helps) > 200
    for where, text in helps.items():
        words = " ".join((text or "").split())
        assert re.fullmatch(rf"(?!({VERBS}|So many)\b)[A-Z].*[.)]", words), where


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("tr", "train"),
        ("train --mod", "--model"),
        ("check --basket-p", "--basket-per-line"),
        ("publish --ro", "--rollback"),
    ],
)
def test_a_shell_completes_commands_and_options(typed: str, completed: str, process) -> None:
    words = {
        "COMP_WORDS": f"neatrec {typed}",
        "COMP_CWORD": str(len(typed.split())),
        "_NEATREC_COMPLETE": "complete_bash",
    }
    done = process(env={**os.environ, **words})
    assert (done.returncode, done.stdout.split()) == (0, [completed])


def test_options_of_the_data_are_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["check", "--help"]) == 0
    shown = capsys.readouterr().out
    named = [f"--{name.replace('_', '-')} " for name, info in option_infos().items() if info.panel]
    assert all(name in shown for name in named)
    assert exit_code_of(["labels", "--help"]) == 0
    shown = capsys.readouterr().out
    assert not any(name in shown for name in named)
    assert "neatrec check --help" in " ".join(shown.replace("│", "").split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["labels"], "Missing argument"),
        (["labels", SMALL, "--levle", "0.05"], "No such option"),
        (["labels", SMALL, "--level", "abc"], "Invalid value for '--level'"),
        (["labels", SMALL, "--level", "5"], "must be between 0 and 1"),
        (["labels", SMALL, "--protocol", "papr"], "Did you mean 'paper'"),
        (["labels", SMALL, "--expected", "quasy"], "Did you mean 'quasi'"),
        (["labels", SMALL, "--engine", "sprak"], "Did you mean 'spark'"),
        (["labels", SMALL, "--threads", "0"], "Invalid value for '--threads'"),
        (["labels", SMALL, "--threads", "100000"], "Invalid value for '--threads'"),
        (["labels", SMALL, "--strata", "moon"], "moon"),
        (["labels", SMALL, "--null-within", "siz"], "Did you mean 'size'"),
        (["labels", SMALL, "--null-rounds", "-1"], "--null-rounds"),
        (["labels", SMALL, "--out", "labels.txt"], "a file ending in .parquet or .csv"),
        (["labels", SMALL, "--out", "no/such/folder/labels.csv"], "(No such file or directory)"),
        (["train", SMALL, "-k", "0"], "`neatrec train --help` lists the options."),
        (["labels", "supermarket:basket=3"], "Did you mean 'baskets'"),
        (["labels", SMALL, "--basket", "order"], "knows its own columns"),
        (["labels", SMALL, "--out", "/proc/labels.csv"], "a file that can be written"),
        (["demo", "--out", "/proc/self"], "a folder that can be written"),
        (["labels", SMALL, "--strata", "moon", "--strata", "store"], "moon"),
        (["check", "nothing-here.csv"], "nothing-here.csv"),
        (["nonsense"], "No such command"),
        (["recomend"], "No such command 'recomend'. Did you mean 'recommend'? `neatrec --help`"),
    ],
)
def test_bad_usage_is_exit_2_and_a_sentence(arguments: list[str], sentence: str, capfd) -> None:
    assert exit_code_of(arguments) == 2
    out, err = capfd.readouterr()
    assert sentence in err
    assert "Traceback" not in err
    assert out == ""


def test_an_error_under_json_is_an_object_on_stdout(neatrec) -> None:
    done = neatrec("labels", SMALL, "--level", "5", "--json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 2
    assert error["kind"] == "ParameterError"
    assert "between 0 and 1" in error["message"]
    usage = json.loads(neatrec("labels", "--json").stdout)["error"]
    assert usage["kind"] == "UsageError"


def test_a_gate_that_says_no_is_exit_3_and_our_own_failure_exit_1(monkeypatch, capsys) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise GateError("coverage fell from 80 % to 12 %")

    monkeypatch.setattr("neatrec.cli.main.app", refuse)
    assert exit_code_of([]) == 3
    assert "coverage fell" in capsys.readouterr().err

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("neatrec.cli.main.app", fail)
    assert exit_code_of(["--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"]["kind"] == "ZeroDivisionError"
    assert "--verbose" in printed.err


def test_an_end_of_file_inside_is_not_reported_as_an_interrupt(
    monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut_off(*_: object, **__: object) -> None:
        raise EOFError("a file of ours is cut off")

    monkeypatch.setattr("neatrec.check.run.check_baskets", cut_off)
    assert exit_code_of(["check", SMALL, "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"]["kind"] == "EOFError"
    assert (
        "neatrec failed: EOFError: a file of ours is cut off. This is a bug in neatrec"
        in printed.err
    )
    assert "stopped" not in printed.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_with_their_exit_code(tmp_path: Path, number: int, code: int) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "neatrec",
            "labels",
            "supermarket:baskets=40000",
            "--null-rounds",
            "1000",
            "-v",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while "shuffle 1" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()  # one that did not listen does not outlive the test
    assert process.returncode == code
    assert "stopped by" in errors
    assert "Traceback" not in errors


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    words = f"{sys.executable} -m neatrec labels {SMALL} --quiet | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
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


def test_names_with_control_characters_are_escaped_in_json(neatrec, tmp_path: Path) -> None:
    name = "tea\x9b31m\u202e"
    (tmp_path / "orders.csv").write_text(
        "order_id,sku\n" + "".join(f"{o},{name}\n{o},milk\n" for o in range(20))
    )
    done = neatrec("check", "orders.csv", "--basket", "order_id", "--item", "sku", "--json")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert name in json.dumps(json.loads(done.stdout), ensure_ascii=False)


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


def test_a_table_wraps_long_names_between_words(
    monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "Stone Vale Extra Dish Soap with Lemon and Mint, 24 oz"
    print_table(
        "Pairs", ["query", "goes with", "false-discovery"], [[name, name, "planted-complement"]]
    )
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert {*name.split(), "false-discovery", "planted-complement"} <= set(shown.split())
