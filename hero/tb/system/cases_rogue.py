"""A rogue card 3: whatever it does on the bus disturbs only cards that communicate with it, and only while they do."""

import os

import cocotb
from cases_faults import counter, paths
from cocotb.triggers import Event, Timer
from golden import registers as reg
from rogue import PLACE, REQUEST, RESPONSE, Rogue, end, packet, ready, words_of
from system_bench import Bench
from traffic import OUTSIDE, Traffic

SEED = int(os.environ.get("HERO_SEED", "1"))
VOQ_WORDS = int(os.environ["HERO_VOQ_WORDS"])
OKAY, SLVERR = 0, 2


async def goes_on(bench, traffic, rogue, card):
    """After a fault: `card` still accepts a burst of the rogue, and the cards forward to each other."""
    paths(bench, traffic, 4)
    await rogue.send(card, [ready(traffic), ready(traffic, high=True)])
    await bench.quiet()
    assert not bench.ledger.open()


@cocotb.test()
async def well_behaved(dut):
    """The rogue can be a good card: its bursts come out, in order, high priority and low."""
    async with Bench(dut) as bench:
        traffic, rogue = Traffic(SEED), Rogue(bench)
        for card in bench.cards:
            for count in (1, 2, 5):
                await rogue.send(card, [ready(traffic, high=traffic.rng.random() < 0.5) for _ in range(count)])
            await bench.quiet()
            await rogue.send(card, [ready(traffic, 1514) for _ in range(4)])
            assert await rogue.granted(card, 5, 3) == (5, 3)
            assert await rogue.burst(card, [end(0)]) == OKAY
        rogue.answers = True
        for card in bench.cards:
            for _ in range(20):
                bench.lines[card].send(traffic.routed(card, PLACE))
        paths(bench, traffic, 20)
        await bench.quiet()
        assert not bench.ledger.open()


@cocotb.test()
async def burst_without_grant(dut):
    async with Bench(dut) as bench:
        traffic, rogue, card = Traffic(SEED), Rogue(bench), bench.cards[0]
        _, frame = ready(traffic, 300)
        for count in (1, 2):
            assert await rogue.burst(card, packet(frame) + [end(1)]) == SLVERR
            assert await counter(bench, card, "no_grant") == count
        assert await rogue.burst(card, [end(0, 7, 7)]) == SLVERR  # its request does not count either
        assert await bench.read(card, reg.REQ_IN + 2) == 0
        await goes_on(bench, traffic, rogue, card)
        assert await bench.read(card, reg.IRQ_UNMASKED) & reg.IRQ_FAULT


@cocotb.test()
async def more_than_the_grant(dut):
    async with Bench(dut) as bench:
        traffic, rogue, card = Traffic(SEED), Rogue(bench), bench.cards[1]
        _, frame = ready(traffic, 400)
        asked = words_of(frame)
        for high, low, as_high in ((0, asked - 1, False), (asked, 0, False), (asked - 1, 100, True)):
            assert await rogue.granted(card, high, low) == (high, low)
            before = await counter(bench, card, "over_grant")
            assert await rogue.burst(card, packet(frame, as_high) + [end(1)]) == SLVERR
            assert await counter(bench, card, "over_grant") == before + 1
            await goes_on(bench, traffic, rogue, card)
        # The first packet fits and is not taken back; the second does not.
        _, first = ready(traffic, 400)
        assert await rogue.granted(card, 0, asked + 3) == (0, asked + 3)
        bench.ledger.expect(("rogue", PLACE), card, first[:6] + bench.models[card].mac + first[12:])
        assert await rogue.burst(card, packet(first) + packet(frame) + [end(2)]) == SLVERR
        await goes_on(bench, traffic, rogue, card)


def malformed(frame):
    """(description, words) of malformed bursts."""
    good = packet(frame)
    yield "control word of kind 0", [0] + good[1:]
    yield "control word of kind 3", [3 << 60 | len(frame)] + good[1:]
    yield "reserved bits", [good[0] | 1 << 40] + good[1:]
    yield "priority 2", [good[0] | 2 << 16] + good[1:]
    yield "no octets", packet(frame, octets=0)
    yield "a runt", packet(frame[:56])
    yield "a giant", packet(frame.ljust(1521, b"x"))
    yield "65535 octets", packet(frame, octets=65535)
    yield "END of another count", good + [end(2)]
    yield "END with reserved bits", [end(0) | 1 << 32]
    yield "data without control", good[1:]


@cocotb.test()
async def malformed_bursts(dut):
    async with Bench(dut) as bench:
        traffic, rogue, card = Traffic(SEED), Rogue(bench), bench.cards[2]
        for count, (what, words) in enumerate(malformed(ready(traffic, 200)[1]), 1):
            if what.startswith("END of"):  # the packet before it is whole
                data = b"".join(word.to_bytes(8, "little") for word in words[1:26])
                bench.ledger.expect(("rogue", PLACE), card, data[:6] + bench.models[card].mac + data[12:])
            assert await rogue.granted(card, 0, 500) == (0, 500)
            assert await rogue.burst(card, words) == SLVERR, what
            assert await counter(bench, card, "malformed") == count, what
            await goes_on(bench, traffic, rogue, card)


