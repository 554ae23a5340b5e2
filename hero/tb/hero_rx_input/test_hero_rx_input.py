"""hero_rx_input against the golden model's parser: words, meta, verdicts; every field and every border of a length."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly

from bench import MAC_NS, Source, clock, cycles, octets_of, reset, until
from golden import card, frames
from meta import unpack
from run import run


async def watch(dut, got):
    """Collects (octets or None for a frame taken back, meta)."""
    words = []
    while True:
        await FallingEdge(dut.clk)
        await ReadOnly()
        if int(dut.rst.value):
            words = []
            continue
        if int(dut.wr_en.value):
            words.append(int(dut.wr_data.value))
        commit, abort = int(dut.wr_commit.value), int(dut.wr_abort.value)
        assert not (commit and abort)
        if commit or abort:
            meta = unpack(int(dut.wr_meta.value))
            assert len(words) <= (int(dut.MTU.value) + 25) // 8, "more words than a frame can have"
            if commit:
                assert len(words) == (meta["LEN"] + 7) // 8
            got.append((octets_of(words, meta["LEN"]) if commit else None, meta))
            words = []


async def begin(dut, gap=0.0):
    source = Source(dut.clk, dut.s_axis_tvalid, dut.s_axis_tready, [dut.s_axis_tdata, dut.s_axis_tuser, dut.s_axis_tlast], gap)
    clock(dut.clk, MAC_NS)
    await reset(dut.clk, dut.rst)
    got = []
    cocotb.start_soon(watch(dut, got))
    return source, got


def beats(frame, bad=False):
    last = len(frame) - 1
    # tuser means nothing before the last octet
    return [(octet, bad if i == last else random.getrandbits(1), i == last) for i, octet in enumerate(frame)]


def check(mtu, ip6, frame, bad, octets, meta):
    """Compares what came out for a frame with what the text of hero/README.md says. `ip6`: whether the card has IPv6."""
    limit = mtu + (18 if frame[12:14] == b"\x81\x00" else 14)
    runt, giant = len(frame) < frames.MIN_FRAME, len(frame) > limit
    assert (meta["LEN"], meta["BAD_FCS"], meta["RUNT"], meta["GIANT"], meta["OVERFLOW"]) == (len(frame), bad, runt, giant, 0)
    if bad or runt or giant:
        assert octets is None
        return
    assert octets == frame
    assert meta["DMAC"] == int.from_bytes(frame[:6], "little") and meta["MCAST"] == frame[0] & 1
    header = card.parse(frame)
    assert meta["IP4"] == (header is not None), f"IP4 of {frame.hex()}"
    header6 = card.parse6(frame) if ip6 else None
    assert meta["IP6"] == (header6 is not None), f"IP6 of {frame.hex()}"
    if header6:
        got = *(meta[name] for name in ("OPTIONS", "TTL", "TOS", "PROTO")), meta["DST6"] << 64 | meta["DST"] << 32 | meta["SRC"]
        assert got == (header6.options, header6.ttl, header6.tos, header6.proto, header6.dst), frame.hex()
    if header:
        want = (header.options, header.checksum_ok, header.ttl, header.tos, header.proto, header.src, header.dst)
        names = ("OPTIONS", "CSUM_OK", "TTL", "TOS", "PROTO", "SRC", "DST")
        assert tuple(meta[name] for name in names) == want


async def compare(dut, source, got, sent):
    for frame, bad in sent:
        source.send(beats(frame, bad))
    await until(dut.clk, lambda: len(got) == len(sent))
    await cycles(dut.clk, 10)
    assert len(got) == len(sent)
    for (frame, bad), (octets, meta) in zip(sent, got):
        check(int(dut.MTU.value), int(dut.ROUTES6.value) > 0, frame, bad, octets, meta)


def random_frame():
    """Near a right IPv4 frame: now and then one thing is wrong."""
    wrong = random.choice(("", "", "", "checksum", "version", "total", "ihl", "type", "vlan", "octets"))
    options = random.randbytes(4 * random.choice((0, 0, 1, 10)))
    payload = random.randbytes(random.randint(0, 80))
    total = None
    if wrong == "total":  # around its borders: the header's and the frame's size
        header = 20 + len(options)
        size = max(60, 14 + header + len(payload)) - 14
        total = random.choice((header - 1, header, size, size + 1, 0, 65535))
    packet = bytearray(frames.ipv4(random.getrandbits(32), random.getrandbits(32), payload, random.getrandbits(8),
                                   random.getrandbits(8), random.getrandbits(8), options, random.getrandbits(16),
                                   error=random.randint(1, 65534) if wrong == "checksum" else 0,
                                   version=5 if wrong == "version" else 4, total=total))
    if wrong == "ihl":
        packet[0] = 0x40 | random.randint(0, 15)
    frame = frames.ethernet(random.randbytes(6), random.randbytes(6), frames.ARP if wrong == "type" else frames.IPV4, bytes(packet))
    if wrong == "vlan":
        frame = frames.vlan(1, frame)
    return random.randbytes(len(frame)) if wrong == "octets" else frame


# Addresses that are never routed, and their neighbours
ADDRESSES6 = ("::", "::1", "::2", "::ffff:127.0.0.1", "::ffff:ffff:ffff:ffff", "0:0:0:1::", "64:ff9b::1", "100::", "fe80::", "fe80::1",
              "febf:ffff::", "fec0::", "fe7f:ffff::", "fd00::1", "feff::", "ff00::", "ff02::1", "ffff::", "2001:db8::1", "fe00::", "7f80::1")


def some_address6():
    return random.choice((random.getrandbits(128), frames.ip6(random.choice(ADDRESSES6))))


def random_frame6():
    """Near a right IPv6 frame: now and then one thing is wrong."""
    wrong = random.choice(("", "", "", "version", "length", "type", "vlan", "octets"))
    payload = random.randbytes(random.randint(0, 80))
    length = None
    if wrong == "length":  # around its border, the frame's size
        size = max(60, 54 + len(payload)) - 54
        length = random.choice((size - 1, size, size + 1, 0, 65535))
    packet = frames.ipv6(some_address6(), some_address6(), payload, random.getrandbits(8), random.getrandbits(8),
                         random.choice((0, 0, 1, 6, 17, 43, 44, 58, 60, random.getrandbits(8))), random.getrandbits(20),
                         version=random.randrange(16) if wrong == "version" else 6, length=length)
    frame = frames.ethernet(random.randbytes(6), random.randbytes(6), frames.IPV4 if wrong == "type" else frames.IPV6, packet)
    if wrong == "vlan":
        frame = frames.vlan(1, frame)
    return frame[:14] + random.randbytes(len(frame) - 14) if wrong == "octets" else frame


@cocotb.test()
async def addresses_of_ip6(dut):
    """Each special address, and each next to one, as source and as destination, after each other."""
    source, got = await begin(dut)
    good = frames.ip6("2001:db8::1")
    sent = []
    for text in ADDRESSES6:
        for pair in ((frames.ip6(text), good), (good, frames.ip6(text))):
            sent.append((frames.ethernet(b"\x02" * 6, b"\x04" * 6, frames.IPV6, frames.ipv6(*pair, bytes(20))), False))
    for bit in range(128):  # one bit makes it a routed address, or not
        for pair in ((1 << bit, good), (good, 1 << bit)):
            sent.append((frames.ethernet(b"\x02" * 6, b"\x04" * 6, frames.IPV6, frames.ipv6(*pair)), False))
    await compare(dut, source, got, sent)


@cocotb.test()
async def random_frames(dut):
    source, got = await begin(dut)
    for gap in (0.0, 0.3):
        source.gap = gap
        sent = [(random.choice((random_frame, random_frame6))(), random.random() < 0.1) for _ in range(300)]
        await compare(dut, source, got, sent)
        headers = [m for _, m in got if m["IP4"]]
        assert headers and any(m["OPTIONS"] for m in headers) and not all(m["CSUM_OK"] for m in headers)
        if int(dut.ROUTES6.value):
            assert {m["OPTIONS"] for _, m in got if m["IP6"]} == {0, 1}
        got.clear()


@cocotb.test()
async def lengths(dut):
    """All borders, without a pause between the frames; and a frame that does not seem to end."""
    source, got = await begin(dut)
    sent = []
    longest = int(dut.MTU.value) + 14
    for length in (1, 2, 7, 8, 9, 14, 15, 16, 33, 34, 59, 60, 61, 64, *range(longest - 1, longest + 8), 2100):
        frame = frames.ethernet(b"\x02" * 6, b"\x04" * 6, frames.ARP, random.randbytes(length), pad=0)[:length]
        sent.append((frame, False))
        if length > 18:
            sent.append((frames.vlan(5, frame[:length - 4]), False))
    await compare(dut, source, got, sent)
    got.clear()
    source.send(beats(bytes(70000)))
    source.send(beats(sent[-8][0]))
    await until(dut.clk, lambda: len(got) == 2)
    assert got[0][1]["GIANT"] and got[0][1]["LEN"] == 65535 and not got[1][1]["RUNT"]


@cocotb.test()
async def checksum_carries(dut):
    """Both forms of zero, and sums whose carry comes around in the last addition."""
    source, got = await begin(dut)
    sent = []
    for fill in (b"\xff\xff", b"\x00\x00", b"\xff\x00", b"\x00\xff", b"\xff\xfe"):
        for options in (0, 40):
            for ttl in (0, 1, 255):
                dst = int.from_bytes(fill * 2, "big")
                good = frames.ethernet(b"\x02" * 6, b"\x04" * 6, frames.IPV4,
                                       frames.ipv4(dst, dst, ttl=ttl, options=fill * (options // 2), ident=dst & 0xFFFF))
                sent.append((good, False))
                for value in (0, 0xFFFF, 1, 0xFFFE):
                    sent.append((good[:24] + value.to_bytes(2, "big") + good[26:], False))
    await compare(dut, source, got, sent)


@cocotb.test()
async def reset_at_any_time(dut):
    source, got = await begin(dut)
    for _ in range(20):
        source.send(beats(random.randbytes(100)))
        await cycles(dut.clk, random.randint(1, 104))
        dut.rst.value = 1
        source.clear()
        await cycles(dut.clk, 2)
        dut.rst.value = 0
        await cycles(dut.clk, 3)
        got.clear()
        await compare(dut, source, got, [(random_frame(), False)])


@pytest.mark.parametrize(("mtu", "routes6"), ((1500, 0), (1500, 4), *(pytest.param(mtu, 0, marks=pytest.mark.slow) for mtu in (1006, 2022))))
def test_rx_input(simulator, mtu, routes6):
    run("hero_rx_input", ["hero_rx_ip6", "hero_rx_input"], "test_hero_rx_input", simulator, {"MTU": mtu, "ROUTES6": routes6})
