"""One run at a time into one bundle; the lock of a dead run stops nobody."""

import json
import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.toyshop import toy_baskets
from neatrec.bundle import bundle_lock, save_bundle
from neatrec.errors import BundleError
from neatrec.models import make_model

HOLDER = """
import sys, time
from neatrec.bundle import bundle_lock
with bundle_lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(bundle: Path) -> subprocess.Popen[str]:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(bundle)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_writer_is_refused_until_the_first_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bundle = tmp_path / "bundle"
    other = holder(bundle)
    try:
        assert json.loads((tmp_path / "bundle.lock").read_text())["pid"] == other.pid
        with pytest.raises(
            BundleError,
            match=rf"bundle is being written by process {other.pid} on .*, since .*Wait for it",
        ):
            bundle_lock(bundle).__enter__()
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert (tmp_path / "bundle.lock").exists()
    with caplog.at_level(logging.INFO), bundle_lock(bundle):
        assert f"took over the lock {tmp_path}/bundle.lock of process {other.pid}" in caplog.text
    assert not (tmp_path / "bundle.lock").exists()


def test_the_holder_may_save_and_keeps_its_lock(tmp_path: Path) -> None:
    model = make_model("pop").fit(toy_baskets(60))
    with bundle_lock(tmp_path / "bundle"):
        save_bundle(model, tmp_path / "bundle", seed=0)
        assert (tmp_path / "bundle.lock").exists()
    assert not (tmp_path / "bundle.lock").exists()


def test_a_lock_can_be_taken_again_and_again(tmp_path: Path) -> None:
    bundle, file = tmp_path / "bundle", tmp_path / "bundle.lock"
    with pytest.raises(ZeroDivisionError), bundle_lock(bundle):
        1 / 0  # noqa: B018
    assert not file.exists()
    for left in (None, b"\x00rubbish"):  # what another program may have left locks nothing
        if left:
            file.write_bytes(left)
        with bundle_lock(bundle):
            assert json.loads(file.read_text())["pid"]
        assert not file.exists()
