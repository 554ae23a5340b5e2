"""A host in software: descriptor vectors, completion rings and interrupts of a card, and one CPU that forwards.

The CPU is a model: it takes a given time for each packet and does no other work."""

import struct
from collections import deque

from hero.tb.golden import registers as reg

BUFFER = 2048
VECTOR = 32  # descriptors at most
HELD = 64  # most descriptors that a card holds for each ring
RING = 256  # completions
AREA = 16 << 20  # host memory of a card: completion rings, vectors, buffers
RXLO, RXHI, TX = 0, 1, 2
RING_OFFSET = (0x0000, 0x0800, 0x1000)
DESC_REGISTER = (reg.RXLO_DESC, reg.RXHI_DESC, reg.TX_DESC)
LEVEL_SHIFT = (0, 4, 8)
VECTORS_AT, BUFFERS_AT = 0x2000, 0x10000
SLOTS = 16  # places for vectors of a ring, far more than can be outstanding


class Rings:
    """The three rings of one card. `vector`: descriptors per vector; 1 corresponds to the paper's scatter-gather."""

    def __init__(self, card, vector=VECTOR, buffers=384):
        self.card, self.memory, self.vector = card, card.hero.memory, vector
        self.base = card.number * AREA
        self.free = deque(self.base + BUFFERS_AT + k * BUFFER for k in range(buffers))
        self.next_completion = [0, 0, 0]
        self.out = [0, 0, 0]  # buffers given and not completed
        self.slot = [0, 0, 0]
        self.sending = deque()  # frames of send(): (buffer, octets)
        for ring in range(3):
            start = self.base + RING_OFFSET[ring]
            self.memory[start : start + 8 * RING] = bytes(8 * RING)
        card.write(reg.CPL_BASE, self.base)

    def _give(self, ring, descriptors):
        """Gives the card a vector of (buffer, octets)."""
        at = self.base + VECTORS_AT + (ring * SLOTS + self.slot[ring]) * 8 * VECTOR
        self.slot[ring] = (self.slot[ring] + 1) % SLOTS
        data = b"".join(struct.pack("<IHH", address, octets, 0) for address, octets in descriptors)
        self.memory[at : at + len(data)] = data
        self.card.write(DESC_REGISTER[ring], at | len(descriptors))
        self.out[ring] += len(descriptors)

    def room(self, ring):
        """How many vectors the card accepts now."""
        return self.card.read(reg.LEVELS) >> LEVEL_SHIFT[ring] & 0xF

    def refill(self, rings=(RXLO, RXHI)):
        """Gives receive vectors while the card accepts them and there are buffers."""
        for ring in rings:
            # no need to read the register: the card has room for at most two vectors besides those it holds
            if self.out[ring] > HELD + self.vector or len(self.free) < self.vector:
                continue
            for _ in range(self.room(ring)):
                if len(self.free) < self.vector or self.out[ring] + self.vector > RING:
                    break
                self._give(ring, [(self.free.popleft(), BUFFER) for _ in range(self.vector)])

    def completion(self, ring):
        """The next completion as (buffer, octets, priority, error), or None."""
        n = self.next_completion[ring]
        at = self.base + RING_OFFSET[ring] + 8 * (n % RING)
        address, octets, flags = struct.unpack_from("<IHH", self.memory, at)
        if (flags >> 2 & 1) != (n // RING + 1) % 2:
            return None
        self.next_completion[ring] = n + 1
        self.out[ring] -= 1
        return address, octets, flags & 1, flags >> 1 & 1

    def send(self, address, octets):
        """Queues a frame in `address`, which belongs to this card's rings until `reclaim` gives it back."""
        self.sending.append((address, octets))

    def flush(self):
        """Gives transmit vectors while the card accepts them."""
        if not self.sending or self.out[TX] > HELD + self.vector:
            return
        for _ in range(self.room(TX)):
            count = min(len(self.sending), self.vector, RING - self.out[TX])
            if count == 0:
                return
            self._give(TX, [self.sending.popleft() for _ in range(count)])

    def reclaim(self):
        """Buffers whose frames have been sent."""
        done = []
        while (completion := self.completion(TX)) is not None:
            done.append(completion[0])
        return done


class Cpu:
    """Forwards between cards as a router's CPU would, one packet after the other, interrupts and polling as NAPI.

    `service` ns for each packet, `interrupt` ns from the interrupt to the first packet. `forward(card, frame)` edits
    the frame (a memoryview of its buffer) and returns the card that sends it, or None. High priority goes first."""

    BUDGET = 64  # packets of a card before the next one's turn
    IDLE = 5000  # ns between polls of the transmit rings without interrupts

    def __init__(self, hero, rings, forward, service, interrupt=0):
        self.hero, self.rings, self.forward = hero, rings, forward
        self.service, self.interrupt = service, interrupt
        self.owner = {}  # buffer that another card is sending -> the rings that it belongs to
        self.interrupts = self.handled = self.errors = 0
        self.until = 0
        self.work = self._work()
        for r in rings:
            r.refill()
            r.card.write(reg.IRQ_MASK, reg.IRQ_RXLO | reg.IRQ_RXHI)

    def run(self, until):
        """Works until virtual time `until`, and finishes the packet or interrupt of that moment."""
        self.until = until
        while self.hero.now < until:
            next(self.work)

    def _work(self):
        """Yields whenever `run` may stop."""
        while True:
            irq = self.hero.run_until_irq(min(self.IDLE, max(0, self.until - self.hero.now)))
            if irq:
                yield from self._interrupt(irq)
            else:
                for r in self.rings:
                    self._reclaim(r)
                    r.flush()
            yield

    def _interrupt(self, irq):
        self.interrupts += 1
        self.hero.run(self.interrupt)
        polled = [r for r in self.rings if irq >> r.card.number & 1]
        for r in polled:
            r.card.write(reg.IRQ_MASK, 0)
        while polled:
            for r in list(polled):
                if (yield from self._poll(r)) < self.BUDGET:
                    polled.remove(r)
                    r.card.write(reg.IRQ_MASK, reg.IRQ_RXLO | reg.IRQ_RXHI)
                    r.card.read(reg.IRQ_MASKED)  # clears the events of what has been polled
                    if (yield from self._poll(r)):  # came in between
                        polled.append(r)
                        r.card.write(reg.IRQ_MASK, 0)

    def _poll(self, r):
        """Processes up to BUDGET packets of one card; returns how many."""
        done = 0
        while done < self.BUDGET:
            completion = r.completion(RXHI) or r.completion(RXLO)
            if completion is None:
                break
            done += 1
            self._packet(r, *completion)
            if done % 8 == 0:
                self._around(r)
            yield
        self._around(r)
        return done

    def _packet(self, r, address, octets, _priority, error):
        self.handled += 1
        self.hero.run(self.service)
        out = None
        if error:
            self.errors += 1
        else:
            out = self.forward(r.card.number, r.memory[address : address + octets])
        if out is None:
            r.free.append(address)
        else:
            self.owner[address] = r
            self.rings[out].send(address, octets)

    def _around(self, r):
        """What a driver does after some packets: send, take sent buffers back, refill."""
        for other in self.rings:
            if other.sending or other.out[TX]:
                self._reclaim(other)
                other.flush()
        r.refill()

    def _reclaim(self, r):
        for address in r.reclaim():
            self.owner.pop(address).free.append(address)
