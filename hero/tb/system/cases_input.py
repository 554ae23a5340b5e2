"""Bad and unusual input from the wire, after the checklist of the NetFPGA reference router; good frames in between."""

import cocotb
from cocotb.triggers import Timer
from golden import registers as reg
from golden.frames import PREAMBLE, stamp, vlan, wire
from system_bench import Bench
from traffic import OUTSIDE, Traffic, own_mac


def checklist(traffic, card, to):
    """(what, arguments of Line.send)"""
    routed = lambda **fields: {"frame": traffic.routed(card, to, **fields)}
    good = traffic.routed(card, to, size=200)
    tagged = lambda size: {"frame": stamp(vlan(7, traffic.routed(card, to, size=size)), next(traffic.serials))}
    yield "hit", routed()
    yield "route miss", {"frame": traffic.routed(card, OUTSIDE)}
    yield "to the card's own network", {"frame": traffic.routed(card, card)}
    yield "bad FCS", {"frame": good, "bad_fcs": True}
    for size in (60, 1514, 1600, 40):
        yield f"bad FCS, {size} octets", {"frame": traffic.routed(card, to, size=1600)[:size], "bad_fcs": True}
    for at in (8, 9, 40, 207, 208, 211):
        yield f"rx_er at octet {at}", {"frame": stamp(good, next(traffic.serials)), "error_at": at}
    for size in (1, 4, 5, 12, 13, 14, 33, 59):
        yield f"runt of {size}", {"frame": good[:size]}
    for size in (1515, 1518, 1519, 1528, 1530, 2000):
        yield f"giant of {size}", routed(size=size)
    yield "giant of 70000", {"frame": good + bytes(70000 - 200), "bad_fcs": True, "raw": PREAMBLE + good + bytes(70000 - 200) + b"\1"}
    for size in (60, 1510, 1514):
        yield f"tagged, {size} and 4 octets", tagged(size)
    yield "tagged giant", tagged(1515)
    for error in (1, 0x100, 0xFFFE, 0x8000):
        yield f"checksum wrong by {error}", routed(error=error)
    yield "checksum wrong, options", routed(error=1, size=300, options=bytes([1] * 8))
    yield "checksum wrong, foreign MAC", routed(error=1, mac=bytes.fromhex("0200000000ee"))
    for count in range(1, 11):
        yield f"{4 * count} octets of options", routed(size=300, options=bytes([1] * 4 * count))
    for ttl in (0, 1, 2, 3, 255):
        yield f"TTL {ttl}", routed(ttl=ttl)
    for version in (0, 5, 6, 15):
        yield f"version {version}", routed(version=version)
    for total in (0, 19, 20, 185, 186, 187, 65535):
        yield f"total length {total}", routed(size=200, total=total)
    yield "header length 16", {"frame": stamp(good[:14] + b"\x44" + good[15:], next(traffic.serials))}
    yield "header longer than the packet", {"frame": stamp(good[:14] + b"\x4f" + good[15:17] + b"\x28" + good[18:], next(traffic.serials))}
    for mac in ("ffffffffffff", "01005e000001", "333300000001", "030000000001"):
        yield f"group {mac}", routed(mac=bytes.fromhex(mac))
    for mac in ("020000000002", "020000000101", "0200000000ee", "000000000000"):
        mac = bytes.fromhex(mac)
        if mac != own_mac(card):
            yield f"foreign {mac.hex()}", routed(mac=mac)
    for ethertype in (0x0806, 0x86DD, 0x88CC, 0x88A8, 0x05DC, 0x0028):
        yield f"EtherType {ethertype:#06x}", {"frame": traffic.plain(mac=own_mac(card), ethertype=ethertype)}
    for proto in (1, 6, 17, 89):
        yield f"protocol {proto}", routed(proto=proto)
    yield "all zeros", {"frame": bytes(60)}
    yield "IPv4 to 0.0.0.0", {"frame": stamp(good[:30] + bytes(4) + good[34:], next(traffic.serials))}


async def shown(bench, card, what, arguments):
    """Sends one frame alone and sees that its verdict was counted at once, before a good one."""
    expected = bench.models[card].verdict(arguments["frame"], arguments.get("bad_fcs", "error_at" in arguments))
    number = reg.COUNTERS.index(expected.reason) if expected.reason else None
    if number is None:
        where = reg.FWD_HOST if expected.kind == "host" else reg.FWD_CNT + expected.dest
        before = await bench.read(card, where)
    else:
        where = reg.DROP_CNT
        await bench.write(card, reg.DROP_CNT, number)
        before = await bench.read(card, where)
    bench.lines[card].send(**arguments)
    await bench.lines[card].idle.wait()
    await Timer(4, "us")
    after = await bench.read(card, where)
    assert after == before + 1, f"{what}: {expected.reason or expected.kind} went from {before} to {after}"


