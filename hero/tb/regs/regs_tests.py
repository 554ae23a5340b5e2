"""Registers: reset values, kinds of access, interrupts, counters, and the driver's reset."""

import logging
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp
from golden import registers as reg

INPUTS = ("free", "held", "link", "fast_open", "broken", "tx_len", "req_in", "rsp_in", "interrupts", "fwd", "fwd_host", "fwd_route",
          "events")
MAC = 0x1A2B3C4D5E6F


class Bench:
    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(1)
        self.seen = []  # (signal, value) of pulses

    async def start(self):
        d = self.dut
        for name in INPUTS:
            getattr(d, name).value = 0
        d.quiet.value = 1
        d.sys_rst.value = 1
        cocotb.start_soon(Clock(d.sys_clk, 10, "ns").start())
        cocotb.start_soon(Clock(d.tx_clk, 8, "ns").start())
        self.rx_clock = Clock(d.rx_clk, 7998, "ps").start()
        self.axil = AxiLiteMaster(AxiLiteBus.from_prefix(d, "s_axil"), d.sys_clk, d.sys_rst)
        for interface in (self.axil.write_if, self.axil.read_if):
            interface.log.setLevel(logging.ERROR)
        await self.cycles(reg.RESET_CYCLES)
        d.sys_rst.value = 0
        cocotb.start_soon(self._watch())
        await self.ready()
        return self

    async def cycles(self, n):
        for _ in range(n):
            await RisingEdge(self.dut.sys_clk)

    async def ready(self):
        for _ in range(50):
            if await self.read(reg.STATUS) & 1:
                return
        raise AssertionError("the card does not come back")

    async def read(self, n):
        r = await self.axil.read(4 * n, 4)
        assert r.resp == AxiResp.OKAY
        return int.from_bytes(r.data, "little")

    async def write(self, n, value):
        r = await self.axil.write(4 * n, value.to_bytes(4, "little"))
        assert r.resp == AxiResp.OKAY
        await self.cycles(3)

    async def pulse(self, name, value):
        signal = getattr(self.dut, name)
        signal.value = value
        await self.cycles(1)
        signal.value = 0

    async def _watch(self):
        d = self.dut
        while True:
            await ReadOnly()
            if d.cfg_wr.value:
                self.seen.append(("cfg_wr", int(d.cfg_bank.value), int(d.cfg_reg.value), int(d.cfg_data.value)))
            if d.cfg_commit.value:
                self.seen.append(("commit", int(d.cfg_bank.value)))
            if d.give.value:
                self.seen.append(("give", int(d.give.value), int(d.vector.value)))
            await RisingEdge(d.sys_clk)


def levels(dut):
    """What LEVELS has besides levels."""
    return int(dut.ROUTES6.value) << reg.LEVELS_ROUTES6_SHIFT


async def reset_values(b):
    for n in range(reg.COUNT):
        expected = {reg.ID: reg.ID_VALUE, reg.STATUS: 1 << 16 | int(b.dut.ROUTES.value) << 8 | 9, reg.LEVELS: levels(b.dut)}
        value = await b.read(n)
        assert value == expected.get(n, reg.reset_value(n)), f"{reg.NAMES[n]} {value:#x} after reset"


@cocotb.test()
async def every_register_after_reset(dut):
    await reset_values(await Bench(dut).start())


@cocotb.test()
async def every_register_by_its_kind_of_access(dut):
    b = await Bench(dut).start()
    dut.free.value = 0b10_01_10
    dut.held.value = 0x2040
    dut.link.value = dut.fast_open.value = 1
    dut.tx_len.value = 77
    dut.broken.value = 0b101
    dut.req_in.value = 3 << 64 | 2 << 32 | 1
    dut.rsp_in.value = 6 << 64 | 5 << 32 | 4
    await b.cycles(5)
    shown = {reg.ID: reg.ID_VALUE, reg.STATUS: 1 << 16 | int(dut.ROUTES.value) << 8 | 0x5F, reg.TX_LEN: 77, reg.LEVELS: 0x20400212 | levels(dut),
             **{reg.REQ_IN + i: 1 + i for i in range(3)}, **{reg.RSP_IN + i: 4 + i for i in range(3)}}
    expected = {}
    for n in range(reg.COUNT):
        value = b.rng.getrandbits(32) & ~(reg.CMD_RESET if n == reg.CMD else 0)
        await b.write(n, value)
        writable = n in reg.READ_WRITE
        expected[n] = value & reg.writable(n) if writable else shown.get(n, 0)
    for n in range(reg.COUNT):
        value = await b.read(n)
        assert value == expected[n], f"{reg.NAMES[n]}: {value:#x}, not {expected[n]:#x}"


