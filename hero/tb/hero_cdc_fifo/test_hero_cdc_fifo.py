"""hero_cdc_fifo between clocks of several ratios: whole frames in order, taken-back frames, both kinds of overflow."""

import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, Timer

from bench import clock, cycles, octets_of, until, words_of
from meta import pack, unpack
from run import run

RATIOS = ((8, 10), (8, 7), (8, 8), (8, 3), (8, 31))  # ns of rx_clk, sys_clk


class Bench:
    def __init__(self, dut, periods):
        self.dut = dut
        self.stall = 0.0  # stalls of the reader, per word and per meta
        self.got = []  # (meta, octets)
        self.lost = 0
        for signal in (dut.wr_en, dut.wr_data, dut.wr_commit, dut.wr_abort, dut.wr_meta, dut.rd_en, dut.rd_meta_pop):
            signal.value = 0
        clock(dut.rx_clk, periods[0])
        clock(dut.sys_clk, periods[1])

    async def start(self):
        await self.reset()
        cocotb.start_soon(self._read())
        cocotb.start_soon(self._count_lost())
        return self

    async def reset(self):
        self.dut.rx_rst.value = self.dut.sys_rst.value = 1
        await Timer(400, "ns")
        await FallingEdge(self.dut.rx_clk)
        self.dut.rx_rst.value = 0
        await FallingEdge(self.dut.sys_clk)
        self.dut.sys_rst.value = 0

    async def write(self, frame, abort=False, gap=0.0, serial=0):
        """A frame, a word at most every second cycle, then its meta; `serial` in SRC to know it again."""
        dut = self.dut
        for word in words_of(frame):
            await FallingEdge(dut.rx_clk)
            dut.wr_en.value = 1
            dut.wr_data.value = word
            await FallingEdge(dut.rx_clk)
            dut.wr_en.value = 0
            while random.random() < gap:
                await FallingEdge(dut.rx_clk)
        await FallingEdge(dut.rx_clk)
        dut.wr_meta.value = pack(LEN=len(frame), SRC=serial, RUNT=abort)
        dut.wr_commit.value = not abort
        dut.wr_abort.value = abort
        await FallingEdge(dut.rx_clk)
        dut.wr_commit.value = dut.wr_abort.value = 0

    async def _read(self):
        dut = self.dut
        words, ended, pop = [], False, False
        while True:
            await FallingEdge(dut.sys_clk)
            dut.rd_meta_pop.value = pop
            dut.rd_en.value = random.random() >= self.stall
            await ReadOnly()
            if int(dut.sys_rst.value):
                words, ended, pop = [], False, False
                continue
            if pop:
                words, ended, pop = [], False, False
                continue
            if int(dut.rd_valid.value) and int(dut.rd_en.value):
                assert int(dut.rd_meta_valid.value) and not ended, "words without a meta"
                words.append(int(dut.rd_data.value))
                ended = bool(int(dut.rd_last.value))
            if int(dut.rd_meta_valid.value):
                meta = unpack(int(dut.rd_meta.value))
                whole = meta["OVERFLOW"] or meta["RUNT"] or ended
                if whole and random.random() >= self.stall:
                    self.got.append((meta, octets_of(words, meta["LEN"]) if ended else None))
                    pop = True

    async def _count_lost(self):
        while True:
            await FallingEdge(self.dut.sys_clk)
            await ReadOnly()
            if not int(self.dut.sys_rst.value):
                self.lost += int(self.dut.lost.value)


def bench(dut, ratio=(8, 10)):
    return Bench(dut, ratio).start()


def check(sent, got):
    """Each frame once, in order: whole, as it was, or (only then) with OVERFLOW."""
    assert [meta["SRC"] for meta, _ in got] == [serial for serial, _, _ in sent]
    for (_, frame, abort), (meta, octets) in zip(sent, got):
        if abort:
            assert octets is None and meta["RUNT"] and meta["LEN"] == len(frame) and not meta["OVERFLOW"]
        elif meta["OVERFLOW"]:
            assert octets is None and meta["LEN"] == 0
        else:
            assert octets == frame and meta["LEN"] == len(frame)


