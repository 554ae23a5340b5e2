"""Registers of the cards in the system: what they read as after reset, keep, and refuse."""

import cocotb
from golden import registers as reg
from system_bench import Bench
from traffic import Traffic

# None of an idle card's business: what is written stays without effect on frames.
KEPT = sorted(reg.READ_WRITE - {reg.CMD})
READ_ONLY = {
    reg.ID: reg.ID_VALUE, reg.IRQ_UNMASKED: 0, reg.IRQ_MASKED: 0, reg.TX_LEN: 0, reg.LEVELS: 0x222,
    **dict.fromkeys(range(reg.REQ_IN, reg.DROP_CNT + 1), 0),
}


class Idle(Bench):
    async def configure(self, card, **_):
        """Registers as they are after reset."""


@cocotb.test()
async def after_reset(dut):
    async with Idle(dut, drivers=False) as bench:
        for card in bench.cards:
            await untouched(bench, card)


async def untouched(bench, card):
    for register in sorted(reg.READ_WRITE):
        value = await bench.read(card, register)
        assert value == reg.reset_value(register), f"{reg.NAMES[register]} is {value:#x} after reset"
    for register, expected in READ_ONLY.items():
        value = await bench.read(card, register)
        expected |= bench.routes6 << reg.LEVELS_ROUTES6_SHIFT if register == reg.LEVELS else 0
        assert value == expected, f"{reg.NAMES[register]} is {value:#x} after reset"
    assert await bench.read(card, reg.STATUS) == 1 << 16 | bench.routes << 8 | reg.STATUS_READY | reg.STATUS_LINK | reg.STATUS_RECEIVING
    for register in reg.WRITE_ONLY:
        assert await bench.read(card, register) == 0


@cocotb.test()
async def kept(dut):
    """Read-write registers keep all their bits, each its own; the others do not care."""
    async with Idle(dut, drivers=False) as bench:
        traffic, card = Traffic(), bench.cards[1]
        for _ in range(4):
            for register in traffic.rng.sample(KEPT, len(KEPT)):
                await bench.write(card, register, traffic.rng.getrandbits(32))
            for register in KEPT:
                value, expected = await bench.read(card, register), bench.models[card].read(register)
                assert value == expected, f"{reg.NAMES[register]} is {value:#x}, not {expected:#x}"
        for register in KEPT:
            await bench.write(card, register, 0xFFFFFFFF)
        for register in KEPT:
            assert await bench.read(card, register) == reg.writable(register), reg.NAMES[register]
        await untouched(bench, bench.cards[0])
        await bench.write(card, reg.CMD, reg.CMD_RESET)
        while await bench.read(card, reg.CMD) & reg.CMD_RESET:
            pass
        await untouched(bench, card)


@cocotb.test()
async def read_only(dut):
    """Writing what is read only changes nothing."""
    async with Idle(dut, drivers=False) as bench:
        card = bench.cards[0]
        for register in (*READ_ONLY, reg.STATUS):
            if register != reg.DROP_CNT:
                await bench.write(card, register, 0xFFFFFFFF)
        await untouched(bench, card)


@cocotb.test()
async def command(dut):
    """The commands stay, reset and commit clear themselves; link shows."""
    async with Idle(dut, drivers=False) as bench:
        card = bench.cards[0]
        for value in (0x1F1E, 0x1F1E | reg.CMD_COMMIT, 0xFFFFFFFE, 2, 0x400, 0):
            await bench.write(card, reg.CMD, value)
            assert await bench.read(card, reg.CMD) == value & 0x1F1E
        dut.link.value = 15 ^ 1 << card
        for _ in range(3):
            status = await bench.read(card, reg.STATUS)
        assert status & (reg.STATUS_READY | reg.STATUS_LINK) == reg.STATUS_READY
        dut.link.value = 15


@cocotb.test()
async def interrupts(dut):
    """R_masked is unmasked AND mask; reading it clears those bits, and no other."""
    async with Bench(dut, drivers=False) as bench:
        traffic, card = Traffic(), bench.cards[0]
        bench.lines[card].send(traffic.routed(card, 9)[:40])
        await bench.quiet()
        assert await bench.read(card, reg.IRQ_UNMASKED) == reg.IRQ_DROP
        assert await bench.read(card, reg.IRQ_MASKED) == 0
        assert not int(dut.irq.value)
        await bench.write(card, reg.IRQ_MASK, 0x7F)
        assert await bench.read(card, reg.IRQ_MASKED) == 0
        await bench.write(card, reg.IRQ_MASK, 0xFF)
        await bench.read(card, reg.ID)
        assert int(dut.irq.value) == 1 << card
        assert await bench.read(card, reg.IRQ_MASKED) == reg.IRQ_DROP
        assert await bench.read(card, reg.IRQ_MASKED) == 0
        assert await bench.read(card, reg.IRQ_UNMASKED) == 0
        assert not int(dut.irq.value)
