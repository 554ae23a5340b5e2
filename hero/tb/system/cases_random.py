"""Traffic of both paths at random: kinds, sizes, gaps, classes, routes, the host's speed. HERO_SEED, HERO_FRAMES."""

import os

import cocotb
from cases_faults import mixed
from cocotb.triggers import Event, Timer
from golden import registers as reg
from golden.card import FAST
from system_bench import Bench
from traffic import Traffic

SEED = int(os.environ.get("HERO_SEED", "1"))
FRAMES = int(os.environ.get("HERO_FRAMES", "150"))  # a card


async def classes(bench, rng):
    """Random classes on each card, TOS 0xB8 mostly; M of all zeros makes everything high."""
    for card in bench.cards:
        for dest in range(4):
            kind = rng.randrange(4)
            if kind == 0:
                await bench.set_class(card, dest, tos=(0xB8, 0xFC))
            elif kind == 1:
                await bench.set_class(card, dest, proto=(17, 0xFF), tos=(0, 1))
            elif kind == 2:
                await bench.set_class(card, dest, dst=(rng.randrange(1 << 32), 1))
        await bench.commit(card)


def host_sends(bench, traffic, count):
    for card in bench.cards:
        for _ in range(count):
            bench.drivers[card].send(traffic.from_host())


@cocotb.test()
async def mixture(dut):
    """All kinds, host at ease: nothing is lost but what deserves it, or meets a full queue."""
    async with Bench(dut) as bench:
        traffic = Traffic(SEED)
        await classes(bench, traffic.rng)
        host_sends(bench, traffic, FRAMES // 4)
        for card in bench.cards:
            for _ in range(FRAMES):
                gap = traffic.rng.choice((12, 12, 12, 13, 40, 500))
                bench.lines[card].send(**traffic.any(card, bench.cards), gap=gap)


@cocotb.test()
async def slow_host(dut):
    """Host memory stalls at random, the driver is late, few buffers: the fast path does not care."""
    async with Bench(dut, buffers=24, late=20_000, vector=7) as bench:
        traffic = Traffic(SEED + 1)
        await classes(bench, traffic.rng)
        bench.memory.stall(traffic.rng.choice((60, 128, 200)))
        host_sends(bench, traffic, FRAMES // 8)
        for card in bench.cards:
            for _ in range(FRAMES // 2):
                bench.lines[card].send(**traffic.any(card, bench.cards, bad=0.05), gap=traffic.rng.randrange(12, 300))
        await bench.quiet()
        fast = [r for records in bench.ledger.records.values() for r in records if r.verdicts and r.verdicts[0].kind == FAST]
        assert fast and all(record.arrived for record in fast)
        for card in bench.cards:
            counters, _ = await bench.counters(card)
            assert counters["peer_full"] == counters["repeated"] == counters["burst_timeout"] == 0


@cocotb.test()
async def polling(dut):
    """Interrupts masked: the line never rises; the driver polls."""
    async with Bench(dut, poll=15_000, vector=1) as bench:
        traffic = Traffic(SEED + 2)
        host_sends(bench, traffic, 20)
        for card in bench.cards:
            for _ in range(FRAMES // 3):
                bench.lines[card].send(**traffic.any(card, bench.cards, bad=0.05, slow=0.6), gap=traffic.rng.randrange(12, 2000))
        await bench.quiet()
        assert int(dut.irq.value) == 0
        assert await bench.read(0, reg.IRQ_UNMASKED)


@cocotb.test()
async def one_output(dut):
    """All cards send to one, in two priorities, at full rate: overload, but in order, and what was enqueued arrives."""
    async with Bench(dut) as bench:
        traffic = Traffic(SEED + 3)
        target = traffic.rng.choice(bench.cards)
        others = [card for card in bench.cards if card != target]
        for card in others:
            dest = target if target < card else target - 1
            await bench.set_class(card, dest, tos=(0xB8, 0xFF))
            await bench.commit(card)
        size = traffic.rng.choice((60, 252, 1514, None))
        for card in others:
            for k in range(FRAMES):
                bench.lines[card].send(traffic.routed(card, target, size, tos=0xB8 if k % 4 == 0 else 0))


@cocotb.test()
async def memory_stalls(dut):
    """Memory that answers nothing for long (but shorter than the fast path's time-out, as a card has one write channel
    for both paths): frames wait; nothing is lost that was enqueued."""
    async with Bench(dut) as bench:
        traffic = Traffic(SEED + 4)
        for _ in range(3):
            bench.memory.stalled = Event()
            mixed(bench, traffic, 12)
            await Timer(traffic.rng.randrange(20, 120), "us")
            bench.memory.stalled.set()
            bench.memory.stalled = None
            await bench.quiet()
        bench.memory.delay = 3000
        mixed(bench, traffic, 12)
        await bench.quiet()
        bench.memory.delay = 0
