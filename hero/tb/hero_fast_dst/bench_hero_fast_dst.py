"""Bench of hero_fast_dst: requests, grants, bursts, and every fault of a source."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

from fastpath import (OKAY, SLVERR, Dma, PacketSink, WriteMaster, edge, end_word, packet, packet_word, pause, request,
                      slot_at, words_of)

DST_WORDS, MTU_WORDS, TIMEOUT = (int(os.environ[n]) for n in ("DST_WORDS", "MTU_WORDS", "TIMEOUT"))
BASES = [0x8030_0000, 0x8010_0000, 0x8020_0000]
PULSES = ("drop_no_grant", "drop_over_grant", "drop_timeout", "drop_malformed", "granted", "bus_error")
LONG = 8 * MTU_WORDS - 6


class Bench:
    """The device, its bus master, DMA engine and sink; `responses`: (slot, hi, lo) as they were written."""

    def __init__(self, dut, card=1, often=0):
        self.dut, self.card, self.clk = dut, card, dut.sys_clk
        self.responses, self.refuse_response = [], False
        self.count = dict.fromkeys(PULSES, 0)
        self.bus = WriteMaster(dut, self.clk, often=often)
        self.dma = Dma(dut, self.clk, self._response, often)
        self.sink = PacketSink(dut, self.clk, often)

    async def start(self):
        d = self.dut
        d.card.value, d.soft_rst.value, d.rsp_in_take.value = self.card, 0, 0
        d.peer_base.value = sum(b << 32 * i for i, b in enumerate(BASES))
        cocotb.start_soon(Clock(self.clk, 10, "ns").start())
        d.sys_rst.value = 1
        await ClockCycles(self.clk, 4)
        d.sys_rst.value = 0
        for task in (self.dma.run(), self.sink.run(), self._pulses(), self._credit()):
            cocotb.start_soon(task)
        await ClockCycles(self.clk, 2)
        return self

    async def _pulses(self):
        while True:
            await RisingEdge(self.clk)
            for n in PULSES:
                self.count[n] += int(getattr(self.dut, n).value)

    async def _credit(self):
        """P1: what is in the FIFO and what is granted always fit."""
        d = self.dut
        while True:
            await RisingEdge(self.clk)
            grant = int(d.left_hi.value) + int(d.left_lo.value) if d.open.value == 1 else 0
            assert int(d.level.value) + grant <= DST_WORDS

    def _response(self, addr, words):
        assert len(words) == 1 and words[0] >> 32 == 0
        slot = next(i for i, b in enumerate(BASES) if addr & ~0xFFFFF == b)
        assert addr & 0xFFFFF == 0x1_0040 + 8 * slot_at(self.card, slot)
        if self.refuse_response:
            return True
        self.responses.append((slot, words[0] >> 16, words[0] & 0xFFFF))
        return False

    async def ask(self, slot, hi, lo):
        assert await self.bus.write(0x1_0000 + 8 * slot, [request(hi, lo)]) == OKAY

    async def response(self, timeout=3000):
        """Takes the next response."""
        for _ in range(timeout):
            if self.responses:
                return self.responses.pop(0)
            await RisingEdge(self.clk)
        raise AssertionError("no response")

    async def grant(self, slot, hi, lo):
        await self.ask(slot, hi, lo)
        got = await self.response()
        assert got[0] == slot
        return got[1:]

    async def burst(self, slot, words):
        """Sends `words` in transactions of random sizes; the last response."""
        while words:
            n = random.randint(1, min(len(words), 128))
            addr = 0x4000 * slot + 8 * random.randrange(0x800 - n)
            answer = await self.bus.write(addr & ~0xFFF, words[:n], random.choice(("aw", "w")))
            if answer != OKAY:
                return answer
            words = words[n:]
        return OKAY

    async def packets_are(self, expected, timeout=20000):
        """The sink has taken these packets, and no others come."""
        for _ in range(timeout):
            if len(self.sink.packets) >= len(expected):
                break
            await RisingEdge(self.clk)
        await ClockCycles(self.clk, 50)
        assert self.sink.packets == expected, f"{len(self.sink.packets)} packets, {len(expected)} expected"
        self.sink.packets.clear()

    async def works(self, slot=0):
        """Everything is as at the start: a burst of a packet passes, and nothing is left in the FIFO."""
        assert await self.grant(slot, 0, MTU_WORDS) == (0, MTU_WORDS)
        p = packet(LONG, 0x600D)
        assert await self.burst(slot, [packet_word(LONG, 0)] + p + [end_word(1)]) == OKAY
        await self.packets_are([(LONG, p)])
        assert int(self.dut.level.value) == 0 and self.dut.open.value == 0


@cocotb.test()
async def grants_are_the_lesser_of_request_and_room(dut):
    b = await Bench(dut).start()
    for card in range(4):
        b.card = dut.card.value = card
        assert await b.grant(0, 10, 20) == (10, 20)
        assert await b.burst(0, [end_word(0)]) == OKAY
        assert await b.grant(1, 65535, 65535) == (DST_WORDS, 0)
        assert await b.burst(1, [end_word(0)]) == OKAY
        assert await b.grant(2, DST_WORDS - 3, 65535) == (DST_WORDS - 3, 3)
        assert await b.burst(2, [end_word(0)]) == OKAY
        assert int(dut.req_in.value) == 0, "REQ_IN does not show the request of the END word"


@cocotb.test()
async def bursts_carry_packets_of_both_priorities_and_the_next_request(dut):
    b = await Bench(dut).start()
    assert await b.grant(2, 100, 250) == (100, 250)
    packets = [packet(n, i) for i, n in enumerate((60, 61, 64, LONG, 71, 72))]
    sizes = (60, 61, 64, LONG, 71, 72)
    words = []
    for i, (n, p) in enumerate(zip(sizes, packets)):
        words += [packet_word(n, i < 3)] + p
    assert await b.burst(2, words + [end_word(6, 7, 9)]) == OKAY
    assert await b.response() == (2, 7, 9)
    assert await b.burst(2, [end_word(0, 0, 0)]) == OKAY
    await b.packets_are(list(zip(sizes, packets)))
    await ClockCycles(dut.sys_clk, 200)
    assert not b.responses and b.count["granted"] == 2
    assert sum(b.count[n] for n in PULSES if n.startswith("drop")) == 0


@cocotb.test()
async def nothing_is_granted_below_a_longest_packet(dut):
    b = await Bench(dut).start()
    b.sink.often = 100
    fill = (DST_WORDS - MTU_WORDS) // 8 + 1
    assert await b.grant(0, 0, 8 * fill) == (0, 8 * fill)
    words = []
    for i in range(fill):
        words += [packet_word(64, 0)] + packet(64, i)
    assert await b.burst(0, words + [end_word(fill)]) == OKAY
    await b.ask(1, 0, 8)
    await ClockCycles(dut.sys_clk, 300)
    assert not b.responses
    b.sink.often = 0
    assert await b.response() == (1, 0, 8)
    assert await b.burst(1, [end_word(0)]) == OKAY


@cocotb.test()
async def requests_are_served_in_turn(dut):
    """P7: after a grant of a slot, both others come before it again."""
    b = await Bench(dut).start()
    order = []
    for slot in (0, 1, 2):
        await b.ask(slot, 0, 8)
    for _ in range(30):
        slot, _, _ = await b.response()
        order.append(slot)
        await b.burst(slot, [end_word(0, 0, 8)])
    assert all(sorted(order[i:i + 3]) == [0, 1, 2] for i in range(28)), order
    await b.ask(order[-1], 0, 0)  # a request of nothing takes the earlier one back


@cocotb.test()
async def a_burst_without_grant_is_refused(dut):
    b = await Bench(dut).start()
    assert await b.burst(0, [end_word(0)]) == SLVERR
    assert b.count["drop_no_grant"] == 1
    # Neither does it harm the burst of the one that has a grant.
    assert await b.grant(1, 0, 20) == (0, 20)
    p = packet(80, 1)
    assert await b.bus.write(0x4000, [packet_word(80, 0)] + p[:4]) == OKAY
    assert await b.bus.write(0x0000, [packet_word(64, 0)] + packet(64, 2) + [end_word(1)]) == SLVERR
    assert await b.bus.write(0x4000, p[4:] + [end_word(1)]) == OKAY
    assert b.count["drop_no_grant"] == 2
    await b.packets_are([(80, p)])
    await b.works()


@cocotb.test()
async def a_burst_beyond_its_grant_ends(dut):
    b = await Bench(dut).start()
    for hi, lo, prio in ((20, 9, 0), (9, 20, 1), (0, 15, 0)):
        assert await b.grant(0, hi, lo) == (hi, lo)
        p = packet(64, 1)
        words = [packet_word(64, prio)] + p + [packet_word(64, prio)] + packet(64, 2) + [end_word(2, 5, 5)]
        assert await b.bus.write(0, words) == SLVERR
        await b.packets_are([(64, p)])  # the one that fitted
    assert b.count["drop_over_grant"] == 3 and not b.responses
    await b.works()


@cocotb.test()
async def malformed_bursts_end(dut):
    b = await Bench(dut).start()
    good = [packet_word(64, 0)] + packet(64, 1)
    bad = {
        "no control word": [0],
        "unknown type": [3 << 60 | 64],
        "reserved bit of a packet": [packet_word(64, 0) | 1 << 40],
        "reserved bit beside the priority": [packet_word(64, 0) | 1 << 17],
        "too short": [packet_word(56, 0)],
        "no octets": [packet_word(0, 0)],
        "too long": [packet_word(8 * MTU_WORDS + 1, 0)],
        "longest length": [packet_word(0xFFFF, 0)],
        "count too small": [end_word(0, 1, 1)],
        "count too large": [end_word(2, 1, 1)],
        "reserved bit of the end": [end_word(1) | 1 << 32],
    }
    for n, (why, words) in enumerate(bad.items()):
        assert await b.grant(n % 3, 0, DST_WORDS) == (0, DST_WORDS)
        assert await b.bus.write(0x4000 * (n % 3), good + words + packet(64, 3)) == SLVERR, why
        assert b.count["drop_malformed"] == n + 1, why
        await b.packets_are([(64, good[1:])])
    assert b.count["drop_no_grant"] == b.count["drop_over_grant"] == 0
    await b.works()


@cocotb.test()
async def a_burst_that_stays_away_or_stops_times_out(dut):
    b = await Bench(dut).start()
    p = packet(LONG, 1)
    for sent in ([], [packet_word(LONG, 0)], [packet_word(LONG, 0)] + p[:-1]):
        before = b.count["drop_timeout"]
        assert await b.grant(0, 0, DST_WORDS) == (0, DST_WORDS)
        assert await b.burst(0, list(sent)) == OKAY
        await b.ask(1, 0, 8)
        assert await b.response(TIMEOUT + 100) == (1, 0, 8)
        assert b.count["drop_timeout"] == before + 1
        assert await b.burst(0, p[-1:]) == SLVERR  # too late
        assert await b.burst(1, [end_word(0)]) == OKAY
        await b.packets_are([])
    await b.works()


@cocotb.test()
async def a_response_that_is_refused_ends_the_grant(dut):
    b = await Bench(dut).start()
    b.refuse_response = True
    await b.ask(0, 0, 8)
    await ClockCycles(dut.sys_clk, 50)
    assert b.count["bus_error"] == 1 and dut.open.value == 0
    b.refuse_response = False
    await b.works(1)


@cocotb.test()
async def other_addresses_are_refused(dut):
    b = await Bench(dut).start()
    for addr in (0xC000, 0xFFF8, 0x1_0018, 0x1_0058, 0x1_0004, 0x1_0080, 0x2_0000, 0xF_0000, 0x1_8000):
        assert await b.bus.write(addr, [request(5, 5)]) == SLVERR, hex(addr)
        assert await b.bus.write(addr, [request(5, 5)] * 3) == SLVERR, hex(addr)
    for addr in (0x1_0000, 0x1_0040):
        assert await b.bus.write(addr, [request(5, 5)] * 2) == SLVERR
    await ClockCycles(dut.sys_clk, 50)
    assert not b.responses and int(dut.req_in.value) == 0 and int(dut.rsp_in_valid.value) == 0
    assert all(n == 0 for n in b.count.values())
    assert await b.bus.write(0x8010_0000 + 0x1_0008, [request(1, 2)]) == OKAY  # bits 31:20 chose the card
    assert await b.response() == (1, 1, 2)
    await b.burst(1, [end_word(0)])


@cocotb.test()
async def responses_stay_until_taken(dut):
    b = await Bench(dut).start()
    for slot in (2, 0, 1):
        assert await b.bus.write(0x1_0040 + 8 * slot, [request(slot + 1, slot + 7)]) == OKAY
    assert await b.bus.write(0x1_0040, [request(40, 50)]) == OKAY  # the newer one counts
    await ClockCycles(dut.sys_clk, 5)
    assert int(dut.rsp_in_valid.value) == 7
    assert int(dut.rsp_in.value) == request(40, 50) | request(2, 8) << 32 | request(3, 9) << 64
    dut.rsp_in_take.value = 0b010
    await RisingEdge(dut.sys_clk)
    dut.rsp_in_take.value = 0
    await ClockCycles(dut.sys_clk, 2)
    assert int(dut.rsp_in_valid.value) == 0b101


@cocotb.test()
async def reset_in_mid_burst(dut):
    """Transactions under way end, refused; nothing is left of the burst."""
    b = await Bench(dut).start()
    for cycles in range(0, 24):
        assert await b.grant(0, 0, DST_WORDS) == (0, DST_WORDS)
        p = packet(LONG, 1)
        words = [packet_word(LONG, 0)] + p[:12]
        write = cocotb.start_soon(b.bus.write(0, words))
        await ClockCycles(dut.sys_clk, cycles)
        dut.soft_rst.value = 1
        answer = await write if cycles % 2 else None
        await ClockCycles(dut.sys_clk, 3)
        dut.soft_rst.value = 0
        answer = answer if cycles % 2 else await write
        assert answer == SLVERR or cycles > 12
        assert await b.burst(0, p[12:]) == SLVERR
        await b.packets_are([])
        await b.works(cycles % 3)


@cocotb.test()
async def random_sources(dut):
    """Three sources with random traffic and faults, pauses everywhere."""
    b = await Bench(dut, random.randrange(4), often=30).start()
    expected, since, packets = [], [0, 0, 0], 0
    for slot in range(3):
        await b.ask(slot, random.randrange(300), random.randrange(1, 300))
    for round_ in range(int(os.environ.get("ROUNDS", 150))):
        b.sink.often = random.choice((0, 30, 80))
        slot, hi, lo = await b.response(20000)
        since = [0 if s == slot else n + 1 for s, n in enumerate(since)]
        assert max(since) <= 2, "a requester waits for more than two bursts"
        words, count = [], 0
        while random.randrange(6) or (round_ % 7 == 0 and lo + hi > 190):
            prio = random.randrange(2)
            room = hi if prio else lo
            octets = random.choice((60, 64, 252, LONG, random.randint(60, LONG)))
            if words_of(octets) > room:
                break
            hi, lo = (hi - words_of(octets), lo) if prio else (hi, lo - words_of(octets))
            packets, count = packets + 1, count + 1
            p = packet(octets, packets)
            words += [packet_word(octets, prio)] + p
            expected.append((octets, p))
        if random.randrange(8) == 0:  # a fault at the end: what came before stays
            fault = random.choice(([end_word(count + 1)], [0], [packet_word(64, 1)] * (hi < 8) or [0],
                                   [packet_word(LONG, 0), 1, 2]))
            assert await b.burst(slot, words + fault) in (OKAY, SLVERR)
            await b.ask(slot, random.randrange(300), random.randrange(1, 300))
        else:
            assert await b.burst(slot, words + [end_word(count, random.randrange(300), random.randrange(1, 300))]) \
                == OKAY
    b.sink.often = 10
    await b.packets_are(expected, 200000)
    assert packets > 100 and b.count["drop_no_grant"] == 0
