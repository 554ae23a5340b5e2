"""The tester in a guest: its programs load on this kernel, and it measures Linux in a lab of its own."""

import json
import subprocess
import tempfile
from pathlib import Path

from lib.bora import ROOT

BUILDS = [ROOT / "target" / profile / "bora-test" for profile in ("release", "debug")]
SECONDS = 600  # an idle machine needs a tenth


def program():
    """The newest build."""
    built = [path for path in BUILDS if path.exists()]
    assert built, f"no bora-test: `make build`, or `make test-build`; looked for {', '.join(map(str, BUILDS))}"
    return max(built, key=lambda path: path.stat().st_mtime)


def body(_, say):
    """The smallest plan; how fast an emulated machine is says nothing, but frames must arrive."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program(), "run", "smoke", "--lab", "kernel", "--sizes", "64", "--duration", "short", "--seed", "1", "--output", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        reports = [json.loads(file.read_text()) for file in Path(folder).glob("*.json")]
    assert len(reports) == 1, f"no report: {done.stdout}{done.stderr}"
    trials = [trial for test in reports[0]["tests"] for trial in test["trials"]]
    received, corrupted = (sum(trial[what] for trial in trials) for what in ("received", "corrupted"))
    say(f"{len(trials)} trials, {received} frames; exit code {done.returncode}")
    assert received and not corrupted, f"{received} frames, {corrupted} of them corrupted: {done.stdout}{done.stderr}"
