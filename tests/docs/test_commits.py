"""Subjects of commits fit into a line of `git log --oneline`."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 60
# the last commit before the rule
FIRST = "6dda4a99"


def test_subjects_are_short():
    log = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, "log", "--format=%h %s", f"{FIRST}..HEAD"],
                         capture_output=True, text=True)
    # sources without their history, or without that commit, have nothing to check
    subjects = [line.split(" ", 1) for line in log.stdout.splitlines()] if log.returncode == 0 else []
    assert not [f"{commit} {subject}" for commit, subject in subjects if len(subject) > LONGEST]
