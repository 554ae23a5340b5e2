"""Bench of hero_fast_src against a model of the VOQ and of the destinations."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

from fastpath import Dma, packet, peer, slot_at, words_of

TIMEOUT, TXN_BEATS = (int(os.environ[n]) for n in ("TIMEOUT", "TXN_BEATS"))
BASES = [0x8030_0000, 0x8010_0000, 0x8020_0000]
PULSES = ("repeated", "burst_sent", "bus_error")


class Voq:
    """The fast reader's side of the VOQ: queues of (octets, words). The next head shows up to two cycles late."""

    def __init__(self, dut, often=0):
        self.dut, self.often = dut, often
        self.queues = [[] for _ in range(6)]
        self.words = [0] * 6
        self.streaming = None

    def put(self, dest, prio, octets, words):
        self.queues[2 * dest + prio].append((octets, words))
        self.words[2 * dest + prio] += len(words)

    async def run(self):
        d, late = self.dut, [0] * 6
        valid = False
        while True:
            d.f_head.value = sum((len(q) > 0 and n == 0) << i for i, (q, n) in enumerate(zip(self.queues, late)))
            d.f_len.value = sum((q[0][0] if q else 0) << 16 * i for i, q in enumerate(self.queues))
            d.f_words.value = sum(w << 13 * i for i, w in enumerate(self.words))
            late = [max(0, n - 1) for n in late]
            if self.streaming is not None:
                queue, at = self.streaming
                packet_words = self.queues[queue][0][1]
                valid = valid or random.randrange(100) >= self.often
                d.f_data.value, d.f_last.value = packet_words[at], at == len(packet_words) - 1
            d.f_valid.value = valid
            await RisingEdge(d.sys_clk)
            if valid and d.f_ready.value == 1:
                valid = False
                self.words[queue] -= 1
                self.streaming = (queue, at + 1)
                if at + 1 == len(packet_words):
                    self.queues[queue].pop(0)
                    late[queue] = random.randrange(2)
                    self.streaming = None
            if d.f_start.value == 1:
                queue = int(d.f_queue.value)
                assert self.streaming is None and self.queues[queue], "a start without head, or in mid-packet"
                self.streaming = (queue, 0)


class Destination:
    """One destination: collects requests, takes bursts apart; `packets` as (prio, octets, words)."""

    def __init__(self):
        self.requests, self.packets, self.bursts = [], [], []
        self.words, self.sizes, self.granted = [], [], (0, 0)

    def take(self, words):
        """Words of a transaction; True when the END word was among them."""
        self.words += words
        self.sizes.append(len(words))
        while self.words:
            word = self.words[0]
            if word >> 60 == 2:
                assert self.words == [word], "words behind the END word"
                self._end(word)
                return True
            assert word >> 60 == 1 and word & 0x0FFFFFFFFFFE0000 == 0, hex(word)
            octets, prio = word & 0xFFFF, word >> 16 & 1
            n = words_of(octets)
            if len(self.words) <= n:
                return False
            self.packets.append((prio, octets, self.words[1:n + 1]))
            self.words = self.words[n + 1:]
        return False

    def _end(self, word):
        new = self.packets[sum(b["packets"] for b in self.bursts):]
        assert word >> 52 & 0xFF == len(new) & 0xFF and word >> 32 & 0xFFFFF == 0
        for prio, granted in zip((1, 0), self.granted):
            assert sum(words_of(p[1]) for p in new if p[0] == prio) <= granted, "more than granted"
        assert all(n == TXN_BEATS for n in self.sizes[:-1]) and self.sizes[-1] <= TXN_BEATS
        self.bursts.append({"packets": len(new), "sizes": self.sizes})
        self.words, self.sizes = [], []
        if word & 0xFFFFFFFF:
            self.requests.append((word >> 16 & 0xFFFF, word & 0xFFFF))


