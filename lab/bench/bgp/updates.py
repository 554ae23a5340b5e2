"""A router with a full table while routes change: packets lost, how late the new next hop is, memory, agreement with Linux.

A BGP speaker beside peer 0 prefers itself for a part of the table, and changes it. Two loads run meanwhile: one to prefixes that do
not change, and one to prefixes that change between the two peers once a second.
"""

import bisect
import dataclasses
import ipaddress
import json
import select
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from network import PATIENCE, PEERS, ROUTER_MAC, SOURCE_MAC, SPEAKER, SPEAKER_SYSTEM, wait
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from lib import packets
from lib.bora import binary
from lib.load import MARK, TRAILER, Sender, trailer
from lib.netns import inside
from lib.port import Port
from lib.routes import RTM_DELROUTE, RTM_NEWROUTE
from lib.traffic import FILL

CHANGES_PER_SECOND = 10_000
CHANGING = 100_000  # prefixes
STEADY, MOVING = 32, 4  # flows
STEADY_RATE, MOVING_RATE = 2_000, 4_000  # packets a second: a moving flow has one each millisecond
RTMGRP_IPV4_ROUTE = 0x40
GATEWAYS = [f"10.1.{peer}.2" for peer in range(PEERS)]
CALM_SECONDS = 5
EARLY = 0.05  # seconds that a packet may be seen before the event of its route, which waits in a queue
LONGEST_SEEN = 0.9  # a route moves again a second later


class Watch(threading.Thread):
    """Reads what comes to the peers, and the events of Linux's routes, in one thread, so that their times can be compared."""

    def __init__(self, network, moving):
        super().__init__(daemon=True)
        self.ports = [Port(peer.name, "uplink", buffer=256 << 20) for peer in network.peers]
        with inside(network.router.name):
            self.events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        self.events.setsockopt(socket.SOL_SOCKET, 33, 512 << 20)  # SO_RCVBUFFORCE
        self.events.bind((0, RTMGRP_IPV4_ROUTE))
        self.events.setblocking(False)
        self.destinations = {prefix: flow for flow, (prefix, _) in enumerate(moving)}
        self.seen = [bytearray() for _ in range(STEADY + MOVING)]  # how often each packet of a flow came
        self.newest = [-1] * (STEADY + MOVING)
        self.place = [None] * (STEADY + MOVING)
        self.moves = [[] for _ in range(STEADY + MOVING)]  # (time, peer)
        self.changes = []  # (time, moving flow, peer)
        self.counted = self.missed = 0
        self.stop = threading.Event()

    def run(self):
        sources = [self.events, *self.ports]
        while not self.stop.is_set():
            ready, _, _ = select.select(sources, [], [], 0.05)
            for source in ready:
                if source is self.events:
                    self._read_events()
                else:
                    self._read_packets(source, self.ports.index(source))

    def _read_packets(self, port, peer):
        for _ in range(256):
            frame = port.receive_now()
            if frame is None:
                return
            if frame[-14:-10] == MARK:
                _, flow, number, _ = TRAILER.unpack(frame[-14:])
                self._note_packet(flow, number, peer)

    def _note_packet(self, flow, number, peer):
        seen = self.seen[flow]
        if number >= len(seen):
            seen.extend(bytes(number + 4096 - len(seen)))
        seen[number] = min(seen[number] + 1, 255)
        if number < self.newest[flow]:
            return  # it was read late, from the other peer's socket
        self.newest[flow] = number
        if self.place[flow] != peer:
            self.place[flow] = peer
            self.moves[flow].append((time.monotonic(), peer))

    def _read_events(self):
        for _ in range(256):
            try:
                octets = self.events.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError:  # ENOBUFS
                self.missed += 1
                continue
            self._note_event(octets)

    def _note_event(self, octets):
        """A route's event: nlmsghdr of 16 octets, rtmsg of 12, and RTA_DST first among the attributes after the table."""
        length, kind = struct.unpack_from("IH", octets)
        if kind not in (RTM_NEWROUTE, RTM_DELROUTE):
            return
        self.counted += 1
        at = 28
        while at + 4 <= length:
            size, attribute = struct.unpack_from("HH", octets, at)
            if attribute == 1:  # RTA_DST
                flow = self.destinations.get(octets[at + 4:at + 8])
                if flow is not None and kind == RTM_NEWROUTE:
                    ways = [peer for peer, gateway in enumerate(GATEWAYS) if socket.inet_aton(gateway) in octets]
                    self.changes.append((time.monotonic(), STEADY + flow, ways[0] if len(ways) == 1 else None))
                return
            size = max(size, 4)
            at += (size + 3) & ~3

    def finish(self):
        """Ends the thread."""
        self.stop.set()
        self.join(5)
        for one in (*self.ports, self.events):
            one.close()

    def lost(self, flows, sent):
        """(lost, duplicated) of a load of these flows, to which `sent` packets went in turn."""
        lost = duplicated = 0
        for index, flow in enumerate(flows):
            count = sent // len(flows) + (index < sent % len(flows))
            seen = self.seen[flow][:count]
            lost += count - len(seen) + seen.count(0)
            duplicated += sum(many - 1 for many in self.seen[flow] if many > 1)
        return lost, duplicated

    def delays(self):
        """Milliseconds from Linux's event of a route to the first packet by its new peer, for changes that moved the flow."""
        times = [[when for when, _ in moves] for moves in self.moves]
        found = []
        for at, flow, peer in self.changes:
            after = bisect.bisect(times[flow], at - EARLY)
            if peer is None or after == 0 or self.moves[flow][after - 1][1] == peer:
                continue
            first = next((when for when, place in self.moves[flow][after:after + 2] if place == peer), at + LONGEST_SEEN)
            found.append(1000 * min(max(0.0, first - at), LONGEST_SEEN))
        return found