@cocotb.test()
async def burst_that_never_ends(dut):
    """No burst follows a grant, or half a packet: the time-out withdraws the grant, and others wait no longer."""
    async with Bench(dut) as bench:
        traffic, rogue, card = Traffic(SEED), Rogue(bench), bench.cards[0]
        words = packet(ready(traffic, 600)[1])
        for count, part in enumerate(([], words[:1], words[:30], words), 1):
            assert await rogue.granted(card, 0, 500) == (0, 500)
            if part:
                assert await rogue.burst(card, part) == OKAY
            if part == words:  # a whole packet is the output's, END or not
                data = b"".join(word.to_bytes(8, "little") for word in words[1:])
                bench.ledger.expect(("rogue", PLACE), card, data[:6] + bench.models[card].mac + data[12:])
            paths(bench, traffic, 3)
            await bench.quiet(patience_us=60 + int(bench.timeout_ns / 1000))
            assert not bench.ledger.open()
            assert await counter(bench, card, "burst_timeout") == count
            assert await rogue.burst(card, [end(0)]) == SLVERR
            await goes_on(bench, traffic, rogue, card)


@cocotb.test()
async def addresses_of_nothing(dut):
    """What the aperture does not have answers SLVERR, what the bus does not have an error too; neither has an effect."""
    async with Bench(dut) as bench:
        traffic, rogue, card = Traffic(SEED), Rogue(bench), bench.cards[0]
        wrong = (0xC000, REQUEST + 0x18, REQUEST + 0x38, REQUEST + 4, RESPONSE + 0x18, RESPONSE + 0x38, 0x1_0080, 0x2_0000, 0xF_FFF8)
        for offset in wrong:
            assert await rogue.write(card, offset, [0x0010_0010]) == SLVERR, f"{offset:#x}"
        for offset in (REQUEST + 16, RESPONSE):
            assert await rogue.write(card, offset, [0x0010_0010, 0]) == SLVERR, f"two words at {offset:#x}"
        for offset in ((4 - card) << 20, 0x4000_0000):
            assert await rogue.write(card, offset, [1]) != OKAY
        assert rogue.grants[card].empty()
        for k in range(3):
            assert await bench.read(card, reg.REQ_IN + k) == 0
            assert await bench.read(card, reg.RSP_IN + k) == 0
        await goes_on(bench, traffic, rogue, card)


