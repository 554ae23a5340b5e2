"""A steady load with sequence numbers, and a report of what arrived.

The sender is a separate process (`python3 -m lib.load`), so that it does not share the receiver's interpreter
lock. Each packet ends in a mark, its flow, its number in the flow and the complement of that number, which keeps
the UDP checksum the same for every number."""

import dataclasses
import json
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from lib.port import Port, wait_readable

MARK = b"BoRa"
TRAILER = struct.Struct("!4sHII")
TICK = 0.001


def trailer(flow, number=0):
    """The last bytes of packet `number` of `flow`."""
    return TRAILER.pack(MARK, flow, number, number ^ 0xFFFFFFFF)


@dataclasses.dataclass
class Report:
    """What arrived of a load. Times are in milliseconds."""

    sent: int
    received: int
    lost: int
    duplicated: int
    reordered: int
    longest_silence: float
    seconds: float
    first_late: str = ""  # the first packet that was overtaken

    def __str__(self):
        return (
            f"{self.sent} sent in {self.seconds:.1f} s ({self.sent / max(self.seconds, 0.001):.0f}/s), "
            f"lost {self.lost}, reordered {self.reordered}, duplicated {self.duplicated}, "
            f"longest silence {self.longest_silence:.1f} ms{self.first_late}"
        )


class Sender:
    """The sending process."""

    def __init__(self, task):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lib.load"], cwd=Path(__file__).resolve().parents[1],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline().strip() != "sending":
            raise RuntimeError("the sender did not start")

    def finish(self):
        """Ends the sending; returns how many packets were sent."""
        self.process.send_signal(signal.SIGTERM)
        return json.loads(self.process.communicate(timeout=10)[0])["sent"]

    def close(self):
        """Kills the process."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(5)
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()


class Load:
    """Sends `frames` (one a flow, each ending in a trailer) round robin at `rate` packets a second.

    `source` and `sink` are (namespace name, interface). rate 0: as fast as it goes."""

    sender = Sender

    def __init__(self, source, sink, frames, rate):
        self.source = source
        self.sink = sink
        self.frames = frames
        self.rate = rate
        self.arrivals = []  # (time, flow, number)
        self._stop = threading.Event()
        self._sender = None

    def __enter__(self):
        self._port = Port(*self.sink, buffer=128 << 20)
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        self._receiver.start()
        task = {"source": self.source, "frames": [frame.hex() for frame in self.frames], "rate": self.rate}
        self._sender = self.sender(task)
        self._started = time.monotonic()
        return self

    def __exit__(self, *_):
        self._sender.close()
        self._stop.set()
        self._receiver.join(5)
        self._port.close()

    def count(self):
        """Packets arrived so far."""
        return len(self.arrivals)

    def finish(self, drain=1.0):
        """Ends the sending, waits for the last packets, and reports."""
        seconds = time.monotonic() - self._started
        sent = self._sender.finish()
        deadline = time.monotonic() + drain
        while len(self.arrivals) < sent and time.monotonic() < deadline:
            time.sleep(0.01)
        self._stop.set()
        self._receiver.join(5)
        return self._report(sent, seconds)

    def _report(self, sent, seconds):
        arrivals = self.arrivals
        seen = set()
        highest = {}
        reordered = duplicated = 0
        first_late = ""
        for time_of_arrival, flow, number in arrivals:
            if (flow, number) in seen:
                duplicated += 1
            elif number < highest.get(flow, -1):
                reordered += 1
                first_late = first_late or (f" (late: packet {number} of flow {flow}, after {highest[flow]}, "
                                            f"{time_of_arrival - arrivals[0][0]:.3f} s after the first)")
            seen.add((flow, number))
            highest[flow] = max(number, highest.get(flow, -1))
        gaps = [after[0] - before[0] for before, after in zip(arrivals, arrivals[1:])]
        return Report(
            sent, len(seen), sent - len(seen), duplicated, reordered, 1000 * max(gaps, default=0.0), seconds,
            first_late,
        )

    def _receive(self):
        while not self._stop.is_set():
            if not wait_readable([self._port], 0.05):
                continue
            for _ in range(4096):
                frame = self._port.receive_now()
                if frame is None:
                    break
                if frame[-14:-10] == MARK:
                    _, flow, number, inverse = TRAILER.unpack(frame[-14:])
                    if number ^ inverse == 0xFFFFFFFF:
                        self.arrivals.append((time.monotonic(), flow, number))


def send(task, started=lambda: print("sending", flush=True)):
    """The sender: until SIGTERM, at most ten minutes or the task's `seconds`. Flows have numbers from the task's `first` on, or 0.
    Returns how many packets it sent."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    port = Port(*task["source"])
    heads = [bytes.fromhex(frame)[:-14] for frame in task["frames"]]
    started()
    rate, seconds, first = task["rate"], task.get("seconds", 600), task.get("first", 0)
    sent, begin = 0, time.monotonic()
    while not stop.is_set() and time.monotonic() - begin < seconds:
        due = sent + 64 if rate == 0 else int((time.monotonic() - begin) * rate)
        # after a pause of the whole machine, catch up with few packets at a time
        for _ in range(min(due - sent, 64)):
            flow = sent % len(heads)
            port.send(heads[flow] + trailer(first + flow, sent // len(heads)))
            sent += 1
        if rate:
            time.sleep(TICK)
    return sent


if __name__ == "__main__":
    print(json.dumps({"sent": send(json.loads(sys.stdin.readline()))}), flush=True)
