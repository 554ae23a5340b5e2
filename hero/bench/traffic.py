"""Test traffic: UDP flows from card to card, offered at exact times, and checked where they come out."""

import random
import struct

from hero.model import card as c
from hero.tb.golden import frames

OVERHEAD = 20  # preamble and gap, octets
SIZES = (64, 128, 256, 512, 1024, 1280, 1518)  # with FCS
HEADER = 14 + 20 + 8
TAG = struct.Struct(">HI")  # flow, sequence number


def interval(size, load=1.0):
    """ns from frame to frame of `size` octets (with FCS) at a share of 1 Gbit/s."""
    return (size + OVERHEAD) * 8 / load


def next_hop(card):
    """The router behind a card."""
    return bytes([2, 0, 0, 0, 0xFF, card])


def network(card):
    """10.CARD+1.0.0/16 is behind a card."""
    return 0x0A00_0000 | (card + 1) << 16


def frame(to_mac, from_mac, source, destination, octets, ttl, tos=0):
    """A UDP frame of `octets` (without FCS), payload zero."""
    udp = struct.pack(">HHHH", 9, 9, octets - 34, 0).ljust(octets - 34, b"\0")
    return frames.ethernet(to_mac, from_mac, frames.IPV4, frames.ipv4(destination, source, udp, ttl, tos))


class Flow:
    """Frames of one size from a card to another. The payload carries flow and sequence number, then a pattern."""

    def __init__(self, number, source, sink, size, tos=0):
        self.number, self.source, self.sink, self.size = number, source, sink, size
        octets = size - 4
        self.pattern = random.Random(number).randbytes(octets - HEADER - TAG.size)
        addresses = network(source) | 2, network(sink) | 2
        self.sent_head = frame(c.mac(source), next_hop(source), *addresses, octets, 64, tos)[:HEADER]
        self.out_head = frame(next_hop(sink), c.mac(sink), *addresses, octets, 63, tos)[:HEADER]
        self.offered = 0
        self.times = []  # when the last octet (FCS) of each had arrived, ns

    def make(self, sequence):
        return self.sent_head + TAG.pack(self.number, sequence) + self.pattern

    def expected(self, sequence):
        return self.out_head + TAG.pack(self.number, sequence) + self.pattern


class Offer:
    """Frames of some flows in turn on one card's line, from `start` ns, `gap` ns from frame to frame."""

    def __init__(self, flows, start, gap, count):
        self.flows, self.start, self.gap, self.left, self.done = flows, start, gap, count, 0

    def feed(self, hero, until):
        """Queues what begins before `until`."""
        while self.left:
            at = round(self.start + self.done * self.gap)
            if at >= until:
                return
            flow = self.flows[self.done % len(self.flows)]
            # The line takes an octet each 8 ns: the frame begins at the next such time.
            begin = (at + 7) // 8 * 8
            if begin < hero.now:
                raise RuntimeError(f"card {flow.source}: a frame is {hero.now - begin} ns late, the load is not as told")
            hero.receive(flow.source, flow.make(flow.offered), begin)
            flow.times.append(begin + (8 + flow.size) * 8)
            flow.offered += 1
            self.done += 1
            self.left -= 1


class Sink:
    """Takes what the cards send, and compares each frame with the one expected."""

    def __init__(self, flows, warm_up=0):
        self.flows = {flow.number: flow for flow in flows}
        self.next = {flow.number: 0 for flow in flows}
        self.got = {flow.number: 0 for flow in flows}
        self.octets = {flow.number: 0 for flow in flows}
        self.reordered = self.damaged = 0
        self.latency = {flow.number: [] for flow in flows}  # ns, last bit in to first bit out
        self.line = {}  # card -> [frames, octets with overhead of all but the first, first time, last time]
        self.warm_up = warm_up  # neither rate nor latency of what happened before counts

    def take(self, hero):
        taken = 0
        for card in range(4):
            while (sent := hero.transmitted(card)) is not None:
                taken += 1
                self._check(card, *sent)
        return taken

    def _check(self, card, octets, first, last):
        number, sequence = TAG.unpack_from(octets, HEADER) if len(octets) >= HEADER + TAG.size else (None, 0)
        flow = self.flows.get(number)
        if flow is None or flow.sink != card or sequence >= flow.offered or octets != flow.expected(sequence):
            self.damaged += 1
            return
        if sequence < self.next[number]:
            self.reordered += 1
        self.next[number] = sequence + 1
        self.got[number] += 1
        self.octets[number] += flow.size
        arrived = flow.times[sequence]
        if arrived >= self.warm_up:
            self.latency[number].append(first - arrived)
        if first < self.warm_up:
            return
        line = self.line.setdefault(card, [0, 0, first, first])
        line[1] += flow.size + OVERHEAD if line[0] else 0
        line[0] += 1
        line[3] = first

    def lost(self):
        return sum(flow.offered - self.got[flow.number] for flow in self.flows.values())

    def share(self, numbers):
        """Share of these flows' frames offered after the warm-up that came out."""
        offered = sum(1 for n in numbers for arrived in self.flows[n].times if arrived >= self.warm_up)
        return sum(len(self.latency[n]) for n in numbers) / offered

    def latencies(self):
        return sorted(value for values in self.latency.values() for value in values)
