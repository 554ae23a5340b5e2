"""Debian's kernels with four cards, without a driver. Needs what scripts/deps-vm installs, the model and target/release/hero-device."""

import subprocess
import sys

import pytest

from hero.guest import run
from tests.vm import machine

MISSING = [str(path) for path in (run.MODEL, run.PROGRAM, machine.VENV / "bin/vng") if not path.exists()]
SECONDS = 1500  # four boots among them; an idle machine needs a tenth


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}")
@pytest.mark.parametrize("series", ["6.12", "newest"])
def test_cards_without_a_driver(series):
    command = [sys.executable, run.__file__, "--kernel", series]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
