"""Resets at any time, of one card and of all: the others continue, and the card starts again."""

import os

import cocotb
from cocotb.triggers import Timer
from golden import registers as reg
from system_bench import Bench
from traffic import Traffic

SEED = int(os.environ.get("HERO_SEED", "1"))
ROUNDS = int(os.environ.get("HERO_RESETS", "6"))


def load(bench, traffic, count=25):
    for card in bench.cards:
        for _ in range(count):
            bench.lines[card].send(**traffic.any(card, bench.cards, bad=0.05), gap=traffic.rng.choice((12, 12, 100)))
        for _ in range(3):
            bench.drivers[card].send(traffic.from_host())


@cocotb.test()
async def of_a_card(dut):
    """CMD.reset under traffic, at random times, also while others send bursts to it."""
    async with Bench(dut) as bench:
        traffic = Traffic(SEED)
        for _ in range(ROUNDS):
            load(bench, traffic)
            await Timer(traffic.rng.randrange(5_000, 150_000), "ns")
            await bench.reset(traffic.rng.choice(bench.cards))
            await settle(bench, traffic)


@cocotb.test()
async def of_two_cards(dut):
    """Two at once, one twice."""
    async with Bench(dut) as bench:
        traffic = Traffic(SEED + 1)
        for _ in range(max(1, ROUNDS // 3)):
            load(bench, traffic)
            await Timer(traffic.rng.randrange(20_000, 100_000), "ns")
            first, second = traffic.rng.sample(bench.cards, 2)
            resets = [cocotb.start_soon(bench.reset(card)) for card in (first, second)]
            for reset in resets:
                await reset
            await bench.reset(first)
            await settle(bench, traffic)


@cocotb.test()
async def with_slow_memory(dut):
    """A card in reset waits for its transaction under way: it never breaks one off."""
    async with Bench(dut) as bench:
        traffic = Traffic(SEED + 2)
        bench.memory.stall(200)
        bench.memory.delay = 1000
        for _ in range(max(1, ROUNDS // 3)):
            load(bench, traffic, 12)
            await Timer(traffic.rng.randrange(5_000, 50_000), "ns")
            await bench.reset(traffic.rng.choice(bench.cards))
            await settle(bench, traffic)


@cocotb.test()
async def without_receive_clock(dut):
    """A receive clock that stands still, as without a cable: the card is reset, sends, and takes the others' frames; it
    receives when the clock is back. In the middle of frames, and with the clock of another card gone too."""
    async with Bench(dut) as bench:
        traffic = Traffic(SEED + 4)
        for _ in range(max(2, ROUNDS // 3)):
            cards = traffic.rng.sample(bench.cards, 2)
            for card in cards:
                bench.stop_receive_clock(card)
            await bench.reset(cards[0])
            assert not await bench.read(cards[0], reg.STATUS) & reg.STATUS_RECEIVING
            assert await bench.read(cards[1], reg.STATUS) & reg.STATUS_RECEIVING
            others = [card for card in bench.cards if card not in cards]
            for card in others:
                for to in bench.cards:
                    bench.lines[card].send(traffic.routed(card, to))
            for card in cards:
                bench.drivers[card].send(traffic.from_host())
            await bench.quiet(60 + int(2 * bench.timeout_ns / 1000))
            assert not bench.ledger.open(), f"{len(bench.ledger.open())} frames did not come"
            for card in cards:
                bench.start_receive_clock(card)
            await settle(bench, traffic)
            assert await bench.read(cards[0], reg.STATUS) & reg.STATUS_RECEIVING


async def settle(bench, traffic):
    """After time-outs all that can come has come; then each pair of cards talks again, without loss."""
    patience = 60 + int(2 * bench.timeout_ns / 1000)
    await bench.quiet(patience)
    for card in bench.cards:
        for to in bench.cards:
            bench.lines[card].send(traffic.routed(card, to))
        bench.drivers[card].send(traffic.from_host())
    await bench.quiet(patience)
    assert not bench.ledger.open(), f"{len(bench.ledger.open())} frames did not come after a reset"


@cocotb.test()
async def of_the_hardware(dut):
    """All cards and the bus at once, in the middle of everything."""
    traffic = Traffic(SEED + 3)
    for _ in range(2):
        bench = Bench(dut)
        await bench.__aenter__()
        load(bench, traffic)
        await Timer(traffic.rng.randrange(20_000, 100_000), "ns")
        await bench.hardware_reset()
        for card in bench.cards:
            assert await bench.access(card, reg.CMD) == 0
            assert await bench.access(card, reg.FWD_HOST) == 0
        bench.close()
    async with Bench(dut) as bench:
        load(bench, traffic)
