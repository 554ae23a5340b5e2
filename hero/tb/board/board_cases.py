"""The board as its user meets it: registers over the serial line, PHYs by MDIO, frames from socket to socket."""

import cocotb
from board.board_bench import BIT_PS, Bench, packet
from cocotb.triggers import Timer
from golden import map as card

from hero.board import control, map as board, serial_line

COPPER_UP = 0xAC00  # register 17: 1000 Mbit/s, full duplex, resolved, up
HOST_WORDS = 512  # a queue's length


@cocotb.test()
async def registers(dut):
    """Reads and writes; what is refused; broken requests have no effect, and are counted."""
    async with Bench(dut) as bench:
        read = lambda *what: bench.call(bench.registers.read, *what)
        write = lambda *what: bench.call(bench.registers.write, *what)
        assert await read(board.BOARD, board.ID) == board.ID_VALUE
        assert await read(board.BOARD, board.CLOCK) == 1 << 16 | 8333
        for value in (0xDEADBEEF, 0x12345678):
            await write(board.BOARD, board.SCRATCH, value)
            assert await read(board.BOARD, board.SCRATCH) == value
        for k in range(board.CARDS):
            assert await read(k, card.ID) == card.ID_VALUE
            await write(k, card.PEER_BASE, 0x1000 + k)
        assert [await read(k, card.PEER_BASE) for k in range(board.CARDS)] == [0x1000, 0x1001]
        for what in ((3, 0), (3, 0, 1)):
            try:
                await bench.call(bench.registers.access, *what)
                assert False, "unit 3 answers"
            except serial_line.Refused:
                pass

        good = serial_line.request(board.BOARD, board.SCRATCH, 1)
        wrong = [good[:k] + bytes([good[k] ^ 0x10]) + good[k + 1 :] for k in range(1, 8)]
        for octets in (*wrong, good[:5]):
            await bench.line.put(octets)
            await Timer(220 * BIT_PS, "ps")
            assert bench.line.octets.empty(), f"{octets.hex()} is answered"
        await bench.line.put(b"\x00\xff" + good)  # noise before a request
        assert serial_line.answer(await bench.line.get(8, 1e-4), good) == (1, 0)
        assert await read(board.BOARD, board.SCRATCH) == 1
        assert await read(board.BOARD, board.BROKEN) == len(wrong) + 1


@cocotb.test()
async def phys(dut):
    """The PHYs are found at their addresses and prepared; their links are seen, at 1 Gbit/s only; one is held in reset."""
    async with Bench(dut) as bench:
        await Timer(40, "us")
        assert int(dut.phy_rst_n.value) == 3
        for socket, (phy, address) in enumerate(zip(bench.phys, (0, 3))):
            each = await bench.call(control.Phy, bench.registers, socket)
            await bench.call(each.prepare)
            assert each.address == address
            assert int(phy.mac_control.value) == 0x0076 and int(phy.page.value) == 0
            assert int(phy.advertise.value) == 0x0001 and int(phy.gigabit.value) == 0x0200 and int(phy.resets.value) == 1
            for status, link in ((0x6C00, False), (0x8C00, False), (COPPER_UP, True), (0, False), (COPPER_UP, True)):
                phy.copper.value = status
                await Timer(120, "us")
                assert await bench.call(each.linked) == link, f"{status:#x}"
            shown = await bench.call(bench.registers.read, socket, card.STATUS)
            assert bool(shown & card.STATUS_LINK)
            assert int(dut.led_n.value) >> 2 & 3 == (2 if socket == 0 else 0)
            assert await bench.call(each.delay) == [39, 0]
            assert await bench.call(each.delay, 7, 90) == [7, 90]
            assert await bench.call(each.delay, 60) == [60, 90]
        await bench.call(each.control, board.PHY_RESET)
        await Timer(1, "us")
        assert int(dut.phy_rst_n.value) == 1 and not await bench.call(each.linked)


@cocotb.test()
async def forwarding(dut):
    """Frames of all sizes, both ways at wire speed: TTL, checksum and MACs are edited, none is lost, each is counted."""
    async with Bench(dut) as bench:
        await bench.load()
        sizes = [60] * 100 + [61, 64, 67, 200, 1013, 1514, 1514, 60, 1514] + [60] * 40
        want = []
        for source, end in enumerate(bench.ends):
            pairs = [packet(source, size, ttl=2 + k, serial=k) for k, size in enumerate(sizes)]
            end.send(*(sent for sent, _ in pairs))
            want.append([out for _, out in pairs])
        while not all(len(bench.ends[1 - k].seen) >= len(want[k]) for k in range(2)):
            before = [len(end.seen) for end in bench.ends]
            await Timer(60, "us")
            assert before != [len(end.seen) for end in bench.ends], f"only {before} of {len(sizes)} frames came"
        for source in range(2):
            assert bench.ends[1 - source].seen == want[source]
            counters = await bench.counters(source)
            expected = {"received": len(sizes), "sent": len(sizes), "route 0": len(sizes)}
            assert {name: counters[name] for name in expected} == expected
            assert not any(counters[name] for name in card.DROPS), counters


@cocotb.test()
async def no_host(dut):
    """What is for the host waits in its queue, and then falls, and is counted; descriptors are refused by the bus. All the
    while the cards forward."""
    async with Bench(dut) as bench:
        await bench.load()
        old = [packet(0, 1000, ttl=1, serial=k)[0] for k in range(8)]  # 125 words each
        bench.ends[0].send(*old)
        await Timer(90, "us")
        counters = await bench.counters(0)
        fit = HOST_WORDS // 125
        assert counters["to the host"] == fit and counters["host_full"] == len(old) - fit, counters
        await bench.call(bench.registers.write, 0, card.RXLO_DESC, 0x1000 | 1)
        await Timer(5, "us")
        assert (await bench.counters(0))["bus_error"] == 1
        sent, out = packet(0, to="10.2.3.4")
        bench.ends[0].send(sent)
        await Timer(10, "us")
        assert bench.ends[1].seen == [out]
        other, _ = packet(0, to="10.99.0.1")  # the wider route, to another next hop
        bench.ends[0].send(other)
        await Timer(10, "us")
        assert bench.ends[1].seen[1][:6] == bytes.fromhex("0200000000bb")