class Bench:
    def __init__(self, dut, card=1, often=0):
        self.dut, self.clk, self.card = dut, dut.sys_clk, card
        self.count = dict.fromkeys(PULSES, 0)
        self.voq = Voq(dut, often)
        self.dma = Dma(dut, self.clk, self._transaction, often)
        self.to = [Destination() for _ in range(3)]
        self.fail = lambda dest, is_burst: False
        self.transactions = 0

    async def start(self):
        d = self.dut
        d.card.value = self.card
        d.peer_base.value = sum(b << 32 * i for i, b in enumerate(BASES))
        d.rsp_in_valid.value = d.rsp_in.value = 0
        cocotb.start_soon(Clock(self.clk, 10, "ns").start())
        d.sys_rst.value = 1
        await ClockCycles(self.clk, 4)
        d.sys_rst.value = 0
        for task in (self.dma.run(), self.voq.run(), self._pulses()):
            cocotb.start_soon(task)
        await ClockCycles(self.clk, 2)
        return self

    async def _pulses(self):
        while True:
            await RisingEdge(self.clk)
            for n in PULSES:
                self.count[n] += int(getattr(self.dut, n).value)

    def _transaction(self, addr, words):
        self.transactions += 1
        dest = next(i for i, b in enumerate(BASES) if addr & ~0xFFFFF == b)
        to, offset, slot = self.to[dest], addr & 0xFFFFF, slot_at(self.card, dest)
        is_burst = offset < 0x1_0000
        if self.fail(dest, is_burst):
            if is_burst:
                to.words, to.sizes = [], []
            return True
        if is_burst:
            assert offset == 0x4000 * slot
            to.take(words)
        else:
            assert offset == 0x1_0000 + 8 * slot and len(words) == 1 and words[0] >> 32 == 0
            assert words[0], "a request of nothing"
            to.requests.append((words[0] >> 16, words[0] & 0xFFFF))
        return False

    async def until(self, condition, timeout=3000):
        for _ in range(timeout):
            if condition():
                return
            await RisingEdge(self.clk)
        raise AssertionError("it does not happen")

    async def request(self, dest, timeout=3000):
        await self.until(lambda: self.to[dest].requests, timeout)
        return self.to[dest].requests.pop(0)

    async def respond(self, dest, hi, lo):
        d = self.dut
        self.to[dest].granted = (hi, lo)
        d.rsp_in.value = int(d.rsp_in.value) & ~(0xFFFFFFFF << 32 * dest) | (hi << 16 | lo) << 32 * dest
        d.rsp_in_valid.value = int(d.rsp_in_valid.value) | 1 << dest
        while True:
            await RisingEdge(self.clk)
            if int(d.rsp_in_take.value) >> dest & 1:
                d.rsp_in_valid.value = int(d.rsp_in_valid.value) & ~(1 << dest)
                return

    async def burst(self, dest, hi, lo, timeout=6000):
        """Grants, and waits for the END word; the burst."""
        n = len(self.to[dest].bursts)
        await self.respond(dest, hi, lo)
        await self.until(lambda: len(self.to[dest].bursts) > n, timeout)
        return self.to[dest].bursts[-1]

    def fill(self, dest, sizes):
        """Queues packets of `sizes` (prio, octets), and returns them."""
        new = []
        for prio, octets in sizes:
            new.append((prio, octets, packet(octets, random.getrandbits(64))))
            self.voq.put(dest, prio, octets, new[-1][2])
        return new


@cocotb.test()
async def a_packet_is_asked_for_and_sent(dut):
    b = await Bench(dut).start()
    for card in range(4):
        b.card = dut.card.value = card
        for dest in range(3):
            new = b.fill(dest, [(0, 60)])
            assert await b.request(dest) == (0, 8)
            assert (await b.burst(dest, 0, 8))["packets"] == 1
            assert b.to[dest].packets == new and peer(card, dest) != card
            b.to[dest].packets.clear()
            b.to[dest].bursts.clear()
    assert b.transactions == 24 and b.count["repeated"] == 0
    await b.until(lambda: b.count["burst_sent"] == 12)


@cocotb.test()
async def high_priority_first_each_within_its_grant(dut):
    b = await Bench(dut).start()
    new = b.fill(0, [(0, 64), (1, 128), (0, 64), (1, 64), (0, 1514), (1, 256), (0, 60)])
    high, low = [p for p in new if p[0]], [p for p in new if not p[0]]
    await b.request(0)
    burst = await b.burst(0, 25, 16 + 189)  # the last high and the long low one do not fit by a word
    assert b.to[0].packets == high[:2] + low[:2] and burst["packets"] == 4
    assert await b.request(0) == (32, 190 + 8)
    burst = await b.burst(0, 32, 198)
    assert b.to[0].packets == high[:2] + low[:2] + high[2:] + low[2:]
    assert not b.to[0].requests and burst["sizes"][:-1] == [TXN_BEATS] * (len(burst["sizes"]) - 1)


@cocotb.test()
async def a_response_is_always_answered(dut):
    b = await Bench(dut).start()
    assert (await b.burst(1, 100, 100))["packets"] == 0  # nothing queued, nothing asked
    new = b.fill(2, [(0, 1514)])
    assert await b.request(2) == (0, 190)
    for _ in range(3):
        assert (await b.burst(2, 0, 189))["packets"] == 0  # too little: the END word asks again
        assert await b.request(2) == (0, 190)
    await b.burst(2, 0, 190)
    assert b.to[2].packets == new


