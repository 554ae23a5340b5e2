"""Faults of the host or the bus: late descriptors, slow and failing memory, wrong vectors. Afterwards traffic continues."""

import os

import cocotb
from cocotb.triggers import Event, Timer
from driver import BUFFER, RXHI, RXLO, TX, buffers
from golden import registers as reg
from system_bench import APERTURE, APERTURE_SIZE, Bench
from traffic import OUTSIDE, Traffic

NOBODY = APERTURE + 9 * APERTURE_SIZE  # a bus address nobody has


def mixed(bench, traffic, count=20, **of):
    """Good frames of both paths on all cards."""
    for card in bench.cards:
        for _ in range(count):
            bench.lines[card].send(**traffic.any(card, bench.cards, bad=0, **of))


def paths(bench, traffic, count=10):
    """Frames of the fast path only."""
    for card in bench.cards:
        for k in range(count):
            to = bench.cards[(bench.cards.index(card) + 1 + k % (len(bench.cards) - 1)) % len(bench.cards)]
            bench.lines[card].send(traffic.routed(card, to))


async def give_buffers(bench, card, count):
    """The first ones, to a driver that began without."""
    driver = bench.drivers[card]
    for number in (RXLO, RXHI):
        driver.rings[number].free.extend(buffers(driver.base, number, count))
    await driver.refill()


async def counter(bench, card, name):
    await bench.write(card, reg.DROP_CNT, reg.COUNTERS.index(name))
    return await bench.read(card, reg.DROP_CNT)


@cocotb.test()
async def descriptors_late(dut):
    """Without descriptors frames wait in the host's queue, then fall; the fast path goes on; later all that waited comes."""
    async with Bench(dut, buffers=0) as bench:
        traffic, card = Traffic(), bench.cards[0]
        words, sent = 0, 0
        while words < 4096 + 1000:  # at least the queue of 4096
            frame = traffic.routed(card, OUTSIDE, size=1514)
            bench.lines[card].send(frame)
            words, sent = words + 190, sent + 1
        paths(bench, traffic)
        await bench.quiet()
        assert not [r for r in bench.ledger.open() if r.verdicts and r.verdicts[0].kind == "fast"]
        full = await counter(bench, card, "host_full")
        assert 0 < full < sent
        await give_buffers(bench, card, 8)
        await bench.quiet()
        assert len(bench.ledger.open()) == full


@cocotb.test()
async def queues_to_the_last_word(dut):
    """A frame of just the words that are free is taken, of one more not: the host's queue, and a peer's."""
    async with Bench(dut, buffers=0) as bench:
        traffic, card, to = Traffic(), bench.cards[0], bench.cards[1]
        await bench.write(card, reg.PEER_BASE + to - 1, NOBODY)
        words = int(os.environ["HERO_VOQ_WORDS"])
        for network, name in ((OUTSIDE, "host_full"), (to, "peer_full")):
            frames, free = divmod(words, 190)
            for _ in range(frames):
                bench.lines[card].send(traffic.routed(card, network, size=1514))
            for size, full in ((8 * free + 1, 1), (8 * free, 1), (60, 2)):
                bench.lines[card].send(traffic.routed(card, network, size=size))
                await bench.lines[card].idle.wait()
                await Timer(3, "us")
                assert await counter(bench, card, name) == full, f"{name} after {size} octets"
        await bench.write(card, reg.PEER_BASE + to - 1, APERTURE + to * APERTURE_SIZE)
        await give_buffers(bench, card, 64)
        await Timer(int(bench.timeout_ns), "ns")
        await bench.quiet()
        assert len(bench.ledger.open()) == 4


@cocotb.test()
async def high_priority_first(dut):
    """What has waited for memory goes up high priority first, but for the one frame under way."""
    async with Bench(dut) as bench:
        traffic, card = Traffic(), bench.cards[0]
        await bench.set_class(card, 3, tos=(0xB8, 0xFF))
        await bench.commit(card)
        bench.memory.stalled = Event()
        for k in range(30):
            bench.lines[card].send(traffic.routed(card, OUTSIDE, size=200, tos=0xB8 if k >= 15 else 0))
        await bench.lines[card].idle.wait()
        await Timer(5, "us")
        bench.memory.stalled.set()
        bench.memory.stalled = None
        await bench.quiet()
        order = [record.arrived.high for record in bench.ledger.arrivals]
        assert len(order) == 30 and order[1:16] == [True] * 15 and not any(order[16:])