@cocotb.test()
async def a_partial_write_is_refused(dut):
    b = await Bench(dut).start()
    await b.write(reg.MAC_LOW, 0x12345678)
    for offset, octets in ((0, b"\xff"), (3, b"\xff"), (0, b"\xff\xff"), (1, b"\xff\xff\xff")):
        r = await b.axil.write(4 * reg.MAC_LOW + offset, octets)
        assert r.resp == AxiResp.SLVERR
    assert await b.read(reg.MAC_LOW) == 0x12345678


@cocotb.test()
async def address_and_data_come_in_any_order(dut):
    """Each is taken although the other is not there yet, and the next ones before the answer is."""
    b = await Bench(dut).start()
    write = b.axil.write_if
    for first, late in ((write.aw_channel, write.w_channel), (write.w_channel, write.aw_channel)):
        for value in (1, 2, 3):
            late.pause = True
            writer = cocotb.start_soon(b.write(reg.MAC_LOW, value))
            await b.cycles(b.rng.randrange(4, 10))
            assert first.idle(), "it waits for the other channel"
            assert not writer.done()
            late.pause = False
            await writer
            assert await b.read(reg.MAC_LOW) == value
    write.b_channel.pause = True
    writers = [cocotb.start_soon(b.write(reg.PEER_BASE + d, 100 + d)) for d in range(2)]
    await b.cycles(10)
    assert int(dut.peer_base.value) == 100, "done before it can be answered"
    write.b_channel.pause = False
    for writer in writers:
        await writer
    assert int(dut.peer_base.value) == 101 << 32 | 100


@cocotb.test()
async def settings_reach_the_card(dut):
    b = await Bench(dut).start()
    await b.write(reg.MAC_LOW, MAC & 0xffffffff)
    await b.write(reg.MAC_HIGH, 2 << 16 | MAC >> 32)
    assert dut.mac.value == MAC and dut.card.value == 2
    await b.write(reg.CPL_BASE, 0xabcde000)
    assert dut.cpl_base.value == 0xabcde000 >> 13
    for d in range(3):
        await b.write(reg.PEER_BASE + d, 0x80000000 + d)
    assert dut.peer_base.value == sum((0x80000000 + d) << 32 * d for d in range(3))
    outputs = ("rx_enable", "tx_enable", "fast_enable", "promiscuous")
    for bits in range(16):
        await b.write(reg.CMD, bits << 1)
        assert [int(getattr(dut, o).value) for o in outputs] == [bits >> i & 1 for i in range(4)]


@cocotb.test()
async def rules_and_vectors_are_passed_on(dut):
    b = await Bench(dut).start()
    await b.write(reg.CMD, 21 << reg.CMD_BANK_SHIFT)
    b.seen.clear()
    for n in range(2, reg.COUNT):
        await b.write(n, 0x1000 + n)
    rules = [("cfg_wr", 21, n, 0x1000 + n) for n in reg.RULES]
    vectors = [("give", 1 << i, 0x1000 + n) for i, n in enumerate((reg.RXLO_DESC, reg.RXHI_DESC, reg.TX_DESC))]
    assert b.seen == vectors + rules
    b.seen.clear()
    await b.write(reg.CMD, 5 << reg.CMD_BANK_SHIFT | reg.CMD_COMMIT)
    assert b.seen == [("commit", 5)]
    assert await b.read(reg.CMD) == 5 << reg.CMD_BANK_SHIFT


