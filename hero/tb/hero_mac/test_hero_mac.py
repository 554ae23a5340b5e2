"""hero_mac_rx and hero_mac_tx, each alone against frames made here (FCS by zlib), errors on the line, reset in a frame."""

import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

from bench import MAC_NS, Sink, Source, clock, cycles, reset, until
from golden.frames import MIN_FRAME, fcs
from run import run

PREAMBLE, SFD = 0x55, 0xD5


class Line:
    """Drives GMII receive signals with (octet, er) or None for a pause."""

    def __init__(self, dut):
        self.dut, self.queue = dut, []
        dut.gmii_rxd.value = dut.gmii_rx_dv.value = dut.gmii_rx_er.value = 0
        cocotb.start_soon(self._run())

    async def _run(self):
        while True:
            await FallingEdge(self.dut.clk)
            item = self.queue.pop(0) if self.queue else None
            self.dut.gmii_rx_dv.value = item is not None
            self.dut.gmii_rxd.value = item[0] if item else random.getrandbits(8)
            self.dut.gmii_rx_er.value = bool(item and item[1])

    def send(self, octets, preamble=7, gap=12, error_at=None, start=SFD):
        octets = bytes([PREAMBLE] * preamble + [start]) + octets
        self.queue += [(octet, i - preamble - 1 == error_at) for i, octet in enumerate(octets)]
        self.queue += [None] * gap

    def drain(self):
        return until(self.dut.clk, lambda: not self.queue)


async def begin_rx(dut):
    line = Line(dut)
    clock(dut.clk, MAC_NS)
    await reset(dut.clk, dut.rst)
    sink = Sink(dut.clk, dut.rst, dut.m_axis_tvalid, None, [dut.m_axis_tdata, dut.m_axis_tuser, dut.m_axis_tlast])
    return line, sink


async def received(line, sink):
    """Frames as (octets, bad)."""
    await line.drain()
    await cycles(line.dut.clk, 12)
    frames = sink.frames()
    assert not sink.beats, "a frame without end"
    for frame in frames:
        assert not any(beat[1] for beat in frame[:-1]), "bad before the end"
    return [(bytes(beat[0] for beat in frame), bool(frame[-1][1])) for frame in frames]


@cocotb.test()
async def rx_good(dut):
    line, sink = await begin_rx(dut)
    want = []
    for preamble, gap in ((7, 12), (7, 1), (0, 1), (3, 5), (20, 2)):
        for length in (1, 2, 5, 46, 60, 61, random.randint(60, 1514), 1518):
            frame = random.randbytes(length)
            want.append((frame, False))
            line.send(frame + fcs(frame), preamble, gap)
    assert await received(line, sink) == want


@cocotb.test()
async def rx_bad(dut):
    line, sink = await begin_rx(dut)
    want = []
    for _ in range(60):
        frame = random.randbytes(random.randint(60, 100))
        sent = bytearray(frame + fcs(frame))
        kind = random.choice(("good", "flip", "er", "fcs"))
        error_at = random.randrange(len(sent)) if kind == "er" else None
        if kind == "flip":
            sent[random.randrange(len(sent))] ^= 1 << random.randrange(8)
        if kind == "fcs":
            sent[-1] ^= 0x80
        line.send(bytes(sent), error_at=error_at)
        want.append((bytes(sent[:-4]), kind != "good"))
    assert await received(line, sink) == want


@cocotb.test()
async def rx_fragments(dut):
    """1 to 4 octets: a bad frame of one octet. None, or no SFD: no frame."""
    line, sink = await begin_rx(dut)
    frame = random.randbytes(60)
    for length in range(5):
        line.send(random.randbytes(length), gap=random.randint(1, 12))
    line.send(frame + fcs(frame), start=PREAMBLE)
    line.send(bytes([0x5D]) + frame + fcs(frame), preamble=3, start=0x5D)
    line.send(frame + fcs(frame), error_at=-1)  # the line's error hits the SFD
    line.send(frame + fcs(frame))
    got = await received(line, sink)
    assert [(len(octets), bad) for octets, bad in got] == [(1, True)] * 4 + [(60, False)]
    assert got[-1][0] == frame


