"""What it costs to look at a router under full load: metrics, page, top, trace, capture.

    tester --- router (express or engine) --- tester, on veth: `bora test run --lab`, saturation, frames of 64 octets

Each window with somebody who looks stands between two without, and its rate is compared with theirs, because the rate of this load
drifts. Prints a table and writes target/bench/watch.json; docs/operating.md has figures. Everything is in network namespaces.
"""

import argparse
import contextlib
import json
import os
import pty
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BORA = str(ROOT / "target/release/bora")
TIERS = ("express", "engine")
WINDOW = 3.0  # s
SETTLE = 1.5  # s, until what looks has begun
PLAN = """title = "Watched"
sizes = [64]
[[test]]
method = "saturation"
time = "{seconds} s"
trials = 1
"""
NOTHING = "host 203.0.113.9 and tcp port 4711"  # a filter that takes no packet of the load
SCRAPE = "while :; do curl -s --unix-socket {socket} http://bora/metrics > /dev/null; sleep 1; done"
LIVE = "exec curl -sN --unix-socket {socket} http://bora/v1/live > /dev/null"
CASES = {
    "metrics, each second": SCRAPE,
    "page": LIVE,
    "top": f"exec {BORA} top",
    "trace, a filter that takes nothing": f"exec {BORA} trace {NOTHING}",
    "capture, a filter that takes nothing": f"exec {BORA} capture -w /dev/null {NOTHING}",
    "capture, one in 1000": f"exec {BORA} capture -w /dev/null --one-in 1000",
    "capture, all (10 000 packets/s)": f"exec {BORA} capture -w /dev/null",
}


class Lab:
    """A router under full load."""

    def __init__(self, tier, seconds):
        self._folder = tempfile.TemporaryDirectory(prefix="bora-watch-")
        plan = Path(self._folder.name) / "plan.toml"
        plan.write_text(PLAN.format(seconds=seconds))
        self._test = subprocess.Popen([BORA, "test", "run", str(plan), "--lab", tier, "--no-calibration", "--output", self._folder.name],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._enter = ["ip", "netns", "exec", f"bora-lab-{self._test.pid}-router"]
        time.sleep(8)
        inode = os.stat(f"/run/netns/bora-lab-{self._test.pid}-router").st_ino
        self.socket = f"/run/bora/{inode}/api.sock"

    def rate(self):
        """Packets a second that leave the router, over a window."""
        begin, before = time.monotonic(), self._sent()
        time.sleep(WINDOW)
        sent = self._sent() - before
        return sent / (time.monotonic() - begin)

    def _sent(self):
        report = subprocess.run([*self._enter, BORA, "show", "drops", "--json"], capture_output=True, text=True, timeout=30, check=True)
        return json.loads(report.stdout)["sent"]

    @contextlib.contextmanager
    def looking(self, command):
        """Looks at the router, in a terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvp(self._enter[0], [*self._enter, "sh", "-c", command.format(socket=self.socket)])
        os.set_blocking(terminal, False)
        try:
            time.sleep(SETTLE)
            with contextlib.suppress(BlockingIOError):
                os.read(terminal, 1 << 20)
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                raise SystemExit(f"`{command}` ended by itself")
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGTERM)
            os.close(terminal)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def close(self):
        """Ends the load, and takes everything away."""
        self._test.send_signal(signal.SIGINT)
        self._test.wait(timeout=60)
        self._folder.cleanup()


def measure(tier, cases, rounds):
    """Ratios of the rate while something looks to the rate without, and the rates without, by case."""
    lab = Lab(tier, 60 + int(rounds * len(cases) * 2 * (WINDOW + SETTLE + 1)))
    try:
        found = {case: [] for case in cases}
        before = lab.rate()
        plain = [before]
        for number in range(rounds):
            for case in cases:
                with lab.looking(CASES[case]):
                    with_it = lab.rate()
                time.sleep(0.5)
                after = lab.rate()
                found[case].append(2 * with_it / (before + after))
                before = after
                plain.append(after)
            print(f"{tier}, round {number + 1}: done", file=sys.stderr)
        return found, plain
    finally:
        lab.close()


def main():
    """Runs both tiers."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--tier", action="append", choices=TIERS, help="may be given twice; default: both")
    options.add_argument("--case", action="append", choices=CASES, metavar="NAME", help=f"of {', '.join(CASES)}; default: all")
    options = options.parse_args()
    rows = []
    print("| tier | who looks | rate beside that of nobody | lowest to highest |\n| --- | --- | ---: | ---: |")
    for tier in options.tier or TIERS:
        found, plain = measure(tier, options.case or list(CASES), options.rounds)
        print(f"| {tier} | nobody | {statistics.median(plain):,.0f} packets/s | {min(plain):,.0f} to {max(plain):,.0f} |")
        for case, ratios in found.items():
            middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
            print(f"| {tier} | {case} | {middle:.3f} | {low:.3f} to {high:.3f} |", flush=True)
            rows.append({"case": case, "subject": tier, "metric": "rate", "unit": "ratio", "median": middle, "low": low, "high": high,
                         "ratio_to": "nobody looks", "ratio": middle})
    path = ROOT / "target/bench/watch.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
