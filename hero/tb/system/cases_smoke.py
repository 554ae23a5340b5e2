"""Both paths, a few frames of each kind."""

import cocotb
from bench import Bench, own_mac
from golden.frames import ethernet, ip, ipv4, stamp

SENDER = bytes.fromhex("0200000000aa")


def routed(card, to, serial, size=60, **fields):
    """A frame for card `card`'s router to the network of card `to`."""
    packet = ipv4(ip(f"10.{to}.0.9"), ip("192.0.2.1"), payload=bytes(size - 34), **fields)
    return stamp(ethernet(own_mac(card), SENDER, 0x0800, packet), serial)


@cocotb.test()
async def both_paths(dut):
    async with Bench(dut) as bench:
        serial = 0
        for card in bench.cards:
            for to in bench.cards + [9]:
                for size in (60, 61, 67, 68, 333, 1514):
                    serial += 1
                    bench.lines[card].send(routed(card, to, serial, size))
        for card in bench.cards:
            for size in (14, 59, 60, 65, 1514):
                serial += 1
                await bench.drivers[card].send(stamp(bytes(range(size % 251)).ljust(size, b"x"), serial))
        await bench.quiet()
        assert not bench.ledger.open(), [r for r in bench.ledger.open()][:3]