@cocotb.test()
async def rx_reset(dut):
    """After a reset in a frame the rest of it is nothing; the next is whole."""
    line, sink = await begin_rx(dut)
    for _ in range(20):
        broken = bytes([PREAMBLE, SFD] * 40)  # its octets look like a start
        line.send(broken + fcs(broken), gap=12)
        await cycles(dut.clk, random.randint(1, 85))
        dut.rst.value = 1
        await cycles(dut.clk, 1)
        dut.rst.value = 0
        sink.beats.clear()
        mid_frame = len(line.queue) > 12
        frame = random.randbytes(64)
        line.send(frame + fcs(frame))
        got = await received(line, sink)
        assert got[-1] == (frame, False) and len(got) <= 2
        assert not mid_frame or len(got) == 1, "the rest of a frame became one"


async def begin_tx(dut, gap=0.0):
    source = Source(dut.clk, dut.s_axis_tvalid, dut.s_axis_tready, [dut.s_axis_tdata, dut.s_axis_tlast], gap)
    clock(dut.clk, MAC_NS)
    await reset(dut.clk, dut.rst)
    sent = []  # [octets with preamble and FCS, er, gap before it]
    cocotb.start_soon(watch(dut, sent))
    return source, sent


async def watch(dut, sent):
    octets, error, gap = bytearray(), False, 1000
    while True:
        await FallingEdge(dut.clk)
        await ReadOnly()
        if int(dut.gmii_tx_en.value):
            octets.append(int(dut.gmii_txd.value))
            error = error or bool(int(dut.gmii_tx_er.value))
        else:
            assert not int(dut.gmii_tx_er.value)
            if octets:
                sent.append((bytes(octets), error, gap))
                octets, error, gap = bytearray(), False, 0
            gap += 1


def beats(frame):
    return [(octet, i == len(frame) - 1) for i, octet in enumerate(frame)]


def on_wire(frame):
    padded = frame.ljust(MIN_FRAME, b"\0")
    return bytes([PREAMBLE] * 7 + [SFD]) + padded + fcs(padded)


@cocotb.test()
async def tx_frames(dut):
    """Back to back: each frame padded, its FCS right, exactly 12 octets between them."""
    source, sent = await begin_tx(dut)
    frames = [random.randbytes(n) for n in (1, 14, 59, 60, 61, 64, 1514, 1518, *random.choices(range(1, 200), k=30))]
    for frame in frames:
        source.send(beats(frame))
    await until(dut.clk, lambda: len(sent) == len(frames))
    assert [(octets, error) for octets, error, _ in sent] == [(on_wire(f), False) for f in frames]
    assert all(gap == 12 for _, _, gap in sent[1:])


@cocotb.test()
async def tx_underrun(dut):
    """An octet that is not there in time ends the frame with tx_er; the rest of it is not sent, the next frame is."""
    source, sent = await begin_tx(dut)
    for _ in range(10):
        cut = random.randint(1, 100)
        broken, good = random.randbytes(120), random.randbytes(80)
        source.send(beats(broken)[:cut])
        await until(dut.clk, source.idle)
        await cycles(dut.clk, random.randint(2, 20))
        source.send(beats(broken)[cut:] + beats(good))
        await until(dut.clk, lambda: len(sent) == 2)
        assert sent[0][1] and len(sent[0][0]) == 8 + cut + 1
        assert sent[1][:2] == (on_wire(good), False) and sent[1][2] >= 12
        sent.clear()


@cocotb.test()
async def tx_reset(dut):
    source, sent = await begin_tx(dut)
    for _ in range(20):
        source.send(beats(random.randbytes(70)))
        await cycles(dut.clk, random.randint(1, 110))
        dut.rst.value = 1
        source.clear()
        await cycles(dut.clk, 2)
        dut.rst.value = 0
        await cycles(dut.clk, 2)
        sent.clear()
        frame = random.randbytes(64)
        source.send(beats(frame))
        await until(dut.clk, lambda: sent)
        assert sent[0][:2] == (on_wire(frame), False)


def test_rx(simulator):
    run("hero_mac_rx", ["hero_crc32", "hero_mac_rx"], "test_hero_mac", simulator,
        testcase=["rx_good", "rx_bad", "rx_fragments", "rx_reset"])


def test_tx(simulator):
    run("hero_mac_tx", ["hero_crc32", "hero_mac_tx"], "test_hero_mac", simulator,
        testcase=["tx_frames", "tx_underrun", "tx_reset"])