@cocotb.test()
async def interrupts_are_masked_and_cleared_by_reading(dut):
    b = await Bench(dut).start()
    for bit in range(8):
        await b.pulse("interrupts", 1 << bit)
        await b.cycles(2)
        assert not dut.irq.value
        assert await b.read(reg.IRQ_UNMASKED) == 1 << bit
        assert await b.read(reg.IRQ_MASKED) == 0
        other = 1 << (bit + 1) % 8
        await b.write(reg.IRQ_MASK, 0xff & ~other)
        assert dut.irq.value
        await b.pulse("interrupts", other)
        assert await b.read(reg.IRQ_UNMASKED) == 1 << bit | other
        assert await b.read(reg.IRQ_MASKED) == 1 << bit
        await b.cycles(2)
        assert not dut.irq.value
        assert await b.read(reg.IRQ_UNMASKED) == other, "reading cleared a masked event"
        await b.write(reg.IRQ_MASK, 0xff)
        assert await b.read(reg.IRQ_MASKED) == other
        assert await b.read(reg.IRQ_UNMASKED) == 0
        await b.write(reg.IRQ_MASK, 0)


@cocotb.test()
async def setting_wins_over_clearing(dut):
    """An event in every cycle around a read of IRQ_MASKED: it is shown, or it stays; in the very cycle it stays."""
    b = await Bench(dut).start()
    await b.write(reg.IRQ_MASK, 1)
    outcomes = []
    for delay in range(16):
        await b.pulse("interrupts", 1)  # one before, which the read must show
        clearing = setting = None
        reader = cocotb.start_soon(b.read(reg.IRQ_MASKED))
        for cycle in range(24):
            dut.interrupts.value = int(cycle == delay)
            await ReadOnly()
            if dut.regs.raised.value:
                setting = cycle
            if dut.regs.read_masked.value:
                clearing = cycle
            await RisingEdge(dut.sys_clk)
        assert await reader == 1
        stays = await b.read(reg.IRQ_UNMASKED)
        assert stays == int(setting >= clearing), f"event {setting - clearing} cycles after the read"
        outcomes.append(setting - clearing)
        await b.read(reg.IRQ_MASKED)
        dut.interrupts.value = 0
    assert -1 in outcomes and 0 in outcomes and 1 in outcomes


@cocotb.test()
async def every_counter(dut):
    b = await Bench(dut).start()
    for n in range(len(reg.COUNTERS)):
        for _ in range(n + 1):
            await b.pulse("events", 1 << n)
    await b.pulse("events", (1 << len(reg.COUNTERS)) - 1)
    for n in range(32):
        await b.write(reg.DROP_CNT, n)
        assert await b.read(reg.DROP_CNT) == (n + 2 if n < len(reg.COUNTERS) else 0)


@cocotb.test()
async def frames_are_counted_by_route(dut):
    b = await Bench(dut).start()
    routes, routes6 = int(dut.ROUTES.value), int(dut.ROUTES6.value)
    counts = [b.rng.randint(0, 5) for _ in range(routes + routes6)]
    for route, count in enumerate(counts):
        for _ in range(count):
            dut.fwd_route.value = route
            await b.pulse("fwd", 1)
            await b.cycles(2)
    dut.fwd_host.value = 1
    for _ in range(9):
        await b.pulse("fwd", 1)  # in each cycle, with the number of a route: the host's alone counts
    for bank in range(32):
        await b.write(reg.CMD, bank << reg.CMD_BANK_SHIFT)
        for d in range(3):
            route = 3 * bank + d
            if routes6 and bank >= reg.ROUTE6_BANK:
                number = bank - reg.ROUTE6_BANK
                expected = counts[routes + number] if d == 0 and number < routes6 else 0
            else:
                expected = counts[route] if route < routes else 0
            assert await b.read(reg.FWD_CNT + d) == expected
        assert await b.read(reg.FWD_HOST) == 9


