"""Route changes at a rate, made by a separate process (`python3 -m lib.routes`)."""

import json
import subprocess
import sys
from pathlib import Path

ROUTES4, ROUTES6 = 60_000, 20_000


class Churn:
    """Changes ROUTES4 + ROUTES6 routes of the router, `rate` times a second for `seconds`."""

    def __init__(self, net, rate, seconds):
        self.seconds = seconds
        self.task = {
            "namespace": net.router.name, "rate": rate, "seconds": seconds, "seed": 62,
            "routes4": ROUTES4, "routes6": ROUTES6, "gateways": {"4": net.host4(2), "6": net.host6(2)},
        }

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lib.routes"], cwd=Path(__file__).resolve().parents[1],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(5)
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()

    def run(self):
        """Makes the changes and returns a line about them. The kernel must accept all of them."""
        self.process.stdin.write(json.dumps(self.task) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == "churning"
        done = json.loads(self.process.stdout.readline())
        assert not done["refused"], f"the kernel refused changes, by errno: {done['refused']}"
        rate = done["changes"] / done["seconds"]
        return f"{done['changes']} changes in {done['seconds']:.1f} s ({rate:.0f}/s)"
