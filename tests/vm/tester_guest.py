"""The tester in a guest: its programs load on this kernel, and it measures Linux in a lab of its own."""

import json
import subprocess
import tempfile
from pathlib import Path

from lib.bora import binary

SECONDS = 600  # an idle machine needs a tenth


def body(_, say):
    """The smallest plan; how fast an emulated machine is says nothing, but frames must arrive."""
    with tempfile.TemporaryDirectory() as folder:
        command = [binary(), "test", "run", "smoke", "--lab", "kernel", "--sizes", "64", "--duration", "short", "--seed", "1", "--output", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        reports = [json.loads(file.read_text()) for file in Path(folder).glob("*.json")]
    assert len(reports) == 1, f"no report: {done.stdout}{done.stderr}"
    trials = [trial for test in reports[0]["tests"] for trial in test["trials"]]
    received, corrupted = (sum(trial[what] for trial in trials) for what in ("received", "corrupted"))
    say(f"{len(trials)} trials, {received} frames; exit code {done.returncode}")
    assert received and not corrupted, f"{received} frames, {corrupted} of them corrupted: {done.stdout}{done.stderr}"
