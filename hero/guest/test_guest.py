"""Debian's kernels with four cards. Needs what scripts/deps-vm installs, the model and target/release/hero-device; with a driver, hero.ko."""

import subprocess
import sys
from pathlib import Path

import pytest

from hero.guest import run
from tests.vm import kernels, machine

MISSING = [str(path) for path in (run.MODEL, run.PROGRAM, machine.VENV / "bin/vng") if not path.exists()]
SECONDS = 1500  # four boots among them; an idle machine needs a tenth
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}")]


def _run(*options):
    command = [sys.executable, run.__file__, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.parametrize("series", ["6.12", "newest"])
def test_cards_without_a_driver(series):
    _run("--kernel", series)


@pytest.mark.parametrize("series", ["6.1", "newest"])
def test_the_policies_of_the_driver(series):
    module = run.ROOT / "target/hero/linux" / kernels.get(series).version / "hero.ko"
    if not module.exists():
        pytest.skip(f"missing: {module}: make hero-module")
    host = Path(run.__file__).with_name("driver_host.py")
    _run("--kernel", series, "--module", module, "--script", host.with_name("policy_guest.py"), "--wires", "namespaces",
         "--host", f"exec {sys.executable} {host} $SHARED", "--append", "nokaslr no_timer_check", "--seconds", str(SECONDS - 300))