@cocotb.test()
async def a_read_that_meets_an_increment(dut):
    """A frame counted in any cycle of a read of its counter: the value before, or after, never anything else."""
    b = await Bench(dut).start()
    dut.fwd_route.value = route = int(dut.ROUTES.value) - 1
    await b.write(reg.CMD, route // 3 << reg.CMD_BANK_SHIFT)
    seen = set()
    for count in range(64):
        reader = cocotb.start_soon(b.read(reg.FWD_CNT + route % 3))
        await b.cycles(1 + count % 16)
        await b.pulse("fwd", 1)
        await b.cycles(2)
        value = await reader - count
        assert value in (0, 1), f"{value + count} between {count} and {count + 1}"
        seen.add(value)
    assert seen == {0, 1}
    assert await b.read(reg.FWD_CNT + route % 3) == 64


@cocotb.test()
async def a_read_that_meets_a_write(dut):
    """A register written in any cycle of its read: the old value, or the new one."""
    b = await Bench(dut).start()
    old, seen = 0, set()
    for n in range(64):
        new = b.rng.getrandbits(32)
        reader = cocotb.start_soon(b.read(reg.PEER_BASE))
        await b.cycles(n % 16)
        await b.write(reg.PEER_BASE, new)
        value = await reader
        assert value in (old, new), f"{value:#x}, neither {old:#x} nor {new:#x}"
        seen.add(value == new)
        old = new
    assert seen == {False, True}


@cocotb.test()
async def the_drivers_reset(dut):
    b = await Bench(dut).start()
    for n in reg.READ_WRITE - {reg.CMD}:
        await b.write(n, 0x55555555)
    await b.pulse("events", (1 << len(reg.COUNTERS)) - 1)
    await b.pulse("interrupts", 255)
    await b.pulse("fwd", 1)
    dut.quiet.value = 0
    await b.write(reg.CMD, reg.CMD_RESET | reg.CMD_RX)
    await b.cycles(50)
    assert dut.quiesce.value and not dut.core_rst.value, "the bus is not at rest"
    assert await b.read(reg.CMD) & reg.CMD_RESET
    assert not await b.read(reg.STATUS) & 1
    dut.quiet.value = 1
    both = 0
    for _ in range(200):
        await ReadOnly()
        both += int(dut.core_rst.value and dut.rx_rst.value and dut.tx_rst.value)
        await RisingEdge(dut.sys_clk)
    assert both > 32, "all clocks' halves are in reset together, for long enough for the memories"
    assert not dut.rx_rst.value and not dut.tx_rst.value and not dut.quiesce.value
    assert await b.read(reg.CMD) == 0
    await reset_values(b)
    for n in range(32):
        await b.write(reg.DROP_CNT, n)
        assert await b.read(reg.DROP_CNT) == 0


@cocotb.test()
async def a_receive_clock_that_stands_still_stops_no_reset(dut):
    """The card comes back without its receiver, which follows when the clock does."""
    b = await Bench(dut).start()
    for _ in range(3):
        b.rx_clock.cancel()
        await b.cycles(b.rng.randrange(1, 5))
        await b.write(reg.CMD, reg.CMD_RESET)
        await b.ready()
        assert not await b.read(reg.STATUS) & reg.STATUS_RECEIVING
        assert dut.rx_half_rst.value and not dut.tx_half_rst.value
        await b.write(reg.CMD, reg.CMD_TX)
        assert dut.tx_enable.value
        b.rx_clock = Clock(dut.rx_clk, 7998, "ps").start()
        for _ in range(4):
            assert dut.rx_rst.value and dut.rx_half_rst.value, "its reset is over before its clock has seen it"
            await RisingEdge(dut.rx_clk)
        await b.cycles(5)
        assert not dut.rx_rst.value and not dut.rx_half_rst.value
        assert await b.read(reg.STATUS) & reg.STATUS_RECEIVING


@cocotb.test()
async def writes_do_nothing_while_the_card_resets(dut):
    b = await Bench(dut).start()
    dut.quiet.value = 0
    await b.write(reg.CMD, reg.CMD_RESET)
    b.seen.clear()
    for n in range(reg.COUNT):
        await b.write(n, 0xffffffff)
    dut.quiet.value = 1
    for n in range(reg.COUNT):
        await b.write(n, 0xffffffff)
        if await b.read(reg.STATUS) & 1:
            break
    assert n < 40 and b.seen == []
