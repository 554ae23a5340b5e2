"""Tests of `make soak` itself: it finds leaks, and a seed gives the same steps."""

import random
import subprocess
import sys

import pytest

from soak import steps
from soak.watch import MORE_DESCRIPTORS, MORE_MEMORY, WARM_UP_STEPS, Watch

LEAKS = {
    "memory": f"kept.append(bytearray({MORE_MEMORY}) + b'x')",
    "threads": "import threading; threading.Thread(target=input, daemon=True).start()",
    "descriptors": f"import os; kept += [os.eventfd(0) for _ in range({MORE_DESCRIPTORS + 1})]",
    "nothing": "pass",
}
CHILD = "kept = []\nprint('ready', flush=True)\ninput()\n{}\nprint('done', flush=True)\nimport time; time.sleep(60)"


@pytest.mark.parametrize("leak", LEAKS)
def test_leaks_are_noticed(leak, monkeypatch):
    """A process that leaks after its warm-up is found."""
    monkeypatch.setattr("soak.watch.PATIENCE", 0.2)
    process = subprocess.Popen([sys.executable, "-c", CHILD.format(LEAKS[leak])],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            assert process.stdout.readline() == "ready\n"
            watch = Watch(process.pid)
            for _ in range(WARM_UP_STEPS):
                watch.check()
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            if leak == "nothing":
                watch.check()
            else:
                with pytest.raises(AssertionError, match=leak):
                    watch.check()
        finally:
            process.kill()


def test_a_seed_gives_the_same_steps():
    """Step N can be repeated alone, without the steps before it."""
    kinds = [[steps.choose(random.Random(f"{seed}/{number}"), tier).__name__ for number in range(200)]
             for seed, tier in ((7, "engine"), (7, "engine"), (8, "engine"), (7, "express"))]
    assert kinds[0] == kinds[1] != kinds[2]
    assert set(kinds[0]) == {kind.__name__ for kind in steps.STEPS}
    assert not {kind.__name__ for kind in steps.ENGINE_ONLY} & set(kinds[3])
