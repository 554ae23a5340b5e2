"""The driver for Linux in virtual machines. Needs what scripts/deps-vm installs, the model, target/release/hero-device, `make hero-module`, and
root; one test needs a Bora, too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hero.guest import run
from tests.vm import kernels, machine

MISSING = [str(path) for path in (run.MODEL, run.PROGRAM, run.MODULES, machine.VENV / "bin/vng") if not path.exists()]
IP6 = run.ROOT / "target/hero/libhero-xbar-6.so"
BORA = Path(os.environ.get("BORA", run.ROOT / "target/debug/bora"))
SECONDS = 3600  # an idle machine needs a tenth
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}"),
              pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, as root")]


def _run(series, *options):
    if not run.module_of(kernels.get(series)).exists():
        pytest.skip(f"no {run.module_of(kernels.get(series))}: make hero-module")
    command = [sys.executable, run.__file__, "--kernel", series, "--driver", "--seconds", str(SECONDS), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.parametrize("series", kernels.SERIES)
def test_driver(series):
    _run(series)


def test_driver_for_long():
    _run("newest", "--steps", "bring_up,tcp_large,tcp_fast_large,many_events,many_removals")


@pytest.mark.parametrize("series", ["6.1", "newest"])
def test_policies(series):
    _run(series, "--script", "policy_guest.py")


@pytest.mark.skipif(not IP6.exists(), reason=f"missing: {IP6}: hero/model/build.py xbar-6")
def test_ip6():
    _run("newest", "--script", "ip6_guest.py", "--model", IP6)


def test_killed_device():
    _run("newest", "--steps", "bring_up,killed")


def test_suspend():
    _run("newest", "--script", "suspend_guest.py")


@pytest.mark.skipif(not BORA.exists(), reason=f"missing: {BORA}")
def test_conformance():
    _run("newest", "--script", "conformance_guest.py", "--wires", "guest")


@pytest.mark.skipif(not BORA.exists(), reason=f"missing: {BORA}")
def test_bora():
    _run("newest", "--script", "bora_guest.py")
