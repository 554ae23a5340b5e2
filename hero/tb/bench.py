"""Clock, reset, and the two ends of a valid/ready stream, for benches of single modules.

Inputs change at the falling edge; outputs are read after everything has settled. So they are what the next rising edge
sees, in every simulator."""

import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

SYS_NS, MAC_NS = 10, 8


def clock(signal, period=SYS_NS):
    signal.value = 0
    cocotb.start_soon(Clock(signal, period, unit="ns").start())


async def cycles(clk, count):
    for _ in range(count):
        await FallingEdge(clk)


async def reset(clk, rst, count=64):
    """Resets for as long as hero_reset does."""
    await FallingEdge(clk)
    rst.value = 1
    await cycles(clk, count)
    rst.value = 0


async def until(clk, condition, limit=100000, what="it"):
    """Waits for `condition()`, evaluated once a cycle; AssertionError after `limit` cycles."""
    for _ in range(limit):
        await FallingEdge(clk)
        if condition():
            return
    raise AssertionError(f"{what} did not happen in {limit} cycles")


class Source:
    """Sends beats (tuples in the order of `fields`) to a stream; `gap`: probability of a pause at each beat.
    `ready` None: the stream cannot wait."""

    def __init__(self, clk, valid, ready, fields, gap=0.0):
        self.clk, self.valid, self.ready, self.fields, self.gap = clk, valid, ready, fields, gap
        self.queue = deque()
        self.current = None
        valid.value = 0
        cocotb.start_soon(self._run())

    def send(self, beats):
        self.queue.extend(beats)

    def clear(self):
        self.queue.clear()
        self.current = None

    def idle(self):
        return not self.queue and self.current is None

    async def _run(self):
        while True:
            await FallingEdge(self.clk)
            if self.current is None and self.queue and random.random() >= self.gap:
                self.current = self.queue.popleft()
            self.valid.value = self.current is not None
            # without a valid beat the fields are random, because nobody may use them
            for i, field in enumerate(self.fields):
                field.value = self.current[i] if self.current else random.getrandbits(len(field))
            await ReadOnly()
            if self.current is not None and (self.ready is None or int(self.ready.value)):
                self.current = None


class Sink:
    """Receives beats of a stream into `beats`; `stall`: probability of not being ready in a cycle. Fails if a beat is
    withdrawn or changes before it is accepted (P9). `ready` None: it cannot wait."""

    def __init__(self, clk, rst, valid, ready, fields, stall=0.0):
        self.clk, self.rst, self.valid, self.ready, self.fields, self.stall = clk, rst, valid, ready, fields, stall
        self.beats = []
        cocotb.start_soon(self._run())

    async def _run(self):
        held = None
        while True:
            await FallingEdge(self.clk)
            ready = random.random() >= self.stall
            if self.ready is not None:
                self.ready.value = ready
            await ReadOnly()
            if int(self.rst.value):
                held = None
                continue
            beat = tuple(int(field.value) for field in self.fields) if int(self.valid.value) else None
            assert held is None or beat == held, f"{self.valid._path}: {held} became {beat} before it was taken"
            if beat is not None and (ready or self.ready is None):
                self.beats.append(beat)
                held = None
            else:
                held = beat

    def frames(self, last=-1):
        """Complete frames so far, as lists of beats; field number `last` ends one. An incomplete frame stays."""
        frames, frame = [], []
        for beat in self.beats:
            frame.append(beat)
            if beat[last]:
                frames.append(frame)
                frame = []
        self.beats = frame
        return frames


def words_of(frame):
    """Octets as 64-bit words, octet 0 in bits 7:0, padded with zeros."""
    return [int.from_bytes(frame[i:i + 8], "little") for i in range(0, len(frame), 8)]


def octets_of(words, length):
    return b"".join(w.to_bytes(8, "little") for w in words)[:length]
