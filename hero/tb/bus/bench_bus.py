"""Bench of both buses: every master to every slave, pauses everywhere, turns, set-up cycles, addresses of nobody."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Combine, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiMaster, AxiRamRead, AxiRamWrite, AxiReadBus, AxiResp, AxiWriteBus

PCIX = os.environ["BUS"] == "0"
SETUP = int(os.environ["SETUP"])
APERTURE, SPAN, MEMORY = 0x8000_0000, 0x10_0000, 4
CHANNELS_W = ("aw_channel", "w_channel", "b_channel")
CHANNELS_R = ("ar_channel", "r_channel")


def base(slave):
    return 0 if slave == MEMORY else APERTURE + slave * SPAN


def pauses(often):
    while True:
        yield random.randrange(100) < often


class Bench:
    def __init__(self, dut):
        self.dut, self.clk = dut, dut.clk
        for scope in [*dut.master, *dut.slave]:
            list(scope)  # cocotb knows a scope's signals once it has walked over them
        self.masters = [AxiMaster(AxiBus.from_prefix(m, "axi"), dut.clk, dut.rst) for m in dut.master]
        self.slaves = [AxiRamWrite(AxiWriteBus.from_prefix(s, "axi"), dut.clk, dut.rst, size=SPAN) for s in dut.slave]
        self.reader = AxiRamRead(AxiReadBus.from_prefix(dut, "memory"), dut.clk, dut.rst, size=SPAN,
                                 mem=self.slaves[MEMORY].mem)
        # What the slaves and the memory saw: (cycle, master, slave, is_read, address)
        self.starts, self.cycle, self.under_way, self.most = [], 0, 0, 0

    async def start(self, often=0):
        cocotb.start_soon(Clock(self.clk, 10, "ns").start())
        if often:
            for unit in [m.write_if for m in self.masters] + self.slaves:
                for c in CHANNELS_W:
                    getattr(unit, c).set_pause_generator(pauses(often))
            for unit in [m.read_if for m in self.masters] + [self.reader]:
                for c in CHANNELS_R:
                    getattr(unit, c).set_pause_generator(pauses(often))
        self.dut.rst.value = 1
        await ClockCycles(self.clk, 4)
        self.dut.rst.value = 0
        await ClockCycles(self.clk, 2)
        cocotb.start_soon(self._watch())
        return self

    async def _watch(self):
        d = self.dut
        fresh = [True] * 6
        while True:
            await RisingEdge(self.clk)
            self.cycle += 1
            for i, s in enumerate(d.slave):
                if s.axi_awvalid.value == 1:
                    if fresh[i]:
                        self._begins(int(s.axi_awid.value), i, False, int(s.axi_awaddr.value))
                    fresh[i] = s.axi_awready.value == 1
                if s.axi_bvalid.value == 1 and s.axi_bready.value == 1:
                    self._ends()
            if d.memory_arvalid.value == 1:
                if fresh[5]:
                    self._begins(int(d.memory_arid.value), MEMORY, True, int(d.memory_araddr.value))
                fresh[5] = d.memory_arready.value == 1
            if d.memory_rvalid.value == 1 and d.memory_rready.value == 1 and d.memory_rlast.value == 1:
                self._ends()

    def _begins(self, master, slave, is_read, addr):
        self.starts.append((self.cycle, master, slave, is_read, addr))
        self.under_way += 1
        self.most = max(self.most, self.under_way)

    def _ends(self):
        self.under_way -= 1
        self.ended = self.cycle


async def anything(b, k, rounds, log):
    """Random traffic of master k, in a part of each slave that is its own."""
    for n in range(rounds):
        slave = (n + k) % 6 if n < 6 else random.randrange(6)
        size = random.choice((8, 8, 16, 256, 1024, random.randint(1, 600)))
        offset = 0x1000 * (4 * k + random.randrange(4)) + random.choice((0, 8, random.randrange(0xFF8)))
        data = random.randbytes(size)
        if slave == 5:
            addr = random.choice((0x8040_0000, 0x9000_0000, 0xFFF0_0000)) + offset
            assert (await b.masters[k].write(addr, data)).resp == AxiResp.DECERR
            assert (await b.masters[k].read(addr, size)).resp == AxiResp.DECERR
            continue
        assert (await b.masters[k].write(base(slave) + offset, data)).resp == AxiResp.OKAY
        log[slave][offset:offset + size] = data
        if slave == MEMORY:
            assert (await b.masters[k].read(offset, size)).data == data
        else:
            assert b.slaves[slave].read(offset, size) == data
            assert (await b.masters[k].read(base(slave) + offset, size)).resp == AxiResp.DECERR


@cocotb.test()
async def every_master_to_every_slave(dut):
    b = await Bench(dut).start(often=int(os.environ.get("OFTEN", 30)))
    log = [bytearray(SPAN) for _ in range(5)]
    tasks = [cocotb.start_soon(anything(b, k, int(os.environ.get("ROUNDS", 12)), log)) for k in range(4)]
    await with_timeout(Combine(*tasks), 20, "ms")
    for slave in range(5):
        assert b.slaves[slave].read(0, SPAN) == bytes(log[slave])
    # Each transaction bears its master's number: the parts of the slaves tell whose it is.
    assert {(m, s) for _, m, s, _, _ in b.starts} == {(m, s) for m in range(4) for s in range(5)}
    assert all((addr - base(s)) // 0x4000 in (m, m + 1) for _, m, s, _, addr in b.starts)
    assert b.most == 1 if PCIX else b.most > 2


@cocotb.test()
async def masters_take_turns(dut):
    b = await Bench(dut).start()
    tasks = [cocotb.start_soon(b.masters[k].write(base(3) + 0x1000 * (k + 1) + 8 * i, bytes(8)))
             for k in range(4) for i in range(10)]
    await with_timeout(Combine(*tasks), 1, "ms")
    order = [m for _, m, _, _, _ in b.starts]
    assert len(order) == 40 and all(sorted(order[i:i + 4]) == [0, 1, 2, 3] for i in range(37)), order


@cocotb.test()
async def set_up_cycles_and_one_at_a_time(dut):
    b = await Bench(dut).start()
    tasks = [cocotb.start_soon(b.masters[k].write(base(k), bytes(1024))) for k in range(4)]
    tasks += [cocotb.start_soon(b.masters[k].read(0, 256)) for k in range(4)]
    first = b.cycle
    await with_timeout(Combine(*tasks), 1, "ms")
    words = 4 * 128 + 4 * 32
    if PCIX:
        assert b.most == 1 and b.cycle - first >= words + 8 * SETUP
        gaps = [n[0] - p[0] for p, n in zip(b.starts, b.starts[1:])]
        assert min(gaps) >= 32 + SETUP
    else:
        assert b.most >= 4 and b.cycle - first < words / 2  # four apertures and memory at once


@cocotb.test()
async def a_slave_that_sleeps(dut):
    """The crossbar's other slaves go on; the shared bus waits, and goes on when it wakes."""
    b = await Bench(dut).start()
    b.slaves[0].w_channel.pause = True
    asleep = cocotb.start_soon(b.masters[1].write(base(0), bytes(64)))
    await ClockCycles(b.clk, 2 * SETUP + 10)
    others = [cocotb.start_soon(b.masters[k].write(base(k), bytes(64))) for k in (2, 3)]
    others += [cocotb.start_soon(b.masters[k].read(0, 64)) for k in range(4)]
    if PCIX:
        await ClockCycles(b.clk, 500)
        assert not any(t.done() for t in others)
    else:
        await with_timeout(Combine(*others), 2, "us")
        assert not asleep.done()
    b.slaves[0].w_channel.pause = False
    await with_timeout(Combine(asleep, *others), 10, "us")
