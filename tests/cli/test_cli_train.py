"""`neatrec train`: what is trained, what is said, what is refused, and how it is stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from datetime import datetime, tzinfo
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from neatrec.bundle import Manifest, load_bundle, read_manifest
from neatrec.cli.main import exit_code_of
from neatrec.simulator import supermarket

SMALL = "supermarket:baskets=400,items=80"
LONG = "supermarket:baskets=3000,items=150"
EPOCHS = 100
QUICK = ["--model", "neat", "--set", "dim=8", "--set", "epochs=3"]


def train(out: Path, *options: str) -> int:
    return exit_code_of(["train", SMALL, "--out", str(out), *QUICK, *options])


def test_a_bundle_is_trained_and_answers(tmp_path: Path, capsys) -> None:
    assert train(tmp_path / "bundle", "--verbose") == 0
    said = capsys.readouterr()
    written = r"bundle in .*bundle \(neat, [\d.]+ s, [\d,]+ MB\): neatrec serve .*bundle\n"
    assert re.match(rf"0 pairs for 0 % of the items\n{written}", said.out)
    line = r"epoch (\d) of 3, [\d.]+ M pairs/s, loss [\d.]+, \d+ % of hinges active, "
    epochs = re.findall(line, said.err)
    assert sorted(set(epochs)) == ["1", "2", "3"]
    assert epochs == sorted(epochs)
    assert "\r" not in said.err  # plain lines: nobody is looking at a terminal
    assert load_bundle(tmp_path / "bundle").parameters.dim == 8
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bundle"]
    assert train(tmp_path / "bundle", "--quiet") == 0
    quiet = capsys.readouterr()
    assert all(line.startswith("warning: ") for line in quiet.err.splitlines())
    assert quiet.out.count("\n") == 2


@pytest.mark.parametrize(
    "options", [["--model", "odds"], [*QUICK, "--reproducible"]], ids=["odds", "neat"]
)
def test_equal_trainings_have_one_content_hash(options, tmp_path: Path, monkeypatch) -> None:
    """The serving table included, at another time and by another number of threads."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Clock:
            return cls(2030, 1, 1, tzinfo=tz)

    def trained(name: str, *more: str) -> Manifest:
        words = ["train", SMALL, "--out", str(tmp_path / name), "--quiet", *options, *more]
        assert exit_code_of(words) == 0
        return read_manifest(tmp_path / name)

    one = trained("one", "--threads", "1")
    monkeypatch.setattr("neatrec.bundle.store.datetime", Clock)
    same, other = trained("same", "--threads", "2"), trained("other", "-k", "5")
    assert one.created != same.created == "2030-01-01T00:00:00+00:00"
    assert one.content_hash == same.content_hash
    assert other.content_hash != one.content_hash


