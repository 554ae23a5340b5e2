"""The host and the host's queues around slow_bench: memory with bad places, descriptor rings, a model of hero_voq's reader."""

import logging
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import Lock, ReadOnly, RisingEdge
from cocotbext.axi import AxiBus, AxiSlave
from cocotbext.axi.address_space import Region

RXLO, RXHI, TX = 0, 1, 2
CPL_BASE = 0x0004_0000
VECTORS = 0x0006_0000
SIZE = 0x0010_0000


class Memory(Region):
    """Host memory; addresses at or above SIZE, and in the pages of `bad`, answer SLVERR."""

    def __init__(self):
        super().__init__(SIZE)
        self.mem = bytearray(SIZE)
        self.bad = set()

    def _check(self, address, length):
        if address + length > SIZE or address >> 12 in self.bad:
            raise ValueError("no memory here")

    async def _read(self, address, length, **_):
        self._check(address, length)
        return bytes(self.mem[address:address + length])

    async def _write(self, address, data, **_):
        self._check(address, len(data))
        self.mem[address:address + len(data)] = data

    read, write = _read, _write


def frame(rng, size=None):
    return rng.randbytes(size or rng.choice([60, 61, 67, 68, 64, 300, 1000, 1513, 1514, 1518, rng.randint(60, 1518)]))


