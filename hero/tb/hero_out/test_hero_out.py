"""hero_out: frames of both sources whole, in turn, with the right source MAC; no pause inside a frame; reset at any time."""

import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, Timer

from bench import MAC_NS, SYS_NS, Sink, Source, clock, cycles, until, words_of
from run import run

MAC = bytes.fromhex("0200000000a5")


class Bench:
    def __init__(self, dut, sys_ns=SYS_NS):
        self.dut = dut
        self.sources = {}
        for name in ("slow", "fast"):
            signal = lambda s: getattr(dut, f"{name}_{s}")
            self.sources[name] = Source(dut.sys_clk, signal("valid"), signal("ready"), [signal("data"), signal("last"), signal("len")])
        self.line = Sink(dut.tx_clk, dut.tx_rst, dut.m_axis_tvalid, dut.m_axis_tready, [dut.m_axis_tdata, dut.m_axis_tlast])
        self.sent = 0
        dut.mac.value = int.from_bytes(MAC, "little")
        dut.tx_enable.value = 1
        clock(dut.sys_clk, sys_ns)
        clock(dut.tx_clk, MAC_NS)

    async def start(self):
        await self.reset()
        cocotb.start_soon(self._count())
        return self

    async def reset(self):
        self.dut.sys_rst.value = self.dut.tx_rst.value = 1
        await Timer(400, "ns")
        await FallingEdge(self.dut.tx_clk)
        self.dut.tx_rst.value = 0
        await FallingEdge(self.dut.sys_clk)
        self.dut.sys_rst.value = 0

    async def _count(self):
        while True:
            await FallingEdge(self.dut.sys_clk)
            await ReadOnly()
            self.sent += int(self.dut.sent.value)

    def send(self, name, frame):
        words = words_of(frame)
        self.sources[name].send([(word, i == len(words) - 1, len(frame)) for i, word in enumerate(words)])

    def frames(self):
        return [bytes(octet for octet, _ in frame) for frame in self.line.frames()]

    async def idle(self):
        await until(self.dut.sys_clk, lambda: all(s.idle() for s in self.sources.values()))
        await cycles(self.dut.tx_clk, 2000 if self.line.stall else 200)


def edited(frame):
    return frame[:6] + MAC + frame[12:]


def tagged(name, number, length):
    """A frame whose first octets say where it is from."""
    return bytes([name == "fast", number % 256]) + random.randbytes(length - 2)


async def traffic(dut, sys_ns, stall):
    b = await Bench(dut, sys_ns).start()
    b.line.stall = stall
    for gap in (0.0, 0.8):
        want = {0: [], 1: []}
        for n in range(30):
            for name in ("slow", "fast"):
                b.sources[name].gap = gap
                frame = tagged(name, n, random.choice((14, 15, 60, 64, random.randint(16, 400))))
                b.send(name, frame)
                want[name == "fast"].append(edited(frame) if name == "fast" else frame)
        await b.idle()
        got = b.frames()
        assert not b.line.beats, "a frame without end"
        for source in (0, 1):
            assert [f for f in got if f[0] == source] == want[source]
        if gap == 0.0:  # both always have one: strictly in turn
            assert all(a[0] != b[0] for a, b in zip(got, got[1:])), "not in turn"
    assert b.sent == 120


@cocotb.test()
async def ready_line(dut):
    await traffic(dut, 10, 0.0)


@cocotb.test()
async def slow_line(dut):
    await traffic(dut, 7, 0.6)


@cocotb.test()
async def same_clock(dut):
    await traffic(dut, 8, 0.1)


@cocotb.test()
async def no_pause_in_a_frame(dut):
    """From the first octet of a frame to its last the line always has the next one: 100 MHz feed 125 MHz."""
    b = await Bench(dut).start()
    for n in range(10):
        b.send(("slow", "fast")[n % 2], tagged("slow", n, random.choice((60, 61, 68, 1514))))
    ended, inside = 0, False
    while ended < 10:
        await FallingEdge(dut.tx_clk)
        await ReadOnly()
        valid = int(dut.m_axis_tvalid.value)
        assert valid or not inside, "a pause in a frame"
        if valid:
            inside = not int(dut.m_axis_tlast.value)
            ended += not inside


@cocotb.test()
async def transmit_disabled(dut):
    """Off: no frame begins, one that has begun ends."""
    b = await Bench(dut).start()
    first, second = tagged("fast", 0, 1000), tagged("fast", 1, 60)
    b.send("fast", first)
    b.send("fast", second)
    await cycles(dut.sys_clk, 20)
    dut.tx_enable.value = 0
    await cycles(dut.tx_clk, 1500)
    assert b.frames() == [edited(first)] and not b.line.beats
    dut.tx_enable.value = 1
    await b.idle()
    assert b.frames() == [edited(second)]


@cocotb.test()
async def one_source_alone(dut):
    """The turn of a source that has nothing is the other's."""
    b = await Bench(dut).start()
    for name in ("fast", "slow"):
        want = [tagged(name, n, 60) for n in range(4)]
        for frame in want:
            b.send(name, frame)
        await b.idle()
        assert b.frames() == [edited(f) if name == "fast" else f for f in want]


@cocotb.test()
async def reset_at_any_time(dut):
    b = await Bench(dut).start()
    for n in range(15):
        for name in b.sources:
            b.send(name, tagged(name, n, 200))
        await cycles(dut.sys_clk, random.randint(1, 200))
        dut.sys_rst.value = 1
        for source in b.sources.values():
            source.clear()
        await b.reset()
        b.line.beats.clear()
        frame = tagged("fast", n, 64)
        b.send("fast", frame)
        await b.idle()
        assert b.frames() == [edited(frame)]


def test_out(simulator):
    run("hero_out", ["hero_gray_sync", "hero_ram", "hero_async_fifo", "hero_out"], "test_hero_out", simulator)