async def traffic(dut, ratio):
    b = await bench(dut, ratio)
    sent = []
    for stall in (0.0, 0.6, 0.95):
        b.stall = stall
        for _ in range(40):
            frame = random.randbytes(random.choice((1, 60, 64, random.randint(1, 300))))
            sent.append((len(sent) + 1, frame, random.random() < 0.2))
            await b.write(frame, sent[-1][2], gap=0.2, serial=sent[-1][0])
            await Timer(random.choice((8, 80, 500)), "ns")
        b.stall = 0.0
        await until(dut.sys_clk, lambda: len(b.got) + b.lost == len(sent), what="the last meta")
    arrived = {meta["SRC"] for meta, _ in b.got}
    check([frame for frame in sent if frame[0] in arrived], b.got)
    assert b.lost == 0 or ratio[1] > 10, "lost, though the reader has time"
    assert sum(octets is not None for _, octets in b.got) > 40


@cocotb.test()
async def ratio_10(dut):
    await traffic(dut, RATIOS[0])


@cocotb.test()
async def ratio_7(dut):
    await traffic(dut, RATIOS[1])


@cocotb.test()
async def ratio_8(dut):
    await traffic(dut, RATIOS[2])


@cocotb.test()
async def ratio_3(dut):
    await traffic(dut, RATIOS[3])


@cocotb.test()
async def ratio_31(dut):
    await traffic(dut, RATIOS[4])


@cocotb.test()
async def words_overflow(dut):
    """Filled to the last word; what does not fit is taken back whole; a bad frame keeps its own verdict."""
    b = await bench(dut)
    size = int(dut.CDC_WORDS.value)
    b.stall = 1.0
    await cycles(dut.sys_clk, 3)
    # Up to two words are on their way out already: a frame of one word shows how many
    half = 8 * size // 2
    sent = [(1, random.randbytes(half), False), (2, random.randbytes(half - 1), False), (3, random.randbytes(8 * size), False),
            (4, random.randbytes(8 * size), True), (5, random.randbytes(60), True), (6, random.randbytes(100), False)]
    for serial, frame, abort in sent:
        await b.write(frame, abort, serial=serial)
        await cycles(dut.sys_clk, 20)
    b.stall = 0.0
    await until(dut.sys_clk, lambda: len(b.got) == len(sent))
    check(sent, b.got)
    assert [meta["OVERFLOW"] for meta, _ in b.got] == [0, 0, 1, 0, 0, 1]
    sent = [(7, random.randbytes(8 * size), False)]  # and all words are free again
    b.got.clear()
    await b.write(sent[0][1], serial=7)
    await until(dut.sys_clk, lambda: len(b.got) == 1)
    check(sent, b.got)
    assert not b.got[0][0]["OVERFLOW"]


@cocotb.test()
async def metas_overflow(dut):
    """What has not even room for a meta is counted as lost, each once, and does no harm."""
    b = await bench(dut)
    b.stall = 1.0
    await cycles(dut.sys_clk, 3)
    for serial in range(1, 51):
        await b.write(random.randbytes(8), abort=serial % 2 == 0, serial=serial)
        await cycles(dut.rx_clk, 4)
    await cycles(dut.sys_clk, 10)
    assert 50 - 34 <= b.lost <= 50 - 32  # a meta may wait at the output
    b.stall = 0.0
    await until(dut.sys_clk, lambda: len(b.got) == 50 - b.lost)
    assert [meta["SRC"] for meta, _ in b.got] == list(range(1, 51 - b.lost))
    frame = random.randbytes(500)
    b.got.clear()
    await b.write(frame, serial=99)
    await until(dut.sys_clk, lambda: b.got)
    check([(99, frame, False)], b.got)


@cocotb.test()
async def reset_at_any_time(dut):
    b = await bench(dut)
    for n in range(15):
        writer = cocotb.start_soon(write_many(b))
        await cycles(dut.sys_clk, random.randint(1, 150))
        writer.cancel()
        await FallingEdge(dut.rx_clk)
        dut.wr_en.value = dut.wr_commit.value = dut.wr_abort.value = 0
        await b.reset()
        b.got.clear()
        frame = random.randbytes(random.randint(60, 500))
        await b.write(frame, serial=1000 + n)
        await until(dut.sys_clk, lambda: b.got)
        check([(1000 + n, frame, False)], b.got)
    assert b.lost == 0


async def write_many(b):
    while True:
        await b.write(random.randbytes(random.randint(1, 200)), random.random() < 0.2)


def test_cdc_fifo(simulator):
    run("hero_cdc_fifo", ["hero_gray_sync", "hero_ram", "hero_async_fifo", "hero_cdc_fifo"], "test_hero_cdc_fifo", simulator)
