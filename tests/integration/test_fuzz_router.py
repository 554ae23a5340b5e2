"""A short run of the fuzzer of configurations (tests/fuzz-router), with seeds that stay."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[1] / "fuzz-router/run.py"
SEED, SECONDS = 1, 120


@pytest.mark.bora
@pytest.mark.slow
def test_random_configurations_forward_as_linux_alone():
    command = [sys.executable, RUN, "--seed", str(SEED), "--seconds", str(SECONDS), "--shrink-seconds", "120"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 400)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-3000:]