@cocotb.test()
async def peer_that_never_answers(dut):
    """Requests are repeated, the queue for that peer fills and drops; all others go on. Then it answers, and all comes."""
    async with Bench(dut) as bench:
        traffic, rogue, card = Traffic(SEED), Rogue(bench), bench.cards[1]
        await bench.set_class(card, 2, tos=(0xB8, 0xFF))
        await bench.commit(card)
        for k in range(2 * VOQ_WORDS // 100):
            bench.lines[card].send(traffic.routed(card, PLACE, size=1514, tos=0xB8 if k % 3 == 0 else 0))
            if k % 2:
                bench.lines[card].send(traffic.routed(card, OUTSIDE, size=300))
            paths(bench, traffic, 1)
        await bench.quiet()
        assert {record.verdicts[0].dest for record in bench.ledger.open()} == {2}
        await Timer(2.5 * bench.timeout_ns, "ns")
        assert await counter(bench, card, "repeated") >= 2
        full = await counter(bench, card, "peer_full")
        assert full > 0
        assert rogue.requests[card].qsize() >= 3
        rogue.answers = True
        await Timer(bench.timeout_ns, "ns")
        await bench.quiet()
        assert len(bench.ledger.open()) == full


@cocotb.test()
async def responses_unasked(dut):
    """A grant that nobody asked for is answered with a burst, of what is there or nothing."""
    async with Bench(dut) as bench:
        traffic, rogue, card = Traffic(SEED), Rogue(bench), bench.cards[0]
        for grant in ((0xFFFF, 0xFFFF), (0, 0), (1, 7)):
            await rogue.respond(card, *grant)
            assert await rogue.bursts[card].get() == ([], (0, 0))
        bench.lines[card].send(traffic.routed(card, PLACE, size=800))
        assert await rogue.requests[card].get() == (0, 100)
        await rogue.respond(card, 0, 99)  # too small: an empty burst asks again
        assert await rogue.bursts[card].get() == ([], (0, 100))
        await rogue.respond(card, 0xFFFF, 100)
        packets, request = await rogue.bursts[card].get()
        assert len(packets) == 1 and request == (0, 0)
        await goes_on(bench, traffic, rogue, card)


@cocotb.test()
async def refused_bursts(dut):
    """An aperture that answers SLVERR: counted; what was not sent yet stays queued, and comes when it answers well."""
    async with Bench(dut) as bench:
        traffic, rogue, card = Traffic(SEED), Rogue(bench), bench.cards[0]
        for _ in range(3):
            rogue.answers = True
            rogue.slave.response = lambda address: SLVERR if address & 0xFFFFF < 0x1_0000 else OKAY
            for k in range(12):
                bench.lines[card].send(traffic.routed(card, PLACE, size=700), optional=True)
            paths(bench, traffic, 5)
            await bench.quiet()
            rogue.slave.response = lambda address: OKAY
            await Timer(bench.timeout_ns + 30_000, "ns")
            bench.lines[card].send(traffic.routed(card, PLACE))
            await bench.quiet()
            assert not bench.ledger.open()
        assert await counter(bench, card, "bus_error") > 0


@cocotb.test()
async def stalled_aperture(dut):
    """An aperture that does not take a transaction for long: who waits at it waits; the others do not. Nothing is lost.
    (A shared bus stands still with it, so there it must be shorter than the time-out.)"""
    async with Bench(dut) as bench:
        traffic, rogue, card = Traffic(SEED), Rogue(bench), bench.cards[0]
        rogue.answers = True
        for stall in (0, 128 if bench.shared_bus else 250):
            rogue.slave.stall(stall)
            rogue.slave.stalled = None if stall else Event()
            for k in range(6):
                bench.lines[card].send(traffic.routed(card, PLACE))
            other, third = bench.cards[1:3]
            for _ in range(10):
                bench.lines[other].send(traffic.routed(other, third))
                bench.lines[third].send(traffic.routed(third, other))
                bench.lines[third].send(traffic.routed(third, OUTSIDE))
            if not bench.shared_bus:
                await bench.lines[third].idle.wait()
            await Timer(20, "us")
            if not stall:
                assert {record.source for record in bench.ledger.open()} <= {("wire", card)} or bench.shared_bus
                rogue.slave.stalled.set()
                rogue.slave.stalled = None
            await bench.quiet()
            rogue.slave.stall(0)
        await goes_on(bench, traffic, rogue, card)


@cocotb.test()
async def reset_in_mid_burst(dut):
    """The destination comes back without the half burst and refuses its rest; a source never breaks off a transaction."""
    async with Bench(dut) as bench:
        traffic, rogue, card = Traffic(SEED), Rogue(bench), bench.cards[1]
        words = packet(ready(traffic, 1000)[1]) + [end(1)]
        for cut in (1, 60, len(words) - 1):
            assert await rogue.granted(card, 0, 500) == (0, 500)
            assert await rogue.burst(card, words[:cut]) == OKAY
            reset = cocotb.start_soon(bench.reset(card))
            await rogue.write(card, 0x8000, words[cut:][:1])  # before, in or after the reset
            await reset
            assert await rogue.burst(card, words[cut:]) == SLVERR
            await goes_on(bench, traffic, rogue, card)
        for _ in range(3):
            rogue.answers = True
            rogue.slave.stall(220)
            for _ in range(4):
                bench.lines[card].send(traffic.routed(card, PLACE, size=1514))
            while not rogue.partial[card]:
                await Timer(500, "ns")
            await bench.reset(card)
            await bench.lines[card].idle.wait()
            rogue.partial[card] = []  # what its time-out would do
            rogue.slave.stall(0)
            await Timer(20, "us")
            await goes_on(bench, traffic, rogue, card)


@cocotb.test()
async def noise(dut):
    """Random transactions of the rogue in its own slot and at addresses of nothing, under traffic of the others."""
    async with Bench(dut) as bench:
        traffic, rogue = Traffic(SEED), Rogue(bench)
        rng = traffic.rng
        for _ in range(4):
            paths(bench, traffic, 15)
            for _ in range(25):
                card = rng.choice(bench.cards)
                length = rng.choice((1, 2, 9, 30, 128))
                words = [rng.getrandbits(64) & rng.choice((-1, 0x1_07FF)) | rng.choice((0, 1, 1, 2)) << 60 for _ in range(length)]
                offset = rng.choice((0x8000, 0x8000, 0xC000, REQUEST + 16, RESPONSE + 8 * card + 0x100, 0x3_0000))
                if offset == REQUEST + 16:
                    words = [rng.choice((0, 200, 0xFFFF_FFFF, rng.getrandbits(32)))]
                elif offset == 0x8000:
                    words = [word | 1 << 40 for word in words]  # never a packet that would come out
                await rogue.write(card, offset, words)
            await bench.quiet(patience_us=60 + int(30 * bench.timeout_ns / 1000))
            assert not bench.ledger.open()
        await Timer(2 * bench.timeout_ns, "ns")
        for card in bench.cards:
            await goes_on(bench, traffic, rogue, card)