@cocotb.test()
async def rings_wrap(dut):
    """More frames than a completion ring has words: the phase tells old from new."""
    async with Bench(dut, poll=15_000) as bench:
        traffic, card = Traffic(), bench.cards[0]
        await bench.set_class(card, 3, tos=(0xB8, 0xFF))
        await bench.commit(card)
        for k in range(620):
            bench.lines[card].send(traffic.routed(card, OUTSIDE, size=60, tos=0xB8 if k % 2 else 0))
            if k % 2:
                bench.drivers[card].send(traffic.from_host(60))
        await bench.quiet()
        assert not bench.ledger.open()


@cocotb.test()
async def memory_errors(dut):
    """Buffers and vectors where there is no memory: counted, told, and over with the next good one."""
    async with Bench(dut) as bench:
        traffic, card = Traffic(), bench.cards[0]
        driver = bench.drivers[card]
        # A frame into a buffer that refuses it is lost with its buffer's completion marked.
        hole = driver.rings[RXLO].out[0]
        bench.memory.response = lambda address: 2 if hole <= address < hole + BUFFER else 0
        bench.lines[card].send(traffic.routed(card, OUTSIDE), optional=True)
        await bench.quiet()
        await Timer(20, "us")
        assert driver.errors == 1 and await counter(bench, card, "bus_error") == 1
        assert await bench.read(card, reg.IRQ_UNMASKED) & reg.IRQ_BUS
        # Transmit buffers that cannot be read are not sent.
        ring = driver.rings[TX]
        hole = ring.free[0]
        await driver.give(TX, reg.TX_DESC, [(ring.free.popleft(), 100)])
        await Timer(20, "us")
        assert driver.errors == 2 and await counter(bench, card, "bus_error") == 2
        # A vector that cannot be read: no descriptor of it is used.
        bench.memory.response = lambda address: 0
        await bench.write(card, reg.TX_DESC, NOBODY | 8)
        await Timer(20, "us")
        assert await counter(bench, card, "bus_error") == 3
        assert await bench.read(card, reg.TX_LEN) == 0
        # Misaligned buffers, and such as cross a page
        first, second, good = (ring.free.popleft() for _ in range(3))
        bench.ram[good : good + 60] = frame = traffic.from_host(60)
        bench.ledger.from_host(card, frame)
        ring.free.extend((first, second))
        await driver.give(TX, reg.TX_DESC, [(first + 4, 60), (second | 0xFF8, 60), (good, 60)])
        await Timer(20, "us")
        assert driver.errors == 4 and await counter(bench, card, "bus_error") == 5
        mixed(bench, traffic)


@cocotb.test()
async def completions_refused(dut):
    """Completions that memory refuses: counted, an interrupt, the ring named in STATUS. Other rings, cards and the fast
    path go on; a reset mends it."""
    async with Bench(dut) as bench:
        traffic, card = Traffic(), bench.cards[0]
        for number, tos in ((RXHI, 0xB8), (RXLO, 0), (TX, None)):
            await bench.set_class(card, 3, tos=(0xB8, 0xFF))
            await bench.commit(card)
            await bench.read(card, reg.IRQ_MASKED)
            ring = bench.drivers[card].rings[number].completions
            bench.memory.response = lambda address: 2 if ring <= address < ring + 0x800 else 0
            for each in (0xB8, 0):
                bench.lines[card].send(traffic.routed(card, OUTSIDE, tos=each), optional=each == tos)
            bench.drivers[card].send(traffic.from_host(60))
            paths(bench, traffic, 4)
            await bench.quiet()
            assert not bench.ledger.open()
            assert await counter(bench, card, "lost_completions") == await counter(bench, card, "bus_error") == 1
            assert await bench.read(card, reg.STATUS) >> reg.STATUS_BROKEN_SHIFT & 7 == 1 << number
            assert await bench.read(card, reg.TX_LEN) == int(number == TX)
            assert await bench.read(card, reg.IRQ_UNMASKED) & reg.IRQ_BUS
            bench.memory.response = lambda address: 0
            await bench.finish()
            await bench.reset(card)
            assert await bench.read(card, reg.STATUS) >> reg.STATUS_BROKEN_SHIFT & 7 == 0
        mixed(bench, traffic)


