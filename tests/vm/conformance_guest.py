"""Runs in a guest: the conformance tests over VLAN devices, bonds or a VRF, one backend after the other, and what failed."""

import json
import sys
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

import pytest  # noqa: E402

from vm import topic_guest  # noqa: E402

LONGEST_TEXT = 3000  # characters of a failure's text


class Tally:
    """Counts results and tells of failures at once: a plugin of pytest."""

    def __init__(self, say):
        self.say = say
        self.counts, self.failed = Counter(), set()

    def pytest_runtest_logreport(self, report):
        """One phase of a test."""
        if report.failed and report.nodeid not in self.failed:
            self.failed.add(report.nodeid)
            self.say(f"FAILED {report.nodeid}, {report.when}: {report.longreprtext[-LONGEST_TEXT:]}")
        if report.when == "call" and report.passed:
            self.counts["passed"] += 1
        if report.skipped:
            self.counts["skipped"] += 1

    def pytest_deselected(self, items):
        """Tests that are left out."""
        self.counts["deselected"] += len(items)


def body(how, say):
    """All backends; fails if a test does."""
    task = json.loads(how)
    failed = 0
    for backend in task["backends"]:
        tally, started = Tally(say), time.monotonic()
        words = ["-q", f"--over={task['over']}", f"--backend={backend}", *task["pytest"]]
        where = [str(TESTS / "conformance" / name) for name in task["files"]] or [str(TESTS / "conformance")]
        code = pytest.main(["-c", str(TESTS / "pytest.ini"), "--rootdir", str(TESTS), *words, *where], plugins=[tally])
        counts = ", ".join(f"{count} {what}" for what, count in sorted(tally.counts.items()))
        say(f"{task['over']}, {backend}: {counts}, {len(tally.failed)} failed, {time.monotonic() - started:.0f} s")
        failed += len(tally.failed) + (code not in (0, 1))
    assert failed == 0, f"{failed} tests failed"


if __name__ == "__main__":
    topic_guest.main(body)
