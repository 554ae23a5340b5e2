"""The bench of the board: clocks, serial line, PHYs. The board's tools run on it as they would on a serial device."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.queue import Queue
from cocotb.task import bridge, resume
from cocotb.triggers import FallingEdge, Timer, with_timeout
from golden import frames

from hero.board import control, serial_line

PHY_PS = 2000  # the delay of RGMII's clocks in a PHY
SYS_PS = 12000  # 83.3 MHz
BIT_PS = 8 * SYS_PS  # with the BAUD of board_tb
SILENCE = 5e-5  # s, of the bench's time, until a request is repeated
HOSTS = [frames.mac(f"02:00:00:00:00:{k:02x}") for k in (0xA0, 0xB0)]  # the PCs
CARDS = [frames.mac(f"02:00:00:00:01:{k:02x}") for k in range(2)]
ROUTES = """
[[card]]
mac = "02:00:00:00:01:00"
[[card.route]]
to = "10.0.0.0/8"
next_hop = "02:00:00:00:00:bb"
[[card.route]]
to = "10.2.0.0/16"
next_hop = "02:00:00:00:00:b0"

[[card]]
mac = "02:00:00:00:01:01"
[[card.route]]
to = "10.1.0.0/16"
next_hop = "02:00:00:00:00:a0"
"""


class Line:
    """The other end of the serial line, with the methods of serial_line.Serial."""

    def __init__(self, dut):
        self.dut = dut
        self.octets = Queue()
        dut.uart_rx.value = 1
        cocotb.start_soon(self.receive())

    async def receive(self):
        while True:
            await FallingEdge(self.dut.uart_tx)
            await Timer(BIT_PS * 3 // 2, "ps")
            octet = 0
            for k in range(8):
                octet |= int(self.dut.uart_tx.value) << k
                await Timer(BIT_PS, "ps")
            assert int(self.dut.uart_tx.value) == 1, "no stop bit"
            self.octets.put_nowait(octet)

    async def put(self, octets):
        while not self.octets.empty():
            self.octets.get_nowait()
        for octet in octets:
            for bit in (0, *(octet >> k & 1 for k in range(8)), 1):
                self.dut.uart_rx.value = bit
                await Timer(BIT_PS, "ps")

    async def get(self, count, patience):
        octets = b""
        try:
            while len(octets) < count:
                octets += bytes([await with_timeout(self.octets.get(), round(patience * 1e12), "ps")])
        except TimeoutError:
            pass
        return octets

    def write(self, octets):
        resume(self.put)(octets)

    def read(self, count, patience):
        return resume(self.get)(count, patience)


class End:
    """A PC behind a PHY."""

    def __init__(self, phy):
        self.phy, self.handle = phy, phy.gmii
        self.seen = []
        self.queue = Queue()
        cocotb.start_soon(self.sender())
        cocotb.start_soon(self.receiver())

    async def sender(self):
        toggle = int(self.handle.got.value)
        while True:
            octets = await self.queue.get()
            self.handle.frame.value = int.from_bytes(octets, "little")
            self.handle.octets.value = len(octets)
            self.handle.gap.value = 12
            self.handle.error_at.value = 0xFFFFFFFF
            toggle ^= 1
            self.handle.put.value = toggle
            await self.handle.got.value_change

    async def receiver(self):
        while True:
            await self.handle.seen.value_change
            count = int(self.handle.seen_octets.value)
            octets = int(self.handle.seen_frame.value).to_bytes(2048, "little")[:count]
            frame = octets[8:-4]
            assert octets == frames.wire(frame), f"{octets.hex()}: preamble or FCS"
            assert not int(self.handle.seen_error.value), "tx_er, or the clock at the wrong level"
            self.seen.append(frame)

    def send(self, *what):
        for frame in what:
            self.queue.put_nowait(frames.wire(frame))


class Bench:
    """`async with Bench(dut) as bench`: the board after its reset, with `registers` for `call`."""

    def __init__(self, dut):
        self.dut = dut

    async def __aenter__(self):
        dut, pll = self.dut, self.dut.board.clocks.pll
        serial_line.PATIENCE = SILENCE
        dut.rst_n.value = 0
        pll.lock.value = 0
        self.line = Line(dut)
        self.clocks = [Clock(pll.os, SYS_PS, "ps").start()]
        # The lines' clocks, 50 ppm and more from each other, and what a PHY makes of them
        pairs = ((pll.op, dut.tx_late, 8000), (dut.clk0, dut.clk0_late, 8001), (dut.clk1, dut.clk1_late, 7999))
        for signal, late, period in pairs:
            self.clocks.append(Clock(signal, period, "ps", period_high=4000).start())
            cocotb.start_soon(self.later(late, period))
        # Power-up, then the button: PHYs see an edge of their reset only when they have been out of it.
        for wait in (15, 3):
            await Timer(100, "ns")
            dut.rst_n.value = 1
            pll.lock.value = 1
            await Timer(wait, "us")
            dut.rst_n.value = wait == 3
        assert int(dut.phy_rst_n.value) == 0
        self.phys = [dut.phy0, dut.phy1]
        for phy in self.phys:
            phy.faults.value = 0  # what was before the reset does not count
        self.ends = [End(phy) for phy in self.phys]
        self.registers = serial_line.Registers(self.line)
        return self

    async def later(self, signal, period):
        await Timer(PHY_PS, "ps")
        self.clocks.append(Clock(signal, period, "ps", period_high=4000).start())

    async def __aexit__(self, kind, *_):
        if kind is None:
            for phy in self.phys:
                assert int(phy.faults.value) == 0, "MDIO not as in clause 22"

    async def call(self, function, *arguments):
        """What the tools do, which wait, in a thread of their own."""
        return await bridge(function)(*arguments)

    async def load(self):
        await self.call(control.load, self.registers, ROUTES)

    async def counters(self, number):
        return await self.call(control.Card(self.registers, number).counters)


def packet(source, size=60, ttl=64, serial=0, to=None):
    """(what the PC at socket `source` sends to the other PC, what comes out there)"""
    to = to or f"10.{2 - source}.0.9"
    payload = random.Random(serial).randbytes(size - 34)

    def frame(dst, src, ttl):
        return frames.ethernet(dst, src, frames.IPV4, frames.ipv4(frames.ip(to), frames.ip("192.0.2.1"), payload, ttl=ttl))

    return frame(CARDS[source], HOSTS[source], ttl), frame(HOSTS[1 - source], CARDS[1 - source], ttl - 1)