@cocotb.test()
async def wrong_vectors(dut):
    """Vectors of no or too many descriptors, or one too many: refused and counted. Frames of wrong length: not sent."""
    async with Bench(dut) as bench:
        traffic, card = Traffic(), bench.cards[0]
        driver = bench.drivers[card]
        refused = 0
        for register in (reg.RXLO_DESC, reg.RXHI_DESC, reg.TX_DESC):
            for count in (0, 33, 255):
                await bench.write(card, register, driver.base + 0x7000 | count)
                refused += 1
                assert await counter(bench, card, "vector_refused") == refused
        # The rings of the receiver are full now (64 buffers each): two more vectors wait, the third is refused.
        levels = await bench.read(card, reg.LEVELS)
        assert levels >> 16 == 0x4040 and levels & 0xFFF == 0x222, f"{levels:#x}"
        ring = driver.rings[RXLO]
        extra = buffers(driver.base, RXLO, 67)[64:]
        for k, address in enumerate(extra):
            if k == 2:
                await bench.write(card, reg.RXLO_DESC, ring.vectors | 1)
            else:
                await driver.give(RXLO, reg.RXLO_DESC, [(address, BUFFER)])
        assert await counter(bench, card, "vector_refused") == refused + 1
        assert await bench.read(card, reg.LEVELS) & 15 == 0
        # Lengths
        ring = driver.rings[TX]
        lengths = (0, 1, 13, 14, 1518, 1519, 2048, 65535)
        descriptors = []
        for length in lengths:
            address = ring.free.popleft()
            descriptors.append((address, length))
            if 14 <= length <= 1518:
                frame = traffic.from_host(length)
                bench.ram[address : address + length] = frame
                bench.ledger.from_host(card, frame)
        await driver.give(TX, reg.TX_DESC, descriptors)
        await bench.quiet()
        await Timer(20, "us")
        assert driver.errors == 6 and await counter(bench, card, "tx_length") == 6
        mixed(bench, traffic)


@cocotb.test()
async def used_up(dut):
    """The events of used up descriptors come once for each ring."""
    async with Bench(dut, buffers=3, poll=300_000) as bench:
        traffic, card = Traffic(), bench.cards[0]
        await bench.set_class(card, 3, tos=(0xB8, 0xFF))
        await bench.commit(card)
        for tos, event in ((0, reg.IRQ_RXLO_EMPTY), (0xB8, reg.IRQ_RXHI_EMPTY)):
            await bench.write(card, reg.IRQ_MASK, 0xFF)
            await bench.read(card, reg.IRQ_MASKED)
            for k in range(3):
                assert not await bench.read(card, reg.IRQ_UNMASKED) & event
                bench.lines[card].send(traffic.routed(card, OUTSIDE, size=60, tos=tos))
                await Timer(5, "us")
            assert await bench.read(card, reg.IRQ_UNMASKED) & event
        # One priority without buffers does not hold up the other.
        await bench.write(card, reg.IRQ_MASK, 0)
        bench.lines[card].send(traffic.routed(card, OUTSIDE, size=60, tos=0xB8))
        await bench.quiet(patience_us=700)
        assert not bench.ledger.open()


@cocotb.test()
async def transmitter_off(dut):
    """Without tx enable frames wait, of both paths; what does not fit its queue falls at the source."""
    async with Bench(dut) as bench:
        traffic, out = Traffic(), bench.cards[0]
        await bench.write(out, reg.CMD, reg.CMD_RX | reg.CMD_FAST)
        for card in bench.cards[1:]:
            for _ in range(10):
                bench.lines[card].send(traffic.routed(card, out, size=500))
        bench.drivers[out].send(traffic.from_host())
        await bench.quiet()
        assert len(bench.ledger.open()) == 10 * len(bench.cards[1:]) + 1
        await bench.write(out, reg.CMD, reg.CMD_RX | reg.CMD_TX | reg.CMD_FAST)
        await bench.quiet()
        assert not bench.ledger.open()


@cocotb.test()
async def wrong_peer(dut):
    """A peer's address that nobody has: bus errors; frames wait, fall when the queue is full; then it is mended."""
    async with Bench(dut) as bench:
        traffic, card, to = Traffic(), bench.cards[0], bench.cards[1]
        await bench.write(card, reg.PEER_BASE + to - 1, NOBODY)
        for _ in range(40):
            bench.lines[card].send(traffic.routed(card, to, size=1514))
        for _ in range(10):
            bench.lines[card].send(traffic.routed(card, bench.cards[2]))
            bench.lines[bench.cards[2]].send(traffic.routed(bench.cards[2], to))
            bench.lines[card].send(traffic.routed(card, OUTSIDE))
        await bench.quiet()
        assert await counter(bench, card, "bus_error")
        full = await counter(bench, card, "peer_full")
        assert full > 0
        assert all(r.verdicts[0].dest == to - 1 for r in bench.ledger.open())
        await bench.write(card, reg.PEER_BASE + to - 1, APERTURE + to * APERTURE_SIZE)
        await Timer(int(bench.timeout_ns), "ns")
        await bench.quiet()
        assert len(bench.ledger.open()) == full
        assert await counter(bench, card, "repeated")