def test_a_terminal_gets_a_bar_that_vanishes(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert train(tmp_path / "bundle") == 0
    said = capsys.readouterr().err
    assert "\u2501" in said
    assert "epoch 3 of 3" in said
    assert said.endswith("\x1b[2K")  # nothing of it is left
    assert [line for line in said.split("\n") if line.startswith("read ")]


def test_json_is_one_object_with_what_was_made(tmp_path: Path, capsys) -> None:
    out = tmp_path / "bundle"
    assert train(out, "--json", "--seed", "7") == 0
    answer, manifest = json.loads(capsys.readouterr().out), read_manifest(out)
    expected = {"model": "neat", "kind": "paper", "bundle": str(out), "seed": 7}
    expected |= {"content_hash": manifest.content_hash, "data_hash": manifest.data_hash}
    assert expected.items() <= answer.items()
    assert answer["train_seconds"] > 0
    assert answer["peak_mb"] > 10
    assert manifest.seed == 7


def test_preset_config_and_set_are_put_over_each_other(tmp_path: Path, capsys) -> None:
    file, out = tmp_path / "plan.toml", tmp_path / "bundle"
    file.write_text('model = "neat@paper"\n[parameters]\ndim = 6\nepochs = 2\nmargin = 0.7\n')
    words = ["train", SMALL, "--out", str(out), "--config", str(file), "--set", "epochs=1", "-q"]
    assert exit_code_of(words) == 0
    expected = {"dim": 6, "epochs": 1, "margin": 0.7}  # the file over the preset, --set over it
    expected |= {"optimizer": "sgd", "batch_size": 128, "reject_observed": True}
    assert expected.items() <= read_manifest(out).parameters.items()
    assert exit_code_of([*words, "--model", "item2vec", "--set", "margin=1"]) == 2
    capsys.readouterr()
    assert exit_code_of(["show", "item2vec"]) == 0  # what it prints is a config of its training
    file.write_text(capsys.readouterr().out)
    assert exit_code_of(words) == 0
    assert load_bundle(out).parameters == type(load_bundle(out).parameters)(epochs=1)
    file.write_text('modle = "neat"\n')
    assert exit_code_of(words) == 2
    assert "key 'modle'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--model", "net"], "Did you mean 'neat'"),
        (["--model", "neat", "--set", "epoch=3"], "Did you mean 'epochs'"),
        (["--model", "neat", "--set", "epochs"], "key=value"),
        (["--model", "neat", "--set", "epochs=2", "--set", "epochs=3"], "given once for each key"),
        (["--model", "neat", "--set", "epochs=0"], "`epochs` must be at least 1"),
        (["--model", "neat@papr"], "paper"),
        (["--device", "tpu"], "`device` must be one of"),
        (["--same-category", "first"], "`same_category` must be one of last, exclude, mix"),
        (["--config", "nowhere.toml"], "cannot read nowhere.toml"),
        (["--model", "pop", "--keep-users"], "`keep_users` has no effect on model 'pop'"),
        (["--model", "neat", "--keep-users"], "`keep_users` has no effect on model 'neat'"),
    ],
)
def test_mistakes_are_named_before_any_work(options, sentence: str, tmp_path, capsys) -> None:
    out = tmp_path / "bundle"
    assert exit_code_of(["train", SMALL, "--out", str(out), *options]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said
    assert "baskets" not in said
    assert not out.exists()


@pytest.mark.parametrize("command", ["train", "leaderboard", "report"])
def test_a_missing_gpu_is_refused_before_any_work(command: str, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(
        "neatrec.cli.options.SourceArguments.read",
        lambda source, strata: pytest.fail("the baskets were read"),
    )
    assert exit_code_of([command, SMALL, "--device", "gpu"]) == 2
    assert "device 'gpu' needs CuPy" in capsys.readouterr().err


def test_the_manifest_says_whether_users_are_kept(tmp_path: Path) -> None:
    file, out = tmp_path / "orders.csv", tmp_path / "bundle"
    rows = [f"{n},{item},u{n % 5}" for n in range(40) for item in ("tea", "milk", f"i{n % 7}")]
    file.write_text("\n".join(["basket,item,user", *rows]) + "\n")
    words = ["train", str(file), "--user", "user", "--out", str(out)]
    words += ["--model", "cf", "--set", "dim=4", "--set", "epochs=2", "--keep-users"]
    assert exit_code_of(words) == 0
    assert read_manifest(out).keeps_users
    assert load_bundle(out).user_ids is not None


class Training:
    """`neatrec train` in a process of its own, in many short epochs.

    It cannot run away from the test: its messages go through a pipe of one page, which holds those
    of some fifty epochs, and are taken out byte by byte, so it waits for its reader.
    """

    def __init__(self, out: Path) -> None:
        words = ["train", LONG, "--out", str(out), "--model", "neat", "--set", "dim=16"]
        words += ["--set", f"epochs={EPOCHS}", "--reproducible", "--threads", "1", "--verbose"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "neatrec", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pipesize=4096,
        )

    def until(self, words: str) -> str:
        """Wait for a line that says `words`."""
        while line := self.process.stderr.readline().decode():
            if words in line:
                return line
        raise AssertionError(f"ended without saying {words!r}")

    def end(self) -> tuple[int, str]:
        out, errors = self.process.communicate(timeout=300)
        return self.process.returncode, (out + errors).decode()


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [(signal.SIGINT, 130, "by the user"), (signal.SIGTERM, 143, "by SIGTERM")],
)
def test_a_signal_ends_a_training_and_leaves_nothing(
    number, code, words: str, tmp_path, neatrec
) -> None:
    """A second run into the same bundle is refused meanwhile."""
    training = Training(tmp_path / "bundle")
    training.until(f"epoch 5 of {EPOCHS}")
    second = neatrec("train", SMALL, "--out", tmp_path / "bundle", *QUICK)
    training.process.send_signal(number)
    assert second.returncode == 2
    assert f"{training.process.pid}" in second.stderr
    found, said = training.end()
    assert found == code
    assert f"stopped {words}" in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_a_first_run_says_that_it_compiles_and_the_cached_code_gives_the_same_bits(
    tmp_path: Path, process
) -> None:
    words = ["train", SMALL, *QUICK, "--reproducible", "-v", "--out"]
    environment = {**os.environ, "NEATREC_CACHE": str(tmp_path / "cache")}
    first, second = (process(*words, tmp_path / name, env=environment) for name in ("one", "two"))
    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stderr.count("compiling neat kernels (first run only)") == 1
    assert "compiling" not in second.stderr
    one, two = (read_manifest(tmp_path / name).content_hash for name in ("one", "two"))
    assert one == two


def test_at_most_seven_lines_state_what_was_read_learned_and_written(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    baskets = supermarket(baskets=3_000, items=120, seed=1).baskets
    names = np.array([baskets.catalog.name(code) for code in range(len(baskets.catalog))])
    order = np.repeat(np.arange(len(baskets)), np.diff(baskets.offsets))
    columns = {"order_id": order, "customer_id": order % 900, "sku": baskets.items}
    columns |= {"product_name": names[baskets.items]}
    columns |= {"quantity": np.ones(len(order), dtype=int)}
    pacsv.write_csv(pa.table(columns), "orders.csv")
    assert exit_code_of(["train", "orders.csv"]) == 0
    said = capsys.readouterr()
    assert len((said.err + said.out).splitlines()) <= 7
    assert re.search(r"^[\d,]+ pairs for \d+ % of the items$", said.out, re.M)
    learned = re.search(r"^Learned from \d+ strong and \d+ dependent pairs: ", said.out, re.M)[0]
    assert exit_code_of(["show", "neatrec-bundle"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert learned in shown
    assert "Weights of a strong pair: " in shown
    assert f"({read_manifest(Path('neatrec-bundle')).model}, " in said.out
