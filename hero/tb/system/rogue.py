"""A card played by Python, which can send any requests, grants and bursts."""

import cocotb
from cocotb.queue import Queue
from cocotb.triggers import Lock
from ends import Slave
from golden.card import slot
from system_bench import APERTURE, APERTURE_SIZE
from traffic import own_mac

PLACE = 3  # the card it stands for
REQUEST, RESPONSE = 0x1_0000, 0x1_0040
BEATS = 128  # most beats of a transaction


def packet(frame, high=False, octets=None):
    """Control word and data of a packet; `octets`: another length told than the frame's."""
    padded = frame.ljust((len(frame) + 7) // 8 * 8, b"\0")
    words = [int.from_bytes(padded[k : k + 8], "little") for k in range(0, len(padded), 8)]
    return [1 << 60 | high << 16 | (len(frame) if octets is None else octets)] + words


def end(packets, high=0, low=0):
    """The END word, with the next request."""
    return 2 << 60 | (packets % 256) << 52 | high << 16 | low


def words_of(frame):
    return (len(frame) + 7) // 8


class Rogue:
    """Card 3 of `rogue_tb`. Its aperture takes what the cards write: `grants[card]` their responses, `requests[card]`
    their requests, `words[card]` the words of their bursts; `answers`: it grants each request in full at once."""

    def __init__(self, bench):
        self.bench, self.handle = bench, bench.dut.rogue
        self.lock = Lock()
        self.slave = Slave(bench, bench.dut.aperture, b"")
        self.slave.response = lambda address: 0
        self.slave.on_write = self.written
        self.grants = {card: Queue() for card in bench.cards}
        self.requests = {card: Queue() for card in bench.cards}
        self.bursts = {card: Queue() for card in bench.cards}  # (packets as (high, frame), next request)
        self.partial = {card: [] for card in bench.cards}
        self.answers = False
        cocotb.start_soon(self.slave.writes())

    # Sending

    async def write(self, card, offset, words):
        """Sends one transaction; returns its response."""
        async with self.lock:
            handle = self.handle
            handle.addr.value = APERTURE + APERTURE_SIZE * card + offset
            handle.beats.value = len(words)
            handle.data.value = sum(word << 64 * k for k, word in enumerate(words))
            handle.put.value = 1 - int(handle.done.value)
            await handle.done.value_change
            return int(handle.resp.value)

    async def request(self, card, high, low):
        return await self.write(card, REQUEST + 8 * slot(PLACE, card), [high << 16 | low])

    async def respond(self, card, high, low):
        return await self.write(card, RESPONSE + 8 * slot(PLACE, card), [high << 16 | low])

    async def burst(self, card, words):
        """Words of a burst in its slot, in transactions; the worst response."""
        place = 0x4000 * slot(PLACE, card)
        answers = []
        for k in range(0, len(words), BEATS):
            answers.append(await self.write(card, place, words[k : k + BEATS]))
        return max(answers)

    async def granted(self, card, high, low):
        """Asks, and waits for the grant: (high, low)."""
        while not self.grants[card].empty():
            self.grants[card].get_nowait()
        await self.request(card, high, low)
        return await self.grants[card].get()

    async def send(self, card, frames):
        """Well-behaved: frames as (high, frame), in one burst that must come out of `card`."""
        want = [sum(words_of(frame) for high, frame in frames if high == kind) for kind in (True, False)]
        grant = await self.granted(card, *want)
        assert list(grant) == want, f"asked for {want}, granted {grant}"
        words = []
        for high, frame in sorted(frames, key=lambda pair: not pair[0]):
            words += packet(frame, high)
            self.bench.ledger.expect(("rogue", PLACE), card, frame[:6] + own_mac(card) + frame[12:])
        assert await self.burst(card, words + [end(len(frames))]) == 0

    # Receiving

    def written(self, address, data):
        offset, words = address - APERTURE - APERTURE_SIZE * PLACE, [int.from_bytes(data[k : k + 8], "little") for k in range(0, len(data), 8)]
        if self.slave.response(address):
            return
        if offset < 0xC000:
            self.heard(offset // 0x4000, words)
            return
        kind, card = (self.requests, (offset - REQUEST) // 8) if offset < RESPONSE else (self.grants, (offset - RESPONSE) // 8)
        kind[card].put_nowait((words[0] >> 16, words[0] & 0xFFFF))
        if self.answers and kind is self.requests:
            cocotb.start_soon(self.respond(card, words[0] >> 16, words[0] & 0xFFFF))

    def heard(self, card, words):
        """Parses a burst; frames of complete bursts go to the ledger as if card 3 had sent them."""
        self.partial[card] += words
        at, packets, partial = 0, [], self.partial[card]
        while at < len(partial):
            control = partial[at]
            if control >> 60 == 2:
                assert control >> 52 & 255 == len(packets) % 256 and at == len(partial) - 1, f"END {control:#x} after {len(packets)}"
                self.partial[card] = []
                self.finished(card, packets, (control >> 16 & 0xFFFF, control & 0xFFFF))
                return
            assert control >> 17 == 1 << 43, f"control word {control:#x}"
            octets = control & 0xFFFF
            count = (octets + 7) // 8
            if at + 1 + count > len(partial):
                return
            data = b"".join(word.to_bytes(8, "little") for word in partial[at + 1 : at + 1 + count])
            packets.append((bool(control >> 16 & 1), data[:octets]))
            at += 1 + count

    def finished(self, card, packets, request):
        priorities = [high for high, _ in packets]
        assert priorities == sorted(priorities, reverse=True), "low priority before high"
        for _, frame in packets:
            self.bench.activity += 1
            self.bench.ledger.on_wire(PLACE, frame[:6] + self.bench.models[PLACE].mac + frame[12:])
        self.bursts[card].put_nowait((packets, request))
        if self.answers and any(request):
            cocotb.start_soon(self.respond(card, *request))


def ready(traffic, size=None, high=False):
    """(priority, frame) as a source card has it ready for a burst."""
    return high, traffic.plain(size, mac=bytes.fromhex("020000005555"))
