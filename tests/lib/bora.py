"""The Bora daemon as a child process: start, query, stop, and account for every packet."""

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from lib import required

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 20
STOP_SECONDS = 10


def binary():
    """Path of the binary under test: $BORA, else the newest build in target/."""
    named = os.environ.get("BORA")
    candidates = [Path(named)] if named else [ROOT / "target/release/bora", ROOT / "target/debug/bora"]
    for path in candidates:
        if path.is_file():
            return str(path)
    raise FileNotFoundError(
        "no bora binary: build it (make build), set BORA=/path/to/bora, "
        f"or restrict the run with --backend kernel; looked for {', '.join(map(str, candidates))}"
    )


def dpdk_binary():
    """Path of the binary with DPDK: $BORA_DPDK, or what `make build-dpdk` builds."""
    return with_ports_of("dpdk", "DPDK")


def hero_binary():
    """Path of the binary with HERO's cards: $BORA_HERO, or what `make build-hero` builds."""
    return with_ports_of("hero", "HERO")


def with_ports_of(kind, name):
    """Path of a binary with one more kind of port: $BORA_KIND, or what `make build-kind` builds."""
    variable = f"BORA_{kind.upper()}"
    path = Path(os.environ.get(variable) or ROOT / f"target/release/bora-{kind}")
    if not path.is_file():
        required.skip(f"no bora with {name}: `make build-{kind}`, or {variable}=/path/to/it; looked for {path}")
    return str(path)


def runtime_folder(namespace):
    """Where the Bora of a namespace has its socket, lock and history."""
    return Path("/run/bora", str(os.stat(f"/run/netns/{namespace.name}").st_ino))


class Bora:
    """`bora run` inside a namespace. `path` is engine, express, auto, or None if a configuration file decides.
    `program` is another binary than that of `binary()`."""

    def __init__(self, namespace, ports, path, options=(), program=None):
        self.program = program or binary()
        self.namespace = namespace
        self.ports = ports
        self.path = path
        self.options = options
        self.process = None
        self.log = None

    def start(self):
        """Starts it and waits for its "ready" line."""
        arguments = [part for port in self.ports for part in ("--port", port)]
        if self.path is not None:
            arguments += ["--path", self.path]
        self.log = tempfile.NamedTemporaryFile("w+", prefix="bora-log-", suffix=".txt")
        self.process = self.namespace.popen(
            self.program, "run", *arguments, *self.options,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )
        deadline = time.monotonic() + START_SECONDS
        while "ready after" not in self.output():
            if self.process.poll() is not None:
                raise RuntimeError(f"bora run ended at once, exit {self.process.returncode}:\n{self.output()}")
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"bora run is not ready after {START_SECONDS} s:\n{self.output()}")
            time.sleep(0.02)

    def output(self):
        """What Bora has printed so far."""
        return Path(self.log.name).read_text(errors="replace")

    def alive(self):
        """True while the process runs."""
        return self.process is not None and self.process.poll() is None

    def show(self, what, *options):
        """`bora show WHAT --json`, parsed."""
        done = self.namespace.exec(binary(), "show", what, "--json", *options)
        return json.loads(done.stdout)

    def prove(self, seconds=120):
        """`bora prove --json` from the beginning, parsed."""
        done = self.namespace.exec(binary(), "prove", "--json", "--anew", check=False, timeout=seconds)
        if not done.stdout.startswith("{"):
            raise RuntimeError(f"bora prove: {done.stderr}")
        return json.loads(done.stdout)

    def stop(self):
        """Sends SIGTERM; Bora must end cleanly within STOP_SECONDS. `bora stop --detach` then removes pinned objects."""
        if self.process is None:
            return
        try:
            if self.alive():
                misplaced = self._last_look()
                self.process.send_signal(signal.SIGTERM)
                try:
                    code = self.process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    self.kill()
                    raise AssertionError(f"bora did not end {STOP_SECONDS} s after SIGTERM:\n{self.output()}")
                assert code == 0, f"bora ended with exit {code} after SIGTERM:\n{self.output()}"
                assert misplaced is None, misplaced
            self.namespace.exec(binary(), "stop", "--detach", check=False)
        finally:
            self.log.close()
            self.process = None

    def kill(self):
        """kill -9: nothing can be cleaned up by the process itself."""
        if self.process is not None and self.alive():
            self.process.kill()
            self.process.wait(STOP_SECONDS)

    def wait_in_sync(self, seconds=5.0):
        """Waits until a full comparison shows that the FIB agrees with the kernel's tables."""
        deadline = time.monotonic() + seconds
        while True:
            report = self.show("sync", "--verify")
            if report["in_sync"] and not report.get("differences"):
                return report
            if time.monotonic() > deadline:
                raise AssertionError(f"kernel and FIB still differ after {seconds} s: {json.dumps(report)[:2000]}")
            time.sleep(0.02)

    def guard(self):
        """The reasons why Bora leaves traffic to the kernel; an empty list if it leaves none."""
        reasons = self.show("sync")["guard"]
        return reasons["v4"] + reasons["v6"] if isinstance(reasons, dict) else reasons

    def totals(self):
        """One dictionary: received, sent, passed, dropped, held, and the drops by name."""
        report = self.show("drops")
        return {
            "received": report["received"],
            "sent": report["sent"],
            "passed": report["passed"],
            "dropped": sum(report["drops"].values()),
            "held": report["held"],
            "drops": report["drops"],
        }

    def _last_look(self):
        """Checks the frames before the stop. Does not raise, because a Bora that does not answer must still be stopped."""
        try:
            return self.misplaced_frames()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return f"bora did not say where its frames are: {error}"

    def misplaced_frames(self, seconds=3.0):
        """None if the places of all frames add up to the packet memory, once nothing moves; otherwise what is wrong.

        What moves is counted twice, or not at all: workers tell at different times. A queue with a rate takes seconds to empty.
        """
        last = time.monotonic() + 20
        before, deadline = None, last
        while True:
            now = self.show("frames")
            if now is None:  # no engine
                return None
            places = ("reserve", "pools", "held", "to_linux", "closing")
            missing = now["total"] - sum(now[place] for place in places) - sum(now["rings"].values())
            if missing == 0 and now["closing"] == 0:
                return None
            if now != before:
                before, deadline = now, min(last, time.monotonic() + seconds)
            if time.monotonic() > deadline:
                return f"{missing} frames are missing, {now['closing']} of closed sockets: {now}"
            time.sleep(0.05)

    def check_conservation(self, seconds=2.0):
        """Checks received = sent + passed + dropped + held, once the counters no longer change; and the same for frames."""
        misplaced = self.misplaced_frames(seconds)
        assert misplaced is None, misplaced
        deadline = time.monotonic() + seconds
        while True:
            now = self.totals()
            missing = now["received"] - now["sent"] - now["passed"] - now["dropped"] - now["held"]
            if missing == 0:
                return now
            assert time.monotonic() < deadline, f"{missing} packets are not accounted for: {now}"
            time.sleep(0.05)
