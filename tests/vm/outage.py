"""Measures what events cost under traffic, by a steady stream of numbered packets that is divided at the events."""

import array
import bisect
import dataclasses
import fcntl
import multiprocessing
import socket
import struct
import threading
import time

from lib.load import send
from lib.netns import inside
from lib.traffic import both_families, load

RATE = 200
BEFORE_SECONDS = 0.5  # undisturbed stream before each event, which shows the pauses that the machine makes by itself
AFTER_SECONDS = 0.5
FLOWS = 4
SIOCGIFFLAGS, IFF_RUNNING = 0x8913, 0x40
POLL_SECONDS = 0.01


class ForkedSender:
    """The sending process. It is forked, because starting Python takes seconds in a guest."""

    def __init__(self, task):
        fork = multiprocessing.get_context("fork")
        self.ours, theirs = fork.Pipe()
        self.process = fork.Process(target=self._run, args=(task, theirs), daemon=True)
        self.process.start()
        theirs.close()
        if not self.ours.poll(30) or self.ours.recv() != "sending":
            raise RuntimeError("the sender did not start")

    @staticmethod
    def _run(task, pipe):
        pipe.send(send(task, lambda: pipe.send("sending")))

    def finish(self):
        """Ends the sending; returns how many packets were sent."""
        self.process.terminate()
        if not self.ours.poll(30):
            raise RuntimeError("the sender does not end")
        return self.ours.recv()

    def close(self):
        """Kills the process."""
        self.process.kill()
        self.process.join(5)
        self.ours.close()


@dataclasses.dataclass
class Outage:
    """Losses from an event to the next: packets, the longest time without one, time without a link (ms)."""

    lost: int = 0
    reordered: int = 0
    duplicated: int = 0
    silence: float = 0.0
    link_down: float = 0.0
    usual: float = 0.0  # the longest time without a packet before the event


class Stream:
    """Sends until the end of the block. Call `event()` right before something happens."""

    def __init__(self, net):
        self.net = net
        self.events = []  # (name, time)
        self.down = []  # (time, seconds since the previous check) when a port of the router had no link
        self._load = load(net, both_families(net, FLOWS), RATE)
        self._end = threading.Event()
        self._watch = threading.Thread(target=self._watch_links, daemon=True)

    def __enter__(self):
        self._load.__enter__()
        self._watch.start()
        return self

    def __exit__(self, *what):
        self._end.set()
        self._watch.join(5)
        self._load.__exit__(*what)

    def event(self, name):
        """From now on every lost packet is counted for `name`."""
        time.sleep(BEFORE_SECONDS)
        self.events.append((name, time.monotonic()))

    def wait_until_it_flows(self, seconds):
        """Returns when packets have been arriving for AFTER_SECONDS without a longer pause; raises after `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            count = self._load.count()
            time.sleep(AFTER_SECONDS)
            if self._load.count() - count > RATE * AFTER_SECONDS / 4:
                return
        raise AssertionError(f"no packets after {self.events[-1][0] if self.events else 'the beginning'} "
                             f"for {seconds} s")

    def finish(self):
        """Ends the stream; the outage of each event by name."""
        report = self._load.finish(drain=2)
        self._end.set()
        assert report.sent > RATE, f"the stream was too short to prove anything: {report}"
        outages = {name: Outage() for name, _ in self.events}
        self._count(list(outages.values()), [when for _, when in self.events])
        return outages

    def _count(self, outages, times):
        """Attributes missing, reordered and late packets to the last event before them."""
        highest, seen, last = {}, set(), self._load.arrivals[0][0]
        for now, flow, number in self._load.arrivals:
            at = bisect.bisect_right(times, now) - 1
            if at + 1 < len(times) and last >= times[at + 1] - BEFORE_SECONDS:
                outages[at + 1].usual = max(outages[at + 1].usual, 1000 * (now - last))
            if at >= 0:
                outage, expected = outages[at], highest.get(flow, number - 1) + 1
                outage.silence = max(outage.silence, 1000 * (now - last))
                outage.duplicated += (flow, number) in seen
                late = number < expected and (flow, number) not in seen
                outage.reordered += late
                outage.lost += max(0, number - expected) - late
            seen.add((flow, number))
            highest[flow] = max(number, highest.get(flow, -1))
            last = now
        for when, step in self.down:
            at = bisect.bisect_right(times, when) - 1
            if at >= 0:
                outages[at].link_down += 1000 * step

    def _watch_links(self):
        with inside(self.net.router.name):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with sock:
            last = time.monotonic()
            while not self._end.wait(POLL_SECONDS):
                now = time.monotonic()
                if not all(_running(sock, f"r{link}") for link in range(len(self.net.hosts))):
                    self.down.append((now, now - last))
                last = now


def _running(sock, device):
    request = array.array("B", struct.pack("16sH14x", device.encode(), 0))
    try:
        fcntl.ioctl(sock, SIOCGIFFLAGS, request)
    except OSError:
        return False
    return bool(struct.unpack("16sH14x", request.tobytes())[1] & IFF_RUNNING)
