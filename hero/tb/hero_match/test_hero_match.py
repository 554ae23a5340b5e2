"""hero_match against the golden model's rules: random ternary rules, lowest route first, half-written rules, commits and
writes in the middle of a search, the time a search takes."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly

from bench import clock, cycles, reset
from golden import registers as reg
from golden.card import Card
from run import run

FIELDS = {"dst": 48, "src": 16, "tos": 8, "proto": 0}


class Bench:
    def __init__(self, dut):
        self.dut, self.card = dut, Card(routes=int(dut.ROUTES.value), routes6=int(dut.ROUTES6.value))
        for signal in (dut.start, dut.key, dut.route_ok, dut.key_ip6, dut.key_dst6, dut.cfg_wr, dut.cfg_reg, dut.cfg_data, dut.cfg_bank, dut.cfg_commit):
            signal.value = 0
        clock(dut.clk)

    async def reset(self):
        await reset(self.dut.clk, self.dut.rst)
        self.card.reset()

    async def write(self, number, value, bank=0):
        dut = self.dut
        self.card.write(reg.CMD, bank << reg.CMD_BANK_SHIFT)
        self.card.write(number, value)
        dut.cfg_bank.value = bank
        dut.cfg_reg.value = number
        dut.cfg_data.value = value
        dut.cfg_wr.value = 1
        await FallingEdge(dut.clk)
        dut.cfg_wr.value = 0
        dut.cfg_data.value = random.getrandbits(32)

    async def commit(self):
        self.card.write(reg.CMD, reg.CMD_COMMIT)
        self.dut.cfg_commit.value = 1
        await FallingEdge(self.dut.clk)
        self.dut.cfg_commit.value = 0

    async def route(self, number, pattern, mask, mac):
        bank, d = divmod(number, 3)
        words = [(reg.ROUTE + 2 * d, pattern), (reg.ROUTE + 2 * d + 1, mask), (reg.NEXTHOP_MAC + 2 * d, mac & 0xFFFFFFFF),
                 (reg.NEXTHOP_MAC + 2 * d + 1, mac >> 32)]
        random.shuffle(words)
        for word, value in words:
            await self.write(word, value, bank)

    async def priority_class(self, dest, pattern, mask):
        for first, value in ((0, pattern), (3, mask)):
            for word, part in enumerate((value >> 48, value >> 16 & 0xFFFFFFFF, value & 0xFFFF)):
                await self.write(reg.CLASS + 6 * dest + first + word, part, bank=random.randrange(32))

    def expected(self, key, route_ok):
        """(dest, route, mac, prio); route and mac None towards the host."""
        dst = key >> 48
        for number, rule in enumerate(self.card.route):
            if route_ok and dst and rule.matches(dst):
                return number % 3, number, self.card.next_hop[number], self.card.classes[number % 3].matches(key)
        return 3, None, None, self.card.classes[3].matches(key)

    async def search(self, key, route_ok=True, dst6=None):
        """`dst6`: the upper half of a destination of IPv6."""
        dut = self.dut
        dut.key.value, dut.route_ok.value, dut.start.value = key, route_ok, 1
        dut.key_ip6.value, dut.key_dst6.value = dst6 is not None, dst6 or 0
        await FallingEdge(dut.clk)
        dut.start.value = 0
        limit = -(-self.card.routes // 3) + 6 if dst6 is None else self.card.routes6 + 7
        for _ in range(limit):
            await ReadOnly()
            if int(dut.done.value):
                break
            await FallingEdge(dut.clk)
        assert int(dut.done.value), f"no result after {limit} cycles"
        await FallingEdge(dut.clk)
        await ReadOnly()
        assert not int(dut.done.value), "done is a pulse"
        dest = int(dut.dest.value)
        fast = dest != 3
        result = dest, int(dut.route.value) if fast else None, int(dut.nh_mac.value) if fast else None, bool(int(dut.prio.value))
        await FallingEdge(dut.clk)
        return result

    def some_key(self):
        """Mostly one that nearly matches a rule."""
        key = random.getrandbits(80)
        rule = random.choice(self.card.route)
        dst = rule.pattern & rule.mask | random.getrandbits(32) & ~rule.mask
        if random.random() < 0.7:
            key = key & (1 << 48) - 1 | dst << 48
        rule = random.choice(self.card.classes)
        if random.random() < 0.7:
            key = rule.pattern & rule.mask | key & ~rule.mask
        return key ^ (1 << random.randrange(80) if random.random() < 0.3 else 0)


def some_mask(width):
    return random.choice((0, (1 << width) - 1, random.getrandbits(width), (1 << width) - (1 << random.randrange(width))))


async def random_rules(b):
    for _ in range(random.randint(1, 12)):
        number = random.randrange(-(-b.card.routes // 3) * 3)  # also the missing ones of the last bank
        await b.route(number, random.getrandbits(32), some_mask(32), random.getrandbits(48))
    for _ in range(random.randint(0, 3)):
        await b.priority_class(random.randrange(4), random.getrandbits(80), some_mask(80))


async def compare(b, count, route_ok=True):
    kinds = set()
    for _ in range(count):
        key = b.some_key()
        want = b.expected(key, route_ok)
        got = await b.search(key, route_ok)
        assert got == want, f"{key:020x}: {got}, not {want}"
        kinds.add((got[0], got[3]))
    return kinds


@cocotb.test()
async def random_searches(dut):
    b = Bench(dut)
    await b.reset()
    kinds = set()
    for _ in range(25):
        await random_rules(b)
        if random.random() < 0.3:
            await compare(b, 3)  # written, not committed
        await b.commit()
        kinds |= await compare(b, 12)
        await compare(b, 2, route_ok=False)
    assert len(kinds) >= 6, f"only {kinds} were seen"


@cocotb.test()
async def every_route_alone(dut):
    """Each route with its own address, all present; then the lowest of two wins."""
    b = Bench(dut)
    await b.reset()
    for number in range(b.card.routes):
        await b.route(number, 0x0A000000 + number, 0xFFFFFFFF, 0x020000000000 + number)
    await b.commit()
    for number in range(b.card.routes):
        assert (await b.search((0x0A000000 + number) << 48))[:3] == (number % 3, number, 0x020000000000 + number)
    assert (await b.search((0x0A000000 + b.card.routes) << 48))[0] == 3
    for low, high in ((1, b.card.routes - 2), (0, b.card.routes - 1)):
        if low < high:
            await b.route(low, 0x0B000000, 0xFF000000, 1)
            await b.route(high, 0x0B000000, 0xFF000000, 2)
            await b.commit()
            assert (await b.search(0x0B000001 << 48))[1] == low


@cocotb.test()
async def missing_routes(dut):
    """The last bank may have fewer than three routes: the others do not match, whatever is written to them."""
    b = Bench(dut)
    await b.reset()
    for number in range(-(-b.card.routes // 3) * 3):
        await b.route(number, 0, 0 if number >= b.card.routes else 0xFFFFFFFF, 1)
    await b.commit()
    assert (await b.search(0x0A000001 << 48))[0] == 3


@cocotb.test()
async def single_fields(dut):
    """A class that counts one field only, one bit off: each field is where it belongs."""
    b = Bench(dut)
    await b.reset()
    for field, shift in FIELDS.items():
        width = 32 if shift >= 16 else 8
        mask = (1 << width) - 1 << shift
        pattern = random.getrandbits(80)
        await b.priority_class(3, pattern, mask)
        await b.commit()
        key = pattern & mask | random.getrandbits(80) & ~mask
        assert (await b.search(key, False))[3], field
        for bit in range(shift, shift + width):
            assert not (await b.search(key ^ 1 << bit, False))[3], f"{field}, bit {bit}"


@cocotb.test()
async def unused(dut):
    """After reset nothing matches, and 0.0.0.0 never finds a route, not even one that counts no bit."""
    b = Bench(dut)
    await b.reset()
    assert await b.search(0) == (3, None, None, False)
    await b.route(0, 0, 0, 1)
    await b.priority_class(0, 0, 0)
    assert (await b.search(1 << 48))[0] == 3
    await b.commit()
    assert await b.search(1 << 48) == (0, 0, 1, True)
    assert (await b.search(0))[0] == 3
    await b.reset()
    assert await b.search(1 << 48) == (3, None, None, False)
    await b.write(reg.ROUTE, 0x0A000001)  # the mask has its reset value: all ones
    await b.commit()
    assert (await b.search(0x0A000001 << 48))[0] == 0 and (await b.search(0x0A000002 << 48))[0] == 3


@cocotb.test()
async def writes_in_a_search(dut):
    """A search sees each rule as it was, off, or as it will be; never half of it."""
    b = Bench(dut)
    await b.reset()
    last = b.card.routes - 1
    rules = [(0x0A000001, 0xFFFFFFFF, 0xAAAAAAAAAAAA), (0x0A000002, 0xFFFFFFFE, 0x555555555555)]
    await b.route(last, *rules[0])
    await b.commit()
    for n in range(200):
        key = random.choice((0x0A000001, 0x0A000002, 0x0A000003)) << 48
        matching = {mac for pattern, mask, mac in rules if (key >> 48 ^ pattern) & mask == 0}

        async def reconfigure(rule=rules[(n + 1) % 2], pause=random.randrange(12)):
            await cycles(dut.clk, pause)
            await b.route(last, *rule)
            await b.commit()

        task = cocotb.start_soon(reconfigure())
        await cycles(dut.clk, random.randrange(8))
        dest, route, mac, _ = await b.search(key)
        assert (dest, route, mac) == (3, None, None) or route == last and mac in matching
        await task
        assert await b.search(key) == b.expected(key, True)


@cocotb.test()
async def a_word_written_in_a_search(dut):
    """Any word of a route, in each cycle of a search: the route is found as it was, or is off."""
    b = Bench(dut)
    await b.reset()
    last = b.card.routes - 1
    bank, d = divmod(last, 3)
    rule = 0x0A000001, 0xFFFFFFFF, 0xAAAAAAAAAAAA
    words = (reg.ROUTE + 2 * d, reg.ROUTE + 2 * d + 1, reg.NEXTHOP_MAC + 2 * d, reg.NEXTHOP_MAC + 2 * d + 1)
    # What comes out when a memory is disturbed may also match: keys that its complement would match
    keys = [0x0A000001, 0xF5FFFFFE, 0x12345678]
    outcomes = set()
    for pause in range(-(-b.card.routes // 3) + 4):
        for word in words:
            for key in keys:
                await b.route(last, *rule)
                await b.commit()

                async def write():
                    await cycles(dut.clk, pause)
                    await b.write(word, random.getrandbits(32), bank)

                task = cocotb.start_soon(write())
                dest, route, mac, _ = await b.search(key << 48)
                await task
                assert (dest, route, mac) in ((3, None, None), (last % 3, last, rule[2])), f"word {word}, cycle {pause}: {dest} {route} {mac:#x}"
                outcomes.add(dest)
    assert outcomes == {3, last % 3}


@cocotb.test()
async def reset_in_a_search(dut):
    b = Bench(dut)
    await b.reset()
    for _ in range(20):
        await random_rules(b)
        await b.commit()
        dut.key.value, dut.route_ok.value, dut.start.value = b.some_key(), 1, 1
        await FallingEdge(dut.clk)
        dut.start.value = 0
        await cycles(dut.clk, random.randrange(10))
        await b.reset()
        assert not int(dut.done.value)
        assert await b.search(random.getrandbits(80)) == (3, None, None, False)


@pytest.mark.parametrize(("routes", "routes6"), ((3, 0), (16, 0), (64, 0), (5, 4)))
def test_match(simulator, routes, routes6):
    run("hero_match", ["hero_ram", "hero_match6", "hero_match"], "test_hero_match", simulator, {"ROUTES": routes, "ROUTES6": routes6})