@cocotb.test()
async def one_by_one(dut):
    """Each kind of frame moves exactly the counter it must."""
    async with Bench(dut) as bench:
        traffic = Traffic()
        card, to = bench.cards[0], bench.cards[1]
        for what, arguments in checklist(traffic, card, to):
            await shown(bench, card, what, arguments)
        for switch, what in ((reg.CMD_PROMISCUOUS, "promiscuous"), (0, "fast path off"), (None, "receiver off")):
            value = reg.CMD_TX if switch is None else reg.CMD_RX | reg.CMD_TX | switch | (reg.CMD_FAST if switch else 0)
            await bench.write(card, reg.CMD, value)
            for mac in (own_mac(card), own_mac(to), b"\xff" * 6):
                await shown(bench, card, what, {"frame": traffic.routed(card, to, mac=mac)})
        # On again, in front of a frame that is already on the wire: the verdict counts, not the first octet.
        await bench.write(card, reg.CMD, reg.CMD_RX | reg.CMD_TX | reg.CMD_FAST)


@cocotb.test()
async def back_to_back(dut):
    """The checklist at full rate, on all cards at once, with the smallest gaps."""
    async with Bench(dut) as bench:
        traffic = Traffic()
        for card in bench.cards:
            mixed = list(checklist(traffic, card, bench.cards[card - 1]))
            traffic.rng.shuffle(mixed)
            for _, arguments in mixed:
                bench.lines[card].send(**arguments, gap=traffic.rng.choice((12, 12, 8, 5)))
                bench.lines[card].send(traffic.routed(card, bench.cards[card - 1]))


@cocotb.test()
async def not_frames(dut):
    """What is no frame at all leaves no trace: no delimiter, an error in the preamble, carrier without end of it."""
    async with Bench(dut) as bench:
        traffic, card = Traffic(), bench.cards[0]
        good = wire(traffic.routed(card, bench.cards[1]))
        line = bench.lines[card]
        for raw, error_at in ((b"\x55" * 40, None), (b"\xd4" * 9, None), (good, 3), (good, 7), (b"\x5d" + good, None), (PREAMBLE, None)):
            line.send(None, raw=raw, error_at=error_at)
            line.send(traffic.routed(card, bench.cards[1]))
        # Preambles may be shorter: the delimiter counts. And a fragment is a frame with a bad FCS.
        for skip in range(8):
            frame = traffic.routed(card, bench.cards[1])
            line.send(frame, raw=wire(frame)[skip:])
        for size in range(1, 9):
            line.send(bytes(max(1, size - 4)), bad_fcs=True, raw=PREAMBLE + b"\1" * size)
        line.send(traffic.routed(card, bench.cards[1]))


@cocotb.test()
async def fragments_without_gap(dut):
    """More frames than anyone can tell apart: what does not even fit the input FIFO is counted as such."""
    async with Bench(dut) as bench:
        bench.ledger.input_may_be_full = True  # a meta every few cycles
        traffic, card = Traffic(), bench.cards[0]
        for _ in range(300):
            bench.lines[card].send(b"\1", bad_fcs=True, raw=PREAMBLE[-1:] + b"\1", gap=1)
        bench.lines[card].send(traffic.routed(card, bench.cards[1]), gap=100)
        await bench.quiet()
        assert not bench.ledger.open()


@cocotb.test()
async def slow_system_clock(dut):
    """A system clock far below the 100 MHz asked for: the input FIFO overflows, whole frames are dropped and counted."""
    async with Bench(dut, sys_ns=130.0) as bench:
        bench.ledger.input_may_be_full = True
        traffic = Traffic()
        for card in bench.cards[:2]:
            for k in range(30):
                bench.lines[card].send(traffic.routed(card, OUTSIDE, size=1514 if k < 20 else None))
            for _ in range(10):
                bench.lines[card].send(traffic.routed(card, OUTSIDE, size=60), gap=2000)
        await bench.quiet(patience_us=400)
        counters, _ = await bench.counters(bench.cards[0])
        assert counters["input_full"] > 0
