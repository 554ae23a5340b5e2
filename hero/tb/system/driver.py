"""The host's driver of one card, as for real hardware: vectors, completion rings, interrupts, NAPI."""

from collections import deque

import cocotb
from cocotb.triggers import Event, First, Timer
from golden import registers as reg

RXLO, RXHI, TX = range(3)
BUFFER = 2048  # octets
VECTOR = 32  # descriptors
REGION = 0x20_0000  # octets of host memory for each card
VECTORS_AT, BUFFERS_AT = 0x2000, 0x8000
EVENTS = reg.IRQ_RXLO | reg.IRQ_RXHI | reg.IRQ_TX | reg.IRQ_RXLO_EMPTY | reg.IRQ_RXHI_EMPTY


def buffers(base, number, count):
    """Addresses of the first buffers of ring `number`."""
    first = base + BUFFERS_AT + number * 256 * BUFFER
    return [first + BUFFER * k for k in range(count)]


class Ring:
    """One of the card's three rings as the host sees it. `count`: of buffers."""

    def __init__(self, base, number, count):
        self.completions = base + 0x800 * number
        self.vectors = base + VECTORS_AT + 0x1000 * number
        self.free = deque(buffers(base, number, count))
        self.out = deque()  # given to the card, in order
        self.taken = 0
        self.given = 0

    def next_vector(self):
        """A place for a vector; the card has at most two that it has not read."""
        self.given += 1
        return self.vectors + 0x100 * (self.given % 4)


class Driver:
    """Gives buffers, takes frames to the ledger, transmits. `buffers`: of each ring, at most 256; `poll`: ns between
    polls, or None for interrupts; `late`: ns from a completion to the refill; `vector`: descriptors given at once."""

    def __init__(self, bench, card, buffers=64, poll=None, late=0, vector=VECTOR):
        self.bench, self.card, self.poll, self.late, self.vector = bench, card, poll, late, vector
        self.base = REGION * card
        self.rings = [Ring(self.base, number, buffers) for number in range(3)]
        self.to_send = deque()
        self.wake = Event()
        self.errors = 0  # completions with the error bit
        self.task = None

    async def start(self):
        """After reset: completion rings, buffers, interrupts."""
        self.bench.ram[self.base : self.base + 0x1800] = bytes(0x1800)
        await self.bench.write(self.card, reg.CPL_BASE, self.base)
        await self.refill()
        await self.bench.write(self.card, reg.IRQ_MASK, 0 if self.poll else EVENTS)
        self.task = cocotb.start_soon(self.run())

    def stop(self):
        """The card was reset, so the rings are invalid."""
        if self.task:
            self.task.cancel()
            self.task = None

    def send(self, frame):
        """Queues a frame for the wire."""
        self.to_send.append(frame)
        self.wake.set()

    async def run(self):
        while True:
            if self.poll:
                await Timer(self.poll, "ns")
            else:
                await self.interrupt()
            while self.collect():
                if self.late:
                    await Timer(self.late, "ns")
                await self.refill()
            await self.transmit()
            if not self.poll:
                await self.bench.write(self.card, reg.IRQ_MASK, EVENTS)

    async def interrupt(self):
        """Waits for an interrupt, or for a frame to send; then disables interrupts, as NAPI does."""
        while not (int(self.bench.dut.irq.value) >> self.card & 1 or self.wake.is_set()):
            await First(self.bench.dut.irq.value_change, self.wake.wait())
        self.wake.clear()
        await self.bench.read(self.card, reg.IRQ_MASKED)
        await self.bench.write(self.card, reg.IRQ_MASK, 0)

    def collect(self):
        """Takes completed buffers; returns how many."""
        return sum(self._collect(number) for number in (RXHI, RXLO, TX))

    def _collect(self, number):
        ring, count = self.rings[number], 0
        while ring.out:
            at = ring.completions + 8 * (ring.taken % 256)
            word = int.from_bytes(self.bench.ram[at : at + 8], "little")
            if word >> 50 & 1 == ring.taken // 256 % 2:
                break
            self._completion(number, ring, word)
            ring.taken += 1
            count += 1
        return count

    def _completion(self, number, ring, word):
        address, octets, high, error = word & 0xFFFFFFFF, word >> 32 & 0xFFFF, word >> 48 & 1, word >> 49 & 1
        expected = ring.out.popleft()
        complain = self.bench.ledger.errors.append
        if address != expected or word >> 51:
            complain(f"card {self.card} ring {number}: completion {word:#x} instead of buffer {expected:#x}")
        ring.free.append(expected)
        self.errors += error
        if error:
            return
        if number != TX:
            if high != (number == RXHI):
                complain(f"card {self.card} ring {number}: priority {high}")
            self.bench.ledger.at_host(self.card, high, bytes(self.bench.ram[address : address + octets]))
            self.bench.activity += 1

    async def refill(self):
        """Gives all free buffers of the receive rings while the card accepts vectors."""
        levels = await self.bench.read(self.card, reg.LEVELS)
        for number, register in ((RXLO, reg.RXLO_DESC), (RXHI, reg.RXHI_DESC)):
            ring, vectors = self.rings[number], levels >> 4 * number & 15
            while vectors and ring.free:
                batch = [ring.free.popleft() for _ in range(min(self.vector, len(ring.free)))]
                await self.give(number, register, [(address, BUFFER) for address in batch])
                vectors -= 1

    async def transmit(self):
        """Gives queued frames to the card while it accepts vectors."""
        ring = self.rings[TX]
        vectors = None
        while self.to_send and ring.free:
            if vectors is None:
                vectors = await self.bench.read(self.card, reg.LEVELS) >> 8 & 15
            if not vectors:
                break
            batch = []
            while self.to_send and ring.free and len(batch) < self.vector:
                frame, address = self.to_send.popleft(), ring.free.popleft()
                self.bench.ram[address : address + len(frame)] = frame
                self.bench.ledger.from_host(self.card, frame)
                batch.append((address, len(frame)))
            await self.give(TX, reg.TX_DESC, batch)
            vectors -= 1

    async def give(self, number, register, descriptors):
        """Writes a vector of (address, octets) and tells the card."""
        ring = self.rings[number]
        at = ring.next_vector()
        for k, (address, octets) in enumerate(descriptors):
            self.bench.ram[at + 8 * k : at + 8 * k + 8] = (address | octets << 32).to_bytes(8, "little")
            ring.out.append(address)
        await self.bench.write(self.card, register, at | len(descriptors))