class Host:
    def __init__(self, dut, seed=1):
        self.dut, self.rng = dut, random.Random(seed)
        self.memory = Memory()
        self.slave = AxiSlave(AxiBus.from_prefix(dut, "m_axi"), dut.sys_clk, dut.sys_rst, target=self.memory)
        for interface in (self.slave.write_if, self.slave.read_if):
            interface.log.setLevel(logging.ERROR)
        self.place = [0, 0, 0]  # place of the next completion to look at
        self.next_vector = 0
        self.transactions = []  # (channel, address, octets)
        self.giving = Lock()
        self.queues = [[], []]  # the host's queues of hero_voq
        self.sent = []  # frames that came out
        self.pulses = {"refused": 0, "bad_length": 0, "used_up": [0, 0], "bad_buffer": [0, 0], "completed": [0, 0, 0], "lost": 0,
                       "wr_failed": 0, "rd_failed": 0}

    async def start(self):
        d = self.dut
        for s in ("quiesce", "give", "vector", "h_head", "h_len", "h_valid", "h_data", "h_last", "out_ready"):
            getattr(d, s).value = 0
        d.tx_enable.value = 1
        d.cpl_base.value = CPL_BASE >> 13
        d.sys_rst.value = 1
        cocotb.start_soon(Clock(d.sys_clk, 10, "ns").start())
        for _ in range(4):
            await RisingEdge(d.sys_clk)
        d.sys_rst.value = 0
        for f in (self._voq(), self._sink(), self._watch(), self._stable()):
            cocotb.start_soon(f)
        await RisingEdge(d.sys_clk)

    def pause(self, probability):
        """Random pauses on every AXI channel, and of the sink."""
        def coin():
            while True:
                yield self.rng.random() < probability
        w, r = self.slave.write_if, self.slave.read_if
        for channel in (w.aw_channel, w.w_channel, w.b_channel, r.ar_channel, r.r_channel):
            channel.set_pause_generator(coin())

    async def cycles(self, n):
        for _ in range(n):
            await RisingEdge(self.dut.sys_clk)

    async def until(self, condition, cycles=20000, what="condition"):
        for _ in range(cycles):
            if condition():
                return
            await RisingEdge(self.dut.sys_clk)
        raise AssertionError(f"{what}: not within {cycles} cycles")

    async def give(self, ring, descriptors, count=None):
        """A vector of (address, octets); returns when the register write is over."""
        address = VECTORS + 256 * (self.next_vector % 64)
        self.next_vector += 1
        for i, (buffer, octets) in enumerate(descriptors):
            self.memory.mem[address + 8 * i:address + 8 * i + 8] = (buffer | octets << 32).to_bytes(8, "little")
        await self.give_raw(ring, address | (len(descriptors) if count is None else count))

    async def give_raw(self, ring, vector):
        async with self.giving:
            self.dut.give.value = 1 << ring
            self.dut.vector.value = vector
            await RisingEdge(self.dut.sys_clk)
            self.dut.give.value = 0
            await RisingEdge(self.dut.sys_clk)

    def free(self, ring):
        return int(self.dut.free.value) >> 2 * ring & 3

    def held(self, ring):
        return int(self.dut.held.value) >> 8 * ring & 0xff

    def completion(self, ring):
        """The next completion as (buffer, octets, priority, error), or None."""
        place = self.place[ring]
        at = CPL_BASE + 0x800 * ring + 8 * (place % 256)
        word = int.from_bytes(self.memory.mem[at:at + 8], "little")
        if (word >> 50 & 1) != (place // 256 + 1) % 2:
            return None
        assert word >> 51 == 0
        self.place[ring] += 1
        return word & 0xffffffff, word >> 32 & 0xffff, word >> 48 & 1, word >> 49 & 1

    def octets(self, address, length):
        return bytes(self.memory.mem[address:address + length])

    async def _voq(self):
        d = self.dut
        while True:
            d.h_head.value = sum(1 << p for p in (0, 1) if self.queues[p])
            d.h_len.value = sum(len(self.queues[p][0]) << 16 * p for p in (0, 1) if self.queues[p])
            await ReadOnly()
            start, prio = d.h_start.value, d.h_prio.value
            await RisingEdge(d.sys_clk)
            if not start:
                continue
            packet = self.queues[int(prio)][0]
            words = [packet[i:i + 8] for i in range(0, len(packet), 8)]
            for i, word in enumerate(words):
                while self.rng.random() < 0.2:  # the reader may wait for the queue
                    d.h_valid.value = 0
                    await RisingEdge(d.sys_clk)
                d.h_valid.value = 1
                d.h_data.value = int.from_bytes(word, "little")
                d.h_last.value = i == len(words) - 1
                while True:
                    await ReadOnly()
                    ready = d.h_ready.value
                    await RisingEdge(d.sys_clk)
                    if ready:
                        break
            d.h_valid.value = 0
            self.queues[int(prio)].pop(0)

    async def _sink(self):
        d, words, taken = self.dut, b"", None
        self.sink_pause = 0.0
        while True:
            if d.sys_rst.value:
                words, taken = b"", None
            d.out_ready.value = self.rng.random() >= self.sink_pause
            await ReadOnly()
            if d.out_valid.value and d.out_ready.value:
                length = int(d.out_len.value)
                assert taken in (None, length), "out_len changed inside a frame"
                taken = length
                words += int(d.out_data.value).to_bytes(8, "little")
                if d.out_last.value:
                    assert len(words) == (length + 7) // 8 * 8
                    self.sent.append(words[:length])
                    words, taken = b"", None
            await RisingEdge(d.sys_clk)

    async def _watch(self):
        while True:
            await ReadOnly()
            for name, count in self.pulses.items():
                value = int(getattr(self.dut, name).value)
                if isinstance(count, list):
                    for i in range(len(count)):
                        count[i] += value >> i & 1
                else:
                    self.pulses[name] += value
            await RisingEdge(self.dut.sys_clk)

    async def _stable(self):
        """P9: what is offered on an AXI channel stays until it is taken; transactions stay in their page."""
        d = self.dut
        channels = {"aw": ("addr", "len"), "w": ("data", "last"), "ar": ("addr", "len")}
        before = {}
        while True:
            await ReadOnly()
            for c, fields in channels.items():
                valid = getattr(d, f"m_axi_{c}valid").value
                now = [int(getattr(d, f"m_axi_{c}{f}").value) for f in fields] if valid else None
                if before.get(c) is not None:
                    assert now == before[c], f"{c} changed before it was taken"
                taken = valid and getattr(d, f"m_axi_{c}ready").value
                before[c] = None if taken else now
                if taken and c != "w":
                    octets = 8 * now[1] + 8
                    assert now[0] % 4096 + octets <= 4096, f"{octets} octets at {now[0]:#x} leave their page"
                    self.transactions.append((c, now[0], octets))
            await RisingEdge(d.sys_clk)
