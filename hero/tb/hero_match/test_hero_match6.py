"""Routes of IPv6 in hero_match against the golden model: random prefixes, each length, half-written rules, writes in the middle
of a search, classes, and searches of both kinds after each other."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge

from bench import cycles
from golden import registers as reg
from golden.card import Header6
from hero_match import test_hero_match as ip4
from run import run

ADDRESS = 0x20010DB8 << 96


class Bench(ip4.Bench):
    def words(self, number, address, length, dest, mac):
        """The writes of a route, in any order: (register, value)."""
        words = [(reg.ROUTE6_ADDRESS + word, address >> 96 - 32 * word & 0xFFFFFFFF) for word in range(4)]
        words += [(reg.ROUTE6_RULE, dest << reg.ROUTE6_RULE_DEST_SHIFT | length), (reg.ROUTE6_MAC, mac & 0xFFFFFFFF),
                  (reg.ROUTE6_MAC + 1, mac >> 32)]
        random.shuffle(words)
        return [(word, value, reg.ROUTE6_BANK + number) for word, value in words]

    async def route6(self, number, *rule):
        for word in self.words(number, *rule):
            await self.write(*word)

    def expected6(self, header, route_ok=True):
        found = self.card._find6(header.dst) if route_ok else None
        dest, route, mac = found or (3, None, None)
        return dest, route, mac, header.is_of(self.card.classes[dest])

    async def search6(self, header, route_ok=True):
        low = header.dst & (1 << 64) - 1
        return await self.search(low << 16 | header.tos << 8 | header.proto, route_ok, header.dst >> 64)

    async def finds(self, dst):
        """The number of the route, None without one."""
        route = (await self.search6(header(dst)))[1]
        return None if route is None else route - self.card.routes

    def some_address(self):
        """Mostly one that a route matches, or nearly."""
        rule = random.choice(self.card.route6)
        host = (1 << 128 - min(rule.length, 128)) - 1
        address = rule.address & ~host | random.getrandbits(128) & host
        return address ^ (1 << random.randrange(128) if random.random() < 0.3 else 0)


def header(dst, tos=0, proto=17):
    return Header6(64, tos, proto, ADDRESS, dst)


async def begin(dut):
    b = Bench(dut)
    await b.reset()
    return b


async def random_rules(b):
    for _ in range(random.randint(1, 6)):
        address = random.choice((random.getrandbits(128), b.some_address()))
        length = random.choice((0, 128, 129, 255, 64, random.randrange(129), random.randrange(129)))
        number = random.randrange(8)  # also those that are missing
        await b.route6(number, address, length, random.randrange(4), random.getrandbits(48))
    for _ in range(random.randint(0, 4)):
        mask = random.choice((0, 0xFF00, 0xFF, 0xE000, 0xFFFF, ip4.some_mask(80), 1 << random.randrange(80)))
        await b.priority_class(random.randrange(4), random.getrandbits(80) & ~random.choice((0, 0x1F07)), mask)


@cocotb.test()
async def random_searches(dut):
    """Searches of both kinds: neither disturbs the other."""
    b = await begin(dut)
    kinds = set()
    for _ in range(40):
        await random_rules(b)
        await ip4.random_rules(b)
        if random.random() < 0.7:
            await b.commit()
        for _ in range(12):
            if random.random() < 0.3:
                await ip4.compare(b, 1)
                continue
            asked, ok = header(b.some_address(), random.getrandbits(8), random.choice((6, 17, 58))), random.random() < 0.9
            want, got = b.expected6(asked, ok), await b.search6(asked, ok)
            assert got == want, f"{asked}: {got}, not {want}"
            kinds.add((got[0], got[3]))
    assert len(kinds) >= 7, f"only {kinds} were seen"


@cocotb.test()
async def each_length(dut):
    """The last bit that a prefix counts counts, and the next one does not."""
    b = await begin(dut)
    for length in range(129):
        await b.route6(0, ADDRESS | 0x1234, length, 1, 5)
        await b.commit()
        assert await b.finds(ADDRESS | 0x1234) == 0
        if length:
            assert await b.finds((ADDRESS | 0x1234) ^ 1 << 128 - length) is None, f"/{length}: bit {length - 1}"
        if length < 128:
            assert await b.finds((ADDRESS | 0x1234) ^ 1 << 127 - length) == 0, f"/{length}: bit {length}"


@cocotb.test()
async def lowest_wins(dut):
    """Each route alone, then several; one to the host hides those after it."""
    b = await begin(dut)
    last = b.card.routes6 - 1
    for number in range(last + 1):
        await b.route6(number, ADDRESS | number, 128, number % 3, 0x020000000000 + number)
    await b.commit()
    for number in range(last + 1):
        got = await b.search6(header(ADDRESS | number))
        assert got[:3] == (number % 3, b.card.routes + number, 0x020000000000 + number)
    assert await b.finds(ADDRESS | last + 1) is None
    await b.route6(last, ADDRESS, 32, 1, 1)
    await b.commit()
    assert await b.finds(ADDRESS) == 0 and await b.finds(ADDRESS | 99) == last
    await b.route6(0, ADDRESS, 64, 3, 0)
    await b.commit()
    assert await b.finds(ADDRESS | 99) is None and await b.finds(ADDRESS | 1 << 64) == last


@cocotb.test()
async def missing_and_unused(dut):
    """After reset nothing matches; routes that the card lacks match never, nor does one before its commit."""
    b = await begin(dut)
    assert await b.finds(0) is None and await b.finds(ADDRESS) is None
    for bank in (0, 23, *range(reg.ROUTE6_BANK + b.card.routes6, 32)):
        await b.route6(bank - reg.ROUTE6_BANK, 0, 0, 1, 1)
    await b.commit()
    assert await b.finds(ADDRESS) is None
    await b.route6(0, 0, 0, 1, 1)
    assert await b.finds(ADDRESS) is None
    await b.commit()
    assert await b.finds(ADDRESS) == 0
    assert (await b.search6(header(ADDRESS), False))[0] == 3


@cocotb.test()
async def classes(dut):
    """A class that counts a bit of an address is one of IPv4, whatever the bits are."""
    b = await begin(dut)
    await b.priority_class(3, 0xB8 << 8 | 17, 0xFCFF)
    await b.commit()
    for tos, proto, high in ((0xB8, 17, True), (0xBB, 17, True), (0xB4, 17, False), (0xB8, 6, False)):
        assert (await b.search6(header(ADDRESS, tos, proto)))[3] == high
    for bit in range(16, 80):
        for pattern in (0, (1 << 80) - 1):
            await b.priority_class(3, pattern, 1 << bit)
            await b.commit()
            for dst in (0, ADDRESS, ADDRESS | (1 << 96) - 1):
                assert not (await b.search6(header(dst)))[3], f"bit {bit}"


@cocotb.test()
async def a_word_written_in_a_search(dut):
    """Any word of a route, in each cycle of a search: the route is found as it was, or is off."""
    b = await begin(dut)
    last = b.card.routes6 - 1
    rule = ADDRESS | 1, 128, 1, 0xAAAAAAAAAAAA
    outcomes = set()
    for pause in range(b.card.routes6 + 4):
        for register in [word for word, *_ in b.words(last, *rule)]:
            # What comes out when a memory is disturbed may also match: the complement
            for dst in (ADDRESS | 1, ~(ADDRESS | 1) & (1 << 128) - 1):
                await b.route6(last, *rule)
                await b.commit()

                async def write():
                    await cycles(dut.clk, pause)
                    await b.write(register, random.getrandbits(32), reg.ROUTE6_BANK + last)

                task = cocotb.start_soon(write())
                found = (await b.search6(header(dst)))[:3]
                await task
                assert found in ((3, None, None), (1, b.card.routes + last, rule[3])), f"word {register}, cycle {pause}: {found}"
                outcomes.add(found[0])
    assert outcomes == {1, 3}


@cocotb.test()
async def reset_in_a_search(dut):
    b = await begin(dut)
    for _ in range(20):
        await random_rules(b)
        await b.commit()
        dut.key.value, dut.key_ip6.value, dut.route_ok.value, dut.start.value = random.getrandbits(80), 1, 1, 1
        await FallingEdge(dut.clk)
        dut.start.value = 0
        await cycles(dut.clk, random.randrange(12))
        await b.reset()
        assert not int(dut.done.value)
        assert await b.search6(header(b.some_address())) == (3, None, None, False)


@pytest.mark.parametrize(("routes", "routes6"), ((3, 2), (3, 4), (56, 8)))
def test_match6(simulator, routes, routes6):
    run("hero_match", ["hero_ram", "hero_match6", "hero_match"], "test_hero_match6", simulator, {"ROUTES": routes, "ROUTES6": routes6})
