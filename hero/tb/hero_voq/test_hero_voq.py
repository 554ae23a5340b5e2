"""hero_voq: writer and both readers at the same time against eight lists; room, heads, words; reset at any time."""

import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

from bench import clock, cycles, octets_of, reset, until, words_of
from run import run


def part(signal, index, width):
    """Part `index` of a vector; the others may be unknown."""
    bits = str(signal.value)
    return int(bits[len(bits) - (index + 1) * width : len(bits) - index * width], 2)


class Bench:
    def __init__(self, dut):
        self.dut, self.size, self.depth = dut, int(dut.VOQ_WORDS.value), int(dut.VOQ_PACKETS.value)
        self.queues = [[] for _ in range(8)]  # what must be in them
        self.full = 0  # frames that found no room
        self.out = 0
        self.stall = 0.0
        self.read = True
        for signal in (dut.enq_queue, dut.enq_len, dut.enq_valid, dut.enq_data, dut.enq_last, dut.f_start, dut.f_queue, dut.f_ready,
                       dut.h_start, dut.h_prio, dut.h_ready):
            signal.value = 0
        clock(dut.clk)

    async def start(self):
        await reset(self.dut.clk, self.dut.rst)
        for task in (self._reader("f", range(6)), self._reader("h", range(6, 8)), self._check()):
            cocotb.start_soon(task)
        return self

    def words(self, q):
        return sum((len(p) + 7) // 8 for p in self.queues[q])

    async def write(self, q, frame, gap=0.0):
        """Returns whether there was room."""
        dut = self.dut
        dut.enq_queue.value, dut.enq_len.value = q, len(frame)
        await FallingEdge(dut.clk)
        await ReadOnly()
        room = bool(int(dut.enq_room.value))
        # What is read meanwhile makes room; what was not there when asked cannot have been full
        if room:
            assert len(self.queues[q]) < self.depth
        await FallingEdge(dut.clk)
        if not room:
            self.full += 1
            return False
        words = words_of(frame)
        for i, word in enumerate(words):
            while random.random() < gap:
                await FallingEdge(dut.clk)
            dut.enq_valid.value, dut.enq_data.value, dut.enq_last.value = 1, word, i == len(words) - 1
            if i == len(words) - 1:
                self.queues[q].append(frame)
            await FallingEdge(dut.clk)
            dut.enq_valid.value = 0
            dut.enq_last.value = random.getrandbits(1)
        return True

    async def _reader(self, name, served):
        """Starts a random queue that has a head; takes its packet."""
        dut = self.dut
        signal = lambda s: getattr(dut, f"{name}_{s}")
        choose = dut.f_queue if name == "f" else dut.h_prio
        active, words = None, []
        while True:
            await FallingEdge(dut.clk)
            signal("start").value = 0
            signal("ready").value = random.random() >= self.stall
            heads = [q for q in served if int(signal("head").value) >> q - served[0] & 1]
            start = active is None and heads and self.read and random.random() < 0.8
            if start:
                active, words = random.choice(heads), []
                choose.value = active - served[0]
                signal("start").value = 1
            else:
                choose.value = random.randrange(len(served))
            await ReadOnly()
            if int(dut.rst.value):
                active = None
                continue
            if not int(signal("valid").value):
                continue
            assert active is not None and not start, "words that nobody asked for"
            words.append(int(signal("data").value))
            if not int(signal("ready").value):
                assert words.pop() is not None
            elif int(signal("last").value):
                frame = self.queues[active].pop(0)
                assert octets_of(words, len(frame)) == frame and len(words) == (len(frame) + 7) // 8, f"queue {active}"
                active = None
                self.out += 1

    async def _check(self):
        """Heads and lengths are those of packets that were written whole."""
        dut = self.dut
        while True:
            await FallingEdge(dut.clk)
            if int(dut.rst.value):
                continue
            for q in range(8):
                side, at = (dut.f_head, dut.f_len), q
                if q >= 6:
                    side, at = (dut.h_head, dut.h_len), q - 6
                if int(side[0].value) >> at & 1:
                    assert self.queues[q] and part(side[1], at, 16) == len(self.queues[q][0])

    def words_seen(self, q):
        return part(self.dut.f_words, q, 13) if q < 6 else part(self.dut.h_words, q - 6, 13)


def frame(longest):
    return random.randbytes(random.choice((60, 64, random.randint(60, longest))))


@cocotb.test()
async def random_traffic(dut):
    b = await Bench(dut).start()
    for stall, gap in ((0, 0), (0.6, 0.2), (0.9, 0)):
        b.stall = stall
        for _ in range(150):
            await b.write(random.randrange(8), frame(300), gap)
    b.stall = 0
    await until(dut.clk, lambda: not any(b.queues))
    await cycles(dut.clk, 2)
    assert b.out > 300 and all(b.words_seen(q) == 0 for q in range(8))


@cocotb.test()
async def room_to_the_last_word(dut):
    """A queue takes exactly what it holds, in words; another is not full by that; then all of it comes out again."""
    b = await Bench(dut).start()
    b.read = False
    for q in range(8):
        left = b.size
        while left > 40:
            words = random.randint(20, 30)
            assert await b.write(q, random.randbytes(8 * words - random.randrange(8)))
            left -= words
        assert not await b.write(q, random.randbytes(8 * left + 1)), "no room for a word more"
        assert await b.write(q, random.randbytes(8 * left - 7))
        assert not await b.write(q, random.randbytes(1))
        await cycles(dut.clk, 2)
        assert b.words_seen(q) == b.size == b.words(q)
    b.read = True
    await until(dut.clk, lambda: not any(b.queues))


@cocotb.test()
async def room_to_the_last_packet(dut):
    b = await Bench(dut).start()
    b.read = False
    for _ in range(b.depth):
        assert await b.write(3, b"\1")
    assert not await b.write(3, b"\1"), "the sizes' memory is full"
    b.read = True
    await until(dut.clk, lambda: not any(b.queues))
    assert await b.write(3, b"\1")


@cocotb.test()
async def look_ahead(dut):
    """The next packet's head is there two cycles after the last word was taken at the latest."""
    b = await Bench(dut).start()
    b.read = False
    for q in (2, 7):
        for _ in range(4):
            await b.write(q, frame(100))
    await cycles(dut.clk, 8)
    b.read = True
    missing = 0
    while b.queues[2] or b.queues[7]:
        await FallingEdge(dut.clk)
        await ReadOnly()
        shown = (int(dut.f_head.value) >> 2 & 1 or not b.queues[2]) and (int(dut.h_head.value) >> 1 & 1 or not b.queues[7])
        missing = 0 if shown else missing + 1
        assert missing <= 2


@cocotb.test()
async def reset_at_any_time(dut):
    b = await Bench(dut).start()
    b.stall = 0.3
    for _ in range(15):
        writer = cocotb.start_soon(write_many(b))
        await cycles(dut.clk, random.randint(1, 200))
        writer.cancel()
        await FallingEdge(dut.clk)
        dut.rst.value, dut.enq_valid.value = 1, 0
        await cycles(dut.clk, 2)
        for q in b.queues:
            q.clear()
        assert int(dut.f_head.value) == 0 and int(dut.h_head.value) == 0
        dut.rst.value = 0
        out = b.out
        await b.write(random.randrange(8), frame(100))
        await until(dut.clk, lambda: b.out == out + 1, 500)


async def write_many(b):
    while True:
        await b.write(random.randrange(8), frame(200), 0.1)


def test_voq(simulator):
    run("hero_voq", ["hero_ram", "hero_packet_fifo", "hero_voq"], "test_hero_voq", simulator, {"VOQ_WORDS": 256, "VOQ_PACKETS": 16})
