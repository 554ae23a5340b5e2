"""The tester in a guest: its programs load on this kernel, and it measures Linux in a lab of its own."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from lib.bora import ROOT

BUILDS = [ROOT / "target" / profile / "bora-test" for profile in ("release", "debug")]
SECONDS = 600  # an idle machine needs a tenth
ATTEMPTS = 3  # on a busy machine no frame of a trial may arrive in time, and the tester gives up


def program():
    """The newest build, in memory."""
    built = [path for path in BUILDS if path.exists()]
    assert built, f"no bora-test: `make build`, or `make test-build`; looked for {', '.join(map(str, BUILDS))}"
    return shutil.copy(max(built, key=lambda path: path.stat().st_mtime), "/run")  # from this machine's files pages come too slowly


def measure(tester):
    """Carries out the smallest plan; returns the reports, and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [tester, "run", "smoke", "--lab", "kernel", "--sizes", "64", "--duration", "short", "--seed", "1", "--output", folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
        return [json.loads(file.read_text()) for file in Path(folder).glob("*.json")], done.stdout


def body(_, say):
    """How fast an emulated machine is says nothing, but frames must arrive."""
    tester = program()
    for _ in range(ATTEMPTS):
        reports, text = measure(tester)
        if reports:
            break
    assert len(reports) == 1, f"no report: {text}"
    trials = [trial for test in reports[0]["tests"] for trial in test["trials"]]
    received, corrupted = (sum(trial[what] for trial in trials) for what in ("received", "corrupted"))
    say(f"{len(trials)} trials, {received} frames")
    assert received and not corrupted, f"{received} frames, {corrupted} of them corrupted: {text}"