@cocotb.test()
async def the_tail_race(dut):
    """A packet that is queued in any cycle around the END word is in its request or asked for anew."""
    b = await Bench(dut).start()
    in_end = 0
    for cycle in range(60):
        new = b.fill(0, [(0, 64)])
        await b.request(0)
        cocotb.start_soon(b.respond(0, 0, 8))
        await ClockCycles(dut.sys_clk, cycle)
        new += b.fill(0, [(1, 64)])
        await b.until(lambda: b.to[0].bursts, 300)
        in_end += len(b.to[0].requests)
        assert await b.request(0, 100) == (8, 0)
        await b.burst(0, 8, 0)
        await ClockCycles(dut.sys_clk, 30)
        assert b.to[0].packets == new and not b.to[0].requests
        b.to[0].packets.clear()
        b.to[0].bursts.clear()
    assert 0 < in_end < 60 and b.count["repeated"] == 0


@cocotb.test()
async def a_request_without_answer_is_repeated(dut):
    b = await Bench(dut).start()
    b.fill(0, [(0, 64)])
    await b.request(0)
    b.fill(0, [(1, 64)])
    for n in range(1, 4):
        assert await b.request(0, TIMEOUT + 50) == (8, 8)
        assert b.count["repeated"] == n
    await ClockCycles(dut.sys_clk, TIMEOUT - 50)
    assert not b.to[0].requests
    # The other destinations do not wait for it.
    b.fill(1, [(0, 64)])
    await b.request(1, 60)
    await b.burst(1, 0, 8)


@cocotb.test()
async def a_refused_request_waits_for_its_time_out(dut):
    b = await Bench(dut).start()
    b.fail = lambda dest, is_burst: dest == 0
    b.fill(0, [(0, 64)])
    await b.until(lambda: b.count["bus_error"] == 1)
    await ClockCycles(dut.sys_clk, TIMEOUT - 100)
    assert b.transactions == 1
    b.fail = lambda dest, is_burst: False
    assert await b.request(0, 300) == (0, 8)
    await b.burst(0, 0, 8)


@cocotb.test()
async def a_refused_burst_asks_again(dut):
    """Whole packets that were on their way are lost, the rest follows."""
    b = await Bench(dut).start()
    for failing in range(1, 5):  # the transaction that is refused
        b.voq.often = random.choice((0, 40))
        new = b.fill(0, [(0, 8 * TXN_BEATS + 3)] * 6 + [(1, 64)])
        await b.request(0)
        left = failing

        def fail(dest, is_burst):
            nonlocal left
            left -= is_burst
            return is_burst and left == 0

        b.fail = fail
        errors = b.count["bus_error"]
        await b.respond(0, 500, 5 * (TXN_BEATS + 1))
        await b.until(lambda: b.count["bus_error"] == errors + 1, 9000)
        hi, lo = await b.request(0, 2000)
        rest = sum(words_of(p[0]) for q in b.voq.queues for p in q)
        assert hi + lo == rest > 0
        lost = len(new) - sum(len(q) for q in b.voq.queues) - len(b.to[0].packets)
        assert 1 <= lost <= 4
        seen = len(b.to[0].packets)
        b.to[0].bursts = [{"packets": seen}]
        while sum(b.voq.words):
            await b.burst(0, 500, 500, 9000)
            b.to[0].requests.clear()
        order = new[-1:] + new[:-1]  # the one of high priority first
        tail = b.to[0].packets[seen:]
        assert b.to[0].packets == order[:seen] + order[len(order) - len(tail):] and seen + len(tail) + lost == 7
        b.to[0].packets.clear()
        b.to[0].bursts.clear()


@cocotb.test()
async def random_destinations(dut):
    b = await Bench(dut, random.randrange(4), often=25).start()
    expected = [[[], []] for _ in range(3)]

    async def destination(dest):
        while True:
            hi, lo = await b.request(dest, 10**6)
            for _ in range(random.choice((0, 5, 200))):
                await RisingEdge(b.clk)
            room = random.choice((190, 250, 700, 3000))
            await b.burst(dest, min(hi, room), min(lo, room - min(hi, room)), 10**6)

    for dest in range(3):
        cocotb.start_soon(destination(dest))
    for _ in range(int(os.environ.get("PACKETS", 500))):
        dest, prio = random.randrange(3), random.randrange(2)
        octets = random.choice((60, 64, 252, 1514, random.randint(60, 1514)))
        if b.voq.words[2 * dest + prio] < 3800:
            expected[dest][prio] += b.fill(dest, [(prio, octets)])
        for _ in range(random.choice((0, 10, 100))):
            await RisingEdge(b.clk)
    await b.until(lambda: sum(b.voq.words) == 0, 300000)
    await ClockCycles(b.clk, 2000)
    for dest in range(3):
        for prio in range(2):
            assert [p for p in b.to[dest].packets if p[0] == prio] == expected[dest][prio]
    assert b.count["bus_error"] == 0
