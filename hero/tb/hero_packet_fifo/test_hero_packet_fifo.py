"""hero_packet_fifo against a list of packets: order, lengths, levels, taking back, full and empty, reset at any time."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly

from bench import Sink, clock, cycles, octets_of, reset, until, words_of
from run import run


class Model:
    """What the FIFO must hold, in step with it."""

    def __init__(self, dut):
        self.dut, self.size, self.depth = dut, int(dut.WORDS.value), int(dut.PACKETS.value)
        self.packets, self.pending, self.words, self.taken = [], [], 0, 0
        self.out = []
        cocotb.start_soon(self._check())

    async def _check(self):
        dut = self.dut
        while True:
            await FallingEdge(dut.clk)
            await ReadOnly()
            if int(dut.rst.value):
                self.packets, self.pending, self.words, self.taken = [], [], 0, 0
                continue
            assert int(dut.words.value) == self.words
            assert int(dut.level.value) == self.words + len(self.pending)
            assert int(dut.packets.value) == len(self.packets)
            if int(dut.rd_head.value):
                assert self.packets and int(dut.rd_len.value) == len(self.packets[0]), "not the head's length"
            if int(dut.rd_valid.value):
                assert int(dut.rd_head.value), "words without a head"
                want = words_of(self.packets[0])
                assert int(dut.rd_data.value) == want[self.taken]
                assert int(dut.rd_last.value) == (self.taken == len(want) - 1)
                if int(dut.rd_ready.value):
                    self.taken += 1
                    self.words -= 1
                    if self.taken == len(want):
                        self.out.append(self.packets.pop(0))
                        self.taken = 0
            if int(dut.wr_valid.value):
                self.pending.append(int(dut.wr_data.value))
            if int(dut.wr_abort.value):
                self.pending = []
            elif int(dut.wr_commit.value):
                self.packets.append(octets_of(self.pending, int(dut.wr_len.value)))
                self.words += len(self.pending)
                self.pending = []


async def write(dut, packet, gap=0.0, abort_after=None, late_commit=False):
    """Writes a packet word by word when there is room; takes it back after `abort_after` words if given."""
    size = int(dut.WORDS.value)
    words = words_of(packet)
    count = len(words) if abort_after is None else abort_after
    sent = 0
    while sent < count or late_commit:
        await FallingEdge(dut.clk)
        dut.wr_commit.value = 0
        dut.wr_abort.value = 0
        room = int(dut.level.value) < size and int(dut.packets.value) < int(dut.PACKETS.value)
        go = sent < count and room and random.random() >= gap
        dut.wr_valid.value = go
        dut.wr_data.value = words[sent] if go else random.getrandbits(64)
        dut.wr_len.value = random.getrandbits(16)
        if sent == count:  # the late commit
            late_commit = False
        sent += go
        if sent == count and not late_commit:
            dut.wr_commit.value = abort_after is None
            dut.wr_abort.value = abort_after is not None
            dut.wr_len.value = len(packet)
    await FallingEdge(dut.clk)
    for signal in (dut.wr_valid, dut.wr_commit, dut.wr_abort):
        signal.value = 0


async def begin(dut, stall=0.0):
    for signal in (dut.wr_valid, dut.wr_commit, dut.wr_abort, dut.wr_len, dut.wr_data, dut.rd_ready):
        signal.value = 0
    clock(dut.clk)
    await reset(dut.clk, dut.rst)
    model = Model(dut)
    return model, Sink(dut.clk, dut.rst, dut.rd_valid, dut.rd_ready, [dut.rd_data, dut.rd_last], stall)


def packet(words):
    return random.randbytes(8 * words - random.randrange(8))


@cocotb.test()
async def random_traffic(dut):
    model, sink = await begin(dut)
    for stall, gap in ((0, 0), (0.5, 0), (0, 0.5), (0.9, 0.2), (0.3, 0.3)):
        sink.stall = stall
        for _ in range(80):
            p = packet(random.choice((1, 1, 2, 3, random.randint(1, 16))))
            words = len(words_of(p))
            if random.random() < 0.2:
                await write(dut, p, gap, abort_after=random.randint(1, words), late_commit=random.random() < 0.5)
            else:
                await write(dut, p, gap, late_commit=random.random() < 0.3)
    sink.stall = 0
    await until(dut.clk, lambda: not model.packets, what="the end")
    await cycles(dut.clk, 3)
    assert not int(dut.rd_head.value) and int(dut.level.value) == 0
    assert len(model.out) > 250


@cocotb.test()
async def full_of_words(dut):
    """Each word of the memory in use, then taken back or read."""
    model, sink = await begin(dut, stall=1.0)
    size = int(dut.WORDS.value)
    for _ in range(3):
        await write(dut, packet(size // 2))
        await write(dut, packet(size // 2), abort_after=size // 2)
        assert int(dut.level.value) == size // 2
        await write(dut, packet(size // 2))
        assert int(dut.level.value) == size
        sink.stall = 0
        await until(dut.clk, lambda: not model.packets, what="reading")
        sink.stall = 1.0


@cocotb.test()
async def full_of_packets(dut):
    model, sink = await begin(dut, stall=1.0)
    depth = int(dut.PACKETS.value)
    for _ in range(2):
        for _ in range(depth):
            await write(dut, packet(1))
        assert int(dut.packets.value) == depth
        sink.stall = 0
        await until(dut.clk, lambda: not model.packets, what="reading")
        sink.stall = 1.0


@cocotb.test()
async def look_ahead(dut):
    """Waiting packets follow one another without losing the head for a cycle, and within two cycles with their words."""
    model, sink = await begin(dut, stall=1.0)
    for words in (3, 1, 1, 2):
        await write(dut, packet(words))
    await cycles(dut.clk, 8)
    sink.stall = 0
    idle = 0
    while model.packets:
        await FallingEdge(dut.clk)
        await ReadOnly()
        assert int(dut.rd_head.value) == bool(model.packets), "the head was lost for a cycle"
        idle = 0 if int(dut.rd_valid.value) else idle + 1
        assert idle <= 2, "the words came late"


@cocotb.test()
async def reset_at_any_time(dut):
    model, sink = await begin(dut, stall=0.3)
    for _ in range(20):
        writer = cocotb.start_soon(write_many(dut))
        await cycles(dut.clk, random.randint(1, 60))
        writer.cancel()
        await FallingEdge(dut.clk)
        dut.rst.value = 1
        for signal in (dut.wr_valid, dut.wr_commit, dut.wr_abort):
            signal.value = 0
        await cycles(dut.clk, 2)
        dut.rst.value = 0
    model.out.clear()
    await write(dut, packet(5))
    await until(dut.clk, lambda: len(model.out) == 1, 50)


async def write_many(dut):
    while True:
        await write(dut, packet(random.randint(1, 8)), gap=0.1)


def test_small(simulator):
    run("hero_packet_fifo", ["hero_ram", "hero_packet_fifo"], "test_hero_packet_fifo", simulator, {"WORDS": 32, "PACKETS": 8})


@pytest.mark.slow
def test_full_size():
    run("hero_packet_fifo", ["hero_ram", "hero_packet_fifo"], "test_hero_packet_fifo", parameters={"WORDS": 4096, "PACKETS": 1024})
