"""Octets over RGMII with delays of the clock: which delays of the bits are right, and which are not."""

import os
import random

import cocotb
from bench import clock, cycles, reset, until
from cocotb.triggers import FallingEdge

PERIOD, TAP = 8000, 25  # ps


async def taps(dut, rx, tx):
    await cycles(dut.tx_clk, 1)
    dut.rx_taps.value, dut.tx_taps.value, dut.set.value = rx, tx, 1
    await cycles(dut.tx_clk, 1)
    dut.set.value = 0
    await until(dut.tx_clk, lambda: not int(dut.busy.value), 3000, "the delay")


async def passes(dut):
    """Whether octets, with tx_en and tx_er at random, come through as they were sent."""
    sent = [(random.getrandbits(8), random.getrandbits(1), random.getrandbits(1)) for _ in range(24)]
    seen, going = [], True

    async def watch():
        while going:
            await FallingEdge(dut.rx_clk)
            seen.append(tuple(signal.value for signal in (dut.rxd, dut.rx_dv, dut.rx_er)))

    watcher = cocotb.start_soon(watch())
    for octet, enable, error in sent:
        dut.txd.value, dut.tx_en.value, dut.tx_er.value = octet, enable, error
        await cycles(dut.tx_clk, 1)
    await cycles(dut.tx_clk, 4)
    going = False
    await watcher
    known = [tuple(int(v) if v.is_resolvable else None for v in each) for each in seen]
    return any(known[k : k + len(sent)] == sent for k in range(len(known)))


@cocotb.test()
async def window(dut):
    """The bits must be late by less than the clock is, and by not 4 ns less."""
    clock(dut.tx_clk, 8)
    dut.set.value, dut.tx_en.value, dut.tx_er.value, dut.txd.value = 0, 0, 0, 0
    await reset(dut.tx_clk, dut.rst)
    late = int(os.environ["HERO_PHY_PS"]) + int(os.environ["HERO_INSIDE_PS"])
    first = int(os.environ["HERO_RX_TAPS"])
    assert await passes(dut) == (0 < late - TAP * first < PERIOD // 2)
    right = 0
    for tx in (0, 60, 127):
        for rx in range(5, 128, 12):
            await taps(dut, rx, tx)
            after = late + TAP * (tx - rx)
            want = 0 < after < PERIOD // 2
            right += want
            assert await passes(dut) == want, f"rx {rx}, tx {tx}: the clock comes {after} ps after the bits"
    assert 0 < right < 3 * 11
