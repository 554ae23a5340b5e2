"""Bench of the host interface: random DMA, completions in pieces and out of order, errors, time-outs, BARs, MSI-X."""

import os
import random

import cocotb
from cocotb.triggers import FallingEdge
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpType
from pcie.root import BASE, CARD, HOST, MESSAGES, SIZE, Root

from bench import Sink, Source, clock, cycles, reset, until

TIMEOUT = int(os.environ["TIMEOUT"])
TAGS = 1 << int(os.environ["TAG_W"])
LONG = int(os.environ.get("LONG", "1"))
OKAY, SLVERR = 0, 2


class Bench:
    def __init__(self, dut):
        self.dut, self.clk = dut, dut.sys_clk
        self.root = Root(dut, TIMEOUT, TAGS)

        def channel(kind, name, *fields):
            valid, ready = getattr(dut, f"{name}valid"), getattr(dut, f"{name}ready")
            fields = [getattr(dut, name + f) for f in fields]
            return Source(self.clk, valid, ready, fields) if kind is Source else Sink(self.clk, dut.sys_rst, valid, ready, fields)

        self.aw = channel(Source, "s_axi_aw", "addr", "len")
        self.w = channel(Source, "s_axi_w", "data", "strb", "last")
        self.b = channel(Sink, "s_axi_b", "resp")
        self.ar = channel(Source, "s_axi_ar", "addr", "len")
        self.r = channel(Sink, "s_axi_r", "data", "resp", "last")
        self.reg_aw = channel(Sink, "m_axil_aw", "addr")
        self.reg_w = channel(Sink, "m_axil_w", "data", "strb")
        self.reg_b = channel(Source, "m_axil_b", "resp")
        self.reg_ar = channel(Sink, "m_axil_ar", "addr")
        self.reg_r = channel(Source, "m_axil_r", "data", "resp")
        self.ap_aw = channel(Sink, "m_axi_aw", "addr", "len")
        self.ap_w = channel(Sink, "m_axi_w", "data", "last")
        self.ap_b = channel(Source, "m_axi_b", "resp")
        self.registers = [random.getrandbits(32) for _ in range(64)]
        self.read_registers, self.aperture, self.refuse = [], [], False

    async def start(self):
        d = self.dut
        clock(self.clk)
        d.cfg_id.value = int(CARD)
        d.cfg_bus_master.value = 1
        d.cfg_msix_enable.value = d.cfg_msix_mask.value = d.irq.value = 0
        self.sizes(0, 2, 0)
        await reset(self.clk, d.sys_rst, 4)
        cocotb.start_soon(self._card())
        await cycles(self.clk, 4)
        return self

    def sizes(self, payload, request, high):
        d, r = self.dut, self.root
        d.cfg_max_payload.value, d.cfg_max_request.value, d.dma_high.value = payload, request, high
        r.max_payload, r.max_request, r.high = 128 << payload, 128 << request, high

    def pauses(self, often):
        for unit in vars(self).values():
            if isinstance(unit, Source):
                unit.gap = often
            elif isinstance(unit, Sink):
                unit.stall = often
        r = self.root
        r.requests.gap = r.completions.gap = r.rd.stall = r.wr.stall = r.cpl.stall = often

    async def _card(self):
        """The card's slaves: registers and aperture."""
        while True:
            await FallingEdge(self.clk)
            if self.reg_aw.beats and self.reg_w.beats:
                (addr,), (data, strb) = self.reg_aw.beats.pop(0), self.reg_w.beats.pop(0)
                for k in range(4):
                    if strb >> k & 1 and not self.refuse:
                        old = self.registers[addr // 4] & ~(0xFF << 8 * k)
                        self.registers[addr // 4] = old | data & 0xFF << 8 * k
                self.reg_b.send([(SLVERR if self.refuse else OKAY,)])
            if self.reg_ar.beats:
                (addr,) = self.reg_ar.beats.pop(0)
                self.read_registers.append(addr // 4)
                self.reg_r.send([(self.registers[addr // 4], SLVERR if self.refuse else OKAY)])
            if self.ap_aw.beats:
                (addr, length) = self.ap_aw.beats[0]
                for words in self.ap_w.frames():
                    assert len(words) == length + 1
                    self.aperture.append((addr, [w[0] for w in words]))
                    self.ap_b.send([(SLVERR if self.refuse else OKAY,)])
                    self.ap_aw.beats.pop(0)

    async def write(self, addr, words, strobes=None):
        self.aw.send([(addr, len(words) - 1)])
        strobes = strobes or [255] * len(words)
        self.w.send([(word, strobes[i], i == len(words) - 1) for i, word in enumerate(words)])
        await until(self.clk, lambda: self.b.beats, 20000, "a write response")
        return self.b.beats.pop(0)[0]

    async def read(self, addr, count):
        self.ar.send([(addr, count - 1)])
        await until(self.clk, lambda: self.r.beats and self.r.beats[-1][2], 20000, "the last word of a read")
        (beats,) = self.r.frames()
        assert len(beats) == count
        return [b[0] for b in beats], [b[1] for b in beats]

    async def good_read(self, addr, count):
        words, responses = await self.read(addr, count)
        at = addr % SIZE
        assert responses == [OKAY] * count
        for i, word in enumerate(words):
            want = int.from_bytes(self.root.memory[at + 8 * i:at + 8 * i + 8], "little")
            assert word == want, f"word {i} of {count} at {addr:x}: {word:x}, not {want:x}"

    # --- The host's requests ---
    def request(self, kind, bar, offset, length, first_be=15, last_be=None, data=None, wide=None):
        tlp = Tlp()
        tlp.fmt_type = kind
        tlp.address = [0xA000_0000, 0, 0xB000_0000, 0, 0xC000_0000, 0, 0][bar] + offset
        tlp.length, tlp.first_be = length, first_be
        tlp.last_be = last_be if last_be is not None else 15 if length > 1 else 0
        tlp.requester_id, tlp.tag = HOST, random.randrange(1024)
        tlp.attr, tlp.tc = random.randrange(8), random.randrange(8)
        if data is not None:
            tlp.data = bytearray(data)
        if tlp.fmt & 1:
            tlp.address |= 5 << 32
        self.root.send(tlp, bar)
        return tlp

    def host_write(self, bar, offset, data, **more):
        kind = random.choice((TlpType.MEM_WRITE, TlpType.MEM_WRITE_64))
        return self.request(kind, bar, offset, len(data) // 4, data=data, **more)

    async def host_read(self, bar, offset, length, **more):
        """Octets from the first to the last that is enabled, or the status."""
        tlp = self.request(random.choice((TlpType.MEM_READ, TlpType.MEM_READ_64)), bar, offset, length, **more)
        return await self.answer(tlp)

    async def answer(self, tlp):
        memory_read = tlp.fmt_type in (TlpType.MEM_READ, TlpType.MEM_READ_64)
        begin = tlp.address + tlp.get_first_be_offset() if tlp.first_be else tlp.address
        total = 4 if not memory_read else tlp.get_be_byte_count() if tlp.first_be else 1
        data, answers = b"", self.root.answers
        while True:
            await until(self.clk, lambda: answers, 5000, f"a completion for {tlp}")
            cpl = answers.pop(0)
            assert (cpl.requester_id, cpl.completer_id, cpl.tag) == (tlp.requester_id, CARD, tlp.tag), cpl
            assert (cpl.attr, cpl.tc) == (tlp.attr, tlp.tc), cpl
            assert cpl.byte_count == total - len(data), cpl
            if cpl.status != CplStatus.SC:
                assert cpl.fmt_type == (TlpType.CPL_LOCKED if tlp.fmt_type == TlpType.MEM_READ_LOCKED else TlpType.CPL), cpl
                return cpl.status
            assert cpl.fmt_type == TlpType.CPL_DATA, cpl
            assert cpl.lower_address == (begin + len(data)) & 0x7F, cpl
            skip = (begin + len(data)) % 4
            data += bytes(cpl.data)[skip:skip + total - len(data)]
            if len(data) == total:
                return data
            assert (begin + len(data)) % 128 == 0, f"cut where it must not be: {cpl}"

    async def settle(self):
        await until(self.clk, self.root.requests.idle, 5000, "the end of the requests")
        await cycles(self.clk, 60)


def words(count):
    return [random.getrandbits(64) for _ in range(count)]


def somewhere(count):
    """An address with room for the words: often near the end of a page."""
    page = BASE + 0x1000 * random.randrange(14)
    return page + 8 * random.choice((random.randrange(512), 512 - random.randrange(1, 1 + min(count, 512))))


async def write_and_compare(bench, addr, data, strobes):
    want = bytearray(bench.root.memory)
    for i, word in enumerate(data):
        for k in range(8):
            if strobes[i] >> k & 1:
                want[(addr + 8 * i + k) % SIZE] = word >> 8 * k & 0xFF
    assert await bench.write(addr, data, strobes) == OKAY
    bench.root.look()
    assert bench.root.memory == want, f"{len(data)} words at {addr:x}, strobes {strobes}"


@cocotb.test()
async def dma_writes(dut):
    bench = await Bench(dut).start()
    await write_and_compare(bench, BASE + 0xF88, words(256), [255] * 256)
    assert bench.root.writes == 17
    for i in range(20 * LONG):
        bench.pauses(random.choice((0, 0, 0.2, 0.6)))
        bench.sizes(random.choice((0, 0, 1, 2, 5)), 2, random.choice((0, 7)))
        count = random.choice((1, 2, random.randrange(1, 40), random.randrange(1, 257)))
        odd = random.choice((0, 0, 0.1, 0.6))
        strobes = [random.choice((0, 15, 0xF0, 0x10, random.randrange(256))) if random.random() < odd else 255
                   for _ in range(count)]
        await write_and_compare(bench, somewhere(count), words(count), strobes)
    assert bench.root.wide and bench.root.narrow
    dut.cfg_bus_master.value = 0
    before = bench.root.writes
    assert await bench.write(BASE, words(20)) == SLVERR
    assert bench.root.writes == before
    dut.cfg_bus_master.value = 1
    await write_and_compare(bench, BASE, words(20), [255] * 20)


@cocotb.test()
async def dma_reads(dut):
    bench = await Bench(dut).start()
    for i in range(20 * LONG):
        bench.pauses(random.choice((0, 0, 0.2, 0.6)))
        bench.root.haste = random.choice((0.03, 0.3, 1))
        bench.sizes(0, random.choice((0, 0, 0, 1, 2, 5)), random.choice((0, 7)))
        count = random.choice((1, 2, random.randrange(1, 40), random.randrange(1, 257), 256))
        await bench.good_read(somewhere(count), count)
    assert bench.root.turned > 10 and bench.root.most >= min(TAGS, 7) and bench.root.wide and bench.root.narrow
    assert not bench.root.unexpected and not bench.root.timed_out
    dut.cfg_bus_master.value = 0
    before = bench.root.reads
    assert (await bench.read(BASE, 3))[1] == [SLVERR] * 3
    assert bench.root.reads == before
    dut.cfg_bus_master.value = 1
    await bench.good_read(BASE, 3)


@cocotb.test()
async def both_ways(dut):
    """Reads, writes and registers at the same time: none disturbs another."""
    bench = await Bench(dut).start()
    bench.pauses(0.1)
    done = []

    async def reads():
        for _ in range(15):
            await bench.good_read(BASE + 0x8000 + 8 * random.randrange(512), random.randrange(1, 200))
        done.append("reads")

    async def writes():
        for _ in range(15):
            count = random.randrange(1, 200)
            await bench.write(BASE + 8 * random.randrange(512), words(count))
        done.append("writes")

    cocotb.start_soon(reads())
    cocotb.start_soon(writes())
    while len(done) < 2:
        n = random.randrange(64)
        bench.host_write(0, 4 * n, random.randbytes(4))
        got = await bench.host_read(0, 4 * n, 1)
        assert got == bench.registers[n].to_bytes(4, "little")


@cocotb.test()
async def read_errors(dut):
    bench = await Bench(dut).start()
    kinds = ["UR", "CA", "poisoned", "core", "count", "address", "long", "no data", "cut"]
    for kind in kinds * LONG:
        bench.pauses(random.choice((0, 0.3)))
        bench.sizes(0, random.choice((0, 1)), 0)
        bench.root.fault = kind
        count = random.randrange(8, 200)
        _, responses = await bench.read(somewhere(count), count)
        assert responses[-1] == SLVERR, kind
        assert responses == sorted(responses), f"{kind}: a good word behind a bad one"
        assert not bench.root.timed_out and not bench.root.unexpected, kind
        await bench.good_read(BASE + 0x800, 40)
    # What answers nobody's request changes nothing; the request that it was meant for gets no answer.
    for i, kind in enumerate(("tag", "high tag", "requester")):
        bench.sizes(0, 2, 0)
        bench.root.fault = kind
        assert (await bench.read(BASE + 0x100, 9))[1][-1] == SLVERR
        assert bench.root.unexpected == bench.root.timed_out == i + 1, kind
        await bench.good_read(BASE + 0x800, 40)


@cocotb.test()
async def time_outs(dut):
    bench = await Bench(dut).start()
    for i in range(4 * LONG):
        bench.sizes(0, 0, 0)
        bench.root.fault = "none"
        begun = bench.root.cycle
        _, responses = await bench.read(BASE, 128)
        assert responses[-1] == SLVERR
        assert TIMEOUT <= bench.root.cycle - begun < 3 * TIMEOUT + 1000
        assert bench.root.timed_out == i + 1
        # It comes after all, when other reads are under way.
        (tag,) = bench.root.lost
        late = Tlp()
        late.fmt_type = TlpType.MEM_READ
        late.tag, late.requester_id = tag, CARD
        late = Tlp.create_completion_data_for_tlp(late, HOST)
        late.byte_count = 128
        late.set_data(bytes(128))
        bench.root.completions.send([(k == 0, k == 15, int.from_bytes(late.pack_header().ljust(16, b"\0"), "big"), 0, 0, 3)
                                     for k in range(16)])
        for _ in range(6):
            await bench.good_read(BASE, 128)
        assert bench.root.unexpected == i + 1


@cocotb.test()
async def registers(dut):
    bench = await Bench(dut).start()
    model = list(bench.registers)

    async def compare(offset, length, first_be, last_be):
        got = await bench.host_read(0, offset, length, first_be=first_be, last_be=last_be)
        octets = b"".join(r.to_bytes(4, "little") for r in model)[offset:offset + 4 * length]
        tlp = Tlp()
        tlp.length, tlp.first_be, tlp.last_be = length, first_be, last_be
        begin, end = (tlp.get_first_be_offset(), tlp.get_last_be_offset()) if first_be else (0, 4 * length - 1)
        assert got == octets[begin:len(octets) - end] if first_be else len(got) == 1

    for i in range(25 * LONG):
        bench.pauses(random.choice((0, 0.3)))
        length = random.choice((1, 1, 2, random.randrange(1, 65)))
        n = random.randrange(65 - length)
        first = random.choice((15, 1, 8, 12, 6)) if length < 3 else random.choice((15, 14, 12, 8))
        last = 0 if length == 1 else random.choice((15, 7, 3, 1))
        data = random.randbytes(4 * length)
        bench.host_write(0, 4 * n, data, first_be=first, last_be=last)
        for k in range(4 * length):
            be = first if k < 4 else last if k >= 4 * length - 4 else 15
            if be >> k % 4 & 1:
                model[n + k // 4] = model[n + k // 4] & ~(255 << k % 4 * 8) | data[k] << k % 4 * 8
        await compare(4 * n, length, first, last)
    assert bench.registers == model and not bench.root.refused
    # A flush reads no register.
    before = len(bench.read_registers)
    await compare(28, 1, 0, 0)
    assert len(bench.read_registers) == before
    # What nobody has
    for bar, offset, length in ((0, 0x100, 1), (0, 0xFC, 2), (2, 0, 2), (1, 0, 1), (6, 0, 1)):
        assert await bench.host_read(bar, offset, length) == CplStatus.UR
    for kind, data in ((TlpType.IO_READ, None), (TlpType.IO_WRITE, bytes(4)), (TlpType.MEM_READ_LOCKED, None),
                       (TlpType.SWAP, bytes(4))):
        assert await bench.answer(bench.request(kind, 0, 0, 1, data=data)) == CplStatus.UR, kind
    assert bench.registers == model and len(bench.read_registers) == before and not bench.root.refused
    bench.host_write(0, 0x100, bytes(4))
    bench.host_write(1, 0, bytes(4))
    await bench.settle()
    assert bench.root.refused == 2
    bench.refuse = True
    bench.host_write(0, 0, bytes(4))
    assert await bench.host_read(0, 0, 1) == CplStatus.CA
    assert bench.root.refused == 3 and bench.registers == model


@cocotb.test()
async def aperture(dut):
    bench = await Bench(dut).start()
    want = []
    for i in range(20 * LONG):
        bench.pauses(random.choice((0, 0.4)))
        data = words(random.choice((1, 2, random.randrange(1, 65))))
        offset = 8 * random.randrange(0x2000)
        bench.host_write(2, offset, b"".join(w.to_bytes(8, "little") for w in data))
        want.append((offset, data))
    await bench.settle()
    assert bench.aperture == want and not bench.root.refused
    # Neither half words nor enabled octets
    bench.host_write(2, 4, bytes(8))
    bench.host_write(2, 8, bytes(4))
    bench.host_write(2, 8, bytes(8), first_be=14)
    await bench.settle()
    assert bench.aperture == want and bench.root.refused == 3
    # Reads whose completions cannot leave do not stop writes.
    bench.root.cpl.stall = 1
    reads = [bench.request(TlpType.MEM_READ, 0, 4 * k, 1) for k in range(8)]
    bench.host_write(2, 0x1_0000, bytes(8))
    await bench.settle()
    assert bench.aperture[-1] == (0x1_0000, [0]), "a write waits behind reads"
    bench.root.cpl.stall = 0
    for k, tlp in enumerate(reads):
        assert await bench.answer(tlp) == bench.registers[k].to_bytes(4, "little")


@cocotb.test()
async def msix(dut):
    bench = await Bench(dut).start()
    root = bench.root
    root.wr.stall = 0.3
    levels = [0, 0, 0]
    entries = [(MESSAGES + 16 * v | (v % 2) << 33, random.getrandbits(32)) for v in range(3)]

    async def mask(vector, on):
        bench.host_write(4, 16 * vector + 12, on.to_bytes(4, "little"))
        await bench.settle()

    async def pending():
        return int.from_bytes(await bench.host_read(4, 0x800, 2), "little")

    def up(vector):
        levels[vector] = 1
        dut.irq.value = sum(level << v for v, level in enumerate(levels))

    def down(vector):
        levels[vector] = 0
        dut.irq.value = sum(level << v for v, level in enumerate(levels))

    async def told(*vectors):
        await cycles(bench.clk, 30)
        assert sorted(root.messages) == sorted(entries[v] for v in vectors), (root.messages, vectors)
        root.messages.clear()

    for v, (address, data) in enumerate(entries):
        bench.host_write(4, 16 * v, address.to_bytes(8, "little") + data.to_bytes(4, "little"))
        assert await bench.host_read(4, 16 * v, 4) == address.to_bytes(8, "little") + data.to_bytes(4, "little") + b"\1\0\0\0"
    up(0)
    await told()  # MSI-X is off
    dut.cfg_msix_enable.value = 1
    await told()
    assert await pending() == 1
    await mask(0, 0)
    await told(0)
    assert await pending() == 0
    # The level alone makes no second message, its next rise does.
    await told()
    down(0)
    await cycles(bench.clk, 1)
    up(0)
    await told(0)
    # Masked, it waits; served meanwhile, it does not come.
    up(1)
    await told()
    assert await pending() == 2
    down(1)
    await cycles(bench.clk, 2)
    assert await pending() == 0
    await mask(1, 0)
    await told()
    # The function's mask, and no bus master
    for signal, off in ((dut.cfg_msix_mask, 1), (dut.cfg_bus_master, 0)):
        await mask(2, 0)
        signal.value = off
        up(1)
        up(2)
        await told()
        assert await pending() == 6
        signal.value = 1 - off
        await told(1, 2)
        down(1)
        down(2)
        await cycles(bench.clk, 2)
    # A message does not overtake data whose response has come, nor break into a TLP.
    for _ in range(10):
        down(0)
        await bench.write(BASE, words(random.randrange(1, 60)))
        root.look()
        written = root.writes
        up(0)
        cocotb.start_soon(bench.write(BASE, words(random.randrange(1, 60))))
        await until(bench.clk, lambda: root.messages, 3000, "a message")
        assert root.messages == [entries[0]] and root.writes >= written
        root.messages.clear()
        await until(bench.clk, lambda: bench.aw.idle() and bench.w.idle(), 3000, "the end of a write")
        await cycles(bench.clk, 200)
        bench.b.beats.clear()
    # Octets of an entry alone
    bench.host_write(4, 8, b"\xaa\xbb\xcc\xdd", first_be=4)
    entry = entries[0][1] & 0xFF00FFFF | 0xCC0000
    assert await bench.host_read(4, 8, 1) == entry.to_bytes(4, "little")