class Speaker:
    """speaker.py as a process, in the namespace of peer 0."""

    def __init__(self, network, prefixes, moving, seconds):
        task = {"namespace": network.peers[0].name, "address": SPEAKER, "router": "10.1.0.1", "system": SPEAKER_SYSTEM,
                "gateways": GATEWAYS, "rate": CHANGES_PER_SECOND, "seconds": seconds,
                **{name: [(prefix.hex(), length) for prefix, length in some] for name, some in (("prefixes", prefixes), ("moving", moving))}}
        self.process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("speaker.py"))], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self._say(json.dumps(task))
        assert self.process.stdout.readline() == "speaking\n", "the BGP speaker did not start"

    def _say(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def start(self):
        """Begins to change routes."""
        self._say()

    def result(self):
        """Waits for the end of the changes: how many it sent, in how many seconds."""
        return json.loads(self.process.stdout.readline())

    def close(self):
        """Ends the session."""
        self.process.kill()
        self.process.wait(5)
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()


@dataclasses.dataclass
class Result:
    """A run; times in milliseconds, memory in MB."""

    subject: str
    seconds: float
    sent: int  # changes that the speaker sent
    events: int  # events of Linux's routes
    missed: int  # times that the bench itself lost events
    packets: dict  # by load: sent, lost, duplicated
    delays: list
    memory: list
    sync: dict
    drops: dict


def choose(table):
    """(prefixes that change, steady destinations, moving ones), apart from one another."""
    good = [(prefix, length) for prefix, length in table if length == 24]
    step = len(good) // (STEADY + MOVING)
    chosen = [good[step * flow] for flow in range(STEADY + MOVING)]
    flows = set(chosen)
    others = [one for one in table if one not in flows]
    return others[:: max(1, len(others) // CHANGING)][:CHANGING], chosen[:STEADY], chosen[STEADY:]


def sender(network, destinations, first, rate, seconds):
    """A load with one flow for each destination."""
    mac = packets.mac(ROUTER_MAC) + packets.mac(SOURCE_MAC) + b"\x08\x00"
    frames = []
    for number, (prefix, _) in enumerate(destinations, first):
        target = str(ipaddress.ip_address(int.from_bytes(prefix, "big") + 1))
        frames.append(mac + bytes(IP(src="10.0.0.2", dst=target) / UDP(sport=20_000 + number, dport=5000) / Raw(FILL + trailer(number))))
    return Sender({"source": (network.source.name, "uplink"), "frames": [frame.hex() for frame in frames], "rate": rate,
                   "first": first, "seconds": seconds + 600})


def memory(bora):
    """Memory of Bora's process in MB."""
    status = Path(f"/proc/{bora.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def run(network, table, subject, seconds):
    """Changes routes for so long; the network has converged."""
    changing, steady, moving = choose(table)
    speaker = Speaker(network, changing, moving, seconds)
    network.stack.callback(speaker.close)
    watch = Watch(network, moving)
    watch.start()
    loads = [(steady, 0, STEADY_RATE), (moving, STEADY, MOVING_RATE)]
    senders = [sender(network, destinations, first, rate, seconds) for destinations, first, rate in loads]
    for one in senders:
        network.stack.callback(one.close)
    time.sleep(CALM_SECONDS)
    speaker.start()
    held = samples(network.bora, seconds)
    done = speaker.result()
    time.sleep(CALM_SECONDS)
    counts = [one.finish() for one in senders]
    time.sleep(1)
    sync = agreement(network.bora) if network.bora else {}
    watch.finish()
    packets_of = {}
    for name, (destinations, first, _), sent in zip(("steady", "moving"), loads, counts):
        lost, duplicated = watch.lost(range(first, first + len(destinations)), sent)
        packets_of[name] = {"sent": sent, "lost": lost, "duplicated": duplicated}
    drops = network.bora.show("drops")["drops"] if network.bora else {}
    return Result(subject, done["seconds"], done["sent"], watch.counted, watch.missed, packets_of, watch.delays(), held, sync, drops)


def samples(bora, seconds):
    """Bora's memory after a tenth of the time, in the middle and near the end."""
    held, before = [], 0.0
    for share in (0.1, 0.5, 0.95) if bora else ():
        time.sleep(seconds * (share - before))
        held.append(memory(bora))
        before = share
    return held


def agreement(bora):
    """Whether Bora's FIB equals a fresh dump of Linux's, and what the mirror says of itself."""
    try:
        wait("Bora agrees with Linux", lambda: bora.show("sync")["in_sync"])
        return compared(bora)
    except (RuntimeError, TimeoutError, subprocess.TimeoutExpired) as error:
        return {"equal": False, "failure": str(error)}  # the other numbers count all the same


def compared(bora):
    """What `bora show sync --verify` says."""
    done = bora.namespace.exec(binary(), "show", "sync", "--verify", "--json", timeout=PATIENCE)
    report = json.loads(done.stdout)
    mirror = report["mirror"]
    return {"equal": report["in_sync"] and not report["differences"], "differences": len(report["differences"]),
            **{key: value for key, value in mirror.items() if isinstance(value, (int, float))}, "last": mirror.get("last")}


def text(result):
    """The result in lines."""
    delays = sorted(result.delays) or [0.0]
    lines = [f"{result.subject}: {result.sent} changes sent in {result.seconds:.0f} s ({result.sent / result.seconds:.0f}/s), "
             f"{result.events} events of Linux's routes ({result.events / result.seconds:.0f}/s)"]
    lines += [f"  {name}: {one['sent']} packets, {one['lost']} lost, {one['duplicated']} twice" for name, one in result.packets.items()]
    lines.append(f"  new next hop after Linux: median {statistics.median(delays):.2f} ms, 99 % {delays[len(delays) * 99 // 100]:.1f} ms, "
                 f"worst {delays[-1]:.1f} ms, of {len(result.delays)} changes")
    if result.missed:
        lines.append(f"  the bench lost events {result.missed} times, so changes are missing above")
    if result.sync:
        lines.append(f"  memory: {', '.join(f'{one:.0f}' for one in result.memory)} MB; dropped by Bora: {result.drops or 'nothing'}")
        lines.append(f"  FIB equal to Linux's: {result.sync}")
    return lines
