"""Routes and classes: at random, overlapping, in all banks, and changed under traffic without a half-written rule."""

import copy
import os

import cocotb
from cocotb.triggers import Timer
from golden import registers as reg
from golden.frames import IPV4, ethernet, ipv4, stamp
from system_bench import Bench, own_mac
from traffic import SENDER, Traffic

SEED = int(os.environ.get("HERO_SEED", "1"))
CHANGES = int(os.environ.get("HERO_CHANGES", "10"))
PROTOCOLS = (1, 6, 17)
TOS = (0, 0x10, 0xB8)


class Plan:
    """Random rules of one card and frames that meet them, or nearly."""

    def __init__(self, bench, card, traffic):
        self.bench, self.card, self.traffic, self.rng = bench, card, traffic, traffic.rng
        self.model = bench.models[card]
        self.sources = [self.rng.getrandbits(32) for _ in range(3)]

    def route(self, number):
        """Writes of a route: (register, value), in any order; the bank is chosen before."""
        mask = self.rng.choice((0xFFFFFFFF, 0xFFFFFF00, 0xFFFF0000, 0xF0000000, 0x0F0F00FF, self.rng.getrandbits(32)))
        pattern = self.rng.choice((self.rng.getrandbits(32), self.address()))
        hop = self.rng.getrandbits(48) & ~1
        first, dest = divmod(number, 3)
        words = [(reg.ROUTE + 2 * dest, pattern), (reg.ROUTE + 2 * dest + 1, mask),
                 (reg.NEXTHOP_MAC + 2 * dest, hop & 0xFFFFFFFF), (reg.NEXTHOP_MAC + 2 * dest + 1, hop >> 32)]
        self.rng.shuffle(words)
        command = self.model.read(reg.CMD) & ~0x1F00 | first << reg.CMD_BANK_SHIFT
        return [(reg.CMD, command)] + words

    def klass(self, dest):
        """Writes of a class."""
        pairs = ((self.address(), self.rng.choice((0, 0, 0xFFFF0000, 0xFFFFFFFF))), (self.rng.choice(self.sources), self.rng.choice((0, 0xFFFFFFFF))),
                 (self.rng.choice(TOS) << 8 | self.rng.choice(PROTOCOLS), self.rng.choice((0xFF00, 0x00FF, 0xFFFF, 0))))
        words = [(reg.CLASS + 6 * dest + 3 * kind + word, pairs[word][kind]) for kind in range(2) for word in range(3)]
        self.rng.shuffle(words)
        return words

    def address(self):
        """One that a route matches, a bit next to it, or any."""
        rule = self.rng.choice(self.model.route)
        address = rule.pattern & rule.mask | self.rng.getrandbits(32) & ~rule.mask
        return self.rng.choice((address, address, address ^ 1 << self.rng.randrange(32), self.rng.getrandbits(32))) & 0xFFFFFFFF

    def frame(self):
        packet = ipv4(self.address(), self.rng.choice(self.sources), payload=self.traffic.payload(self.rng.choice((26, 30, 200, 1000))),
                      tos=self.rng.choice(TOS), proto=self.rng.choice(PROTOCOLS))
        return stamp(ethernet(own_mac(self.card), SENDER, IPV4, packet), next(self.traffic.serials))

    def rules(self):
        """Writes of all rules and the commit."""
        writes = [word for number in range(self.bench.routes) for word in self.route(number)]
        writes += [word for dest in range(4) for word in self.klass(dest)]
        return writes + [(reg.CMD, self.model.read(reg.CMD) | reg.CMD_COMMIT)]


async def try_rules(dut, kind):
    """Has each card forward by rules of a kind of plan, three times."""
    async with Bench(dut) as bench:
        traffic = Traffic(SEED)
        plans = [kind(bench, card, traffic) for card in bench.cards]
        for _ in range(3):
            for plan in plans:
                for register, value in plan.rules():
                    await bench.write(plan.card, register, value)
            for plan in plans:
                for _ in range(40):
                    bench.lines[plan.card].send(plan.frame())
            await bench.quiet()


@cocotb.test()
async def any_rules(dut):
    """Overlapping routes and classes at random: the lowest matching route, the class of its destination."""
    await try_rules(dut, Plan)


async def change(bench, card, writes, rng):
    """Writes under traffic. Of a frame that is on the wire meanwhile, any state between the writes may decide; of one
    that comes later, only the last."""
    states = [bench.models[card]]
    for register, value in writes:
        states.append(copy.deepcopy(states[-1]))
        states[-1].write(register, value)
    states[0] = copy.deepcopy(states[0])
    bench.variants[card] = states
    await Timer(12, "us")  # the longest frame begun before
    for register, value in writes:
        await bench.write(card, register, value)
        await Timer(rng.randrange(1, 1500), "ns")
    del bench.variants[card]


@cocotb.test()
async def changes_under_traffic(dut):
    """A frame is forwarded by the old rule or the new one, or by none in between; never by half of one."""
    async with Bench(dut) as bench:
        traffic = Traffic(SEED)
        plans = {card: Plan(bench, card, traffic) for card in bench.cards[:2]}
        running = True

        async def feed(card):
            while running:
                await bench.lines[card].idle.wait()
                bench.lines[card].send(plans[card].frame())

        feeders = [cocotb.start_soon(feed(card)) for card in plans]
        for _ in range(CHANGES):
            for card, plan in plans.items():
                kinds = traffic.rng.choice(((1, 0), (0, 1), (2, 1)))
                writes = [word for _ in range(kinds[0]) for word in plan.route(traffic.rng.randrange(bench.routes))]
                writes += [word for _ in range(kinds[1]) for word in plan.klass(traffic.rng.randrange(4))]
                await change(bench, card, writes + [(reg.CMD, plan.model.read(reg.CMD) | reg.CMD_COMMIT)], traffic.rng)
        running = False
        for feeder in feeders:
            await feeder


@cocotb.test()
async def half_written(dut):
    """No word of a route counts before its commit, whichever is written; nor does one of a class."""
    async with Bench(dut) as bench:
        traffic, card = Traffic(SEED), bench.cards[0]
        rules = [reg.ROUTE + 2, reg.ROUTE + 3, reg.NEXTHOP_MAC + 2, reg.NEXTHOP_MAC + 3, *range(reg.CLASS + 6, reg.CLASS + 12)]
        await bench.set_class(card, 1, tos=(0xB8, 0xFF))
        await bench.commit(card)
        for register in rules:
            to = bench.cards[2]
            bench.lines[card].send(traffic.routed(card, to, tos=0xB8))
            await bench.quiet()
            await bench.write(card, register, bench.models[card].read(register))
            for tos in (0, 0xB8):
                bench.lines[card].send(traffic.routed(card, to, tos=tos))
            await bench.quiet()
            assert not bench.ledger.open()
            await bench.commit(card)
