"""Routes of IPv6 beside those of IPv4: at random, overlapping, and changed under traffic without a half-written rule."""

import os

import cocotb
from cases_routes import PROTOCOLS, SEED, TOS, Plan, change, try_rules
from golden import registers as reg
from golden.frames import IPV6, ethernet, ipv6, stamp
from system_bench import Bench, own_mac, route6
from traffic import SENDER, Traffic

CHANGES = int(os.environ.get("HERO_CHANGES", "10"))


class Plan6(Plan):
    """The rules of both, and frames of both that meet them, or nearly."""

    def route6(self, number):
        """Writes of a route of IPv6, in any order after the choice of its bank."""
        length = self.rng.choice((0, 32, 48, 64, 128, self.rng.randrange(129)))
        address = self.rng.choice((self.rng.getrandbits(128), self.address6()))
        hop = (self.rng.getrandbits(48) & ~1).to_bytes(6, "little")
        bank, *words = route6(self.model.read(reg.CMD), number, address, length, self.rng.randrange(4), hop)
        self.rng.shuffle(words)
        return [bank, *words]

    def address6(self):
        """One that a route matches, a bit next to it, or any."""
        rule = self.rng.choice(self.model.route6)
        host = (1 << 128 - min(rule.length, 128)) - 1
        address = rule.address & ~host | self.rng.getrandbits(128) & host
        return self.rng.choice((address, address, address ^ 1 << self.rng.randrange(128), self.rng.getrandbits(128)))

    def frame(self):
        if self.rng.random() < 0.3:
            return super().frame()
        packet = ipv6(self.address6(), self.rng.getrandbits(125) | 1 << 125, self.traffic.payload(self.rng.choice((6, 30, 200, 1000))),
                      traffic_class=self.rng.choice(TOS), next_header=self.rng.choice(PROTOCOLS))
        return stamp(ethernet(own_mac(self.card), SENDER, IPV6, packet), next(self.traffic.serials))

    def klass(self, dest):
        """Half of them count no address, so that they are for IPv6, too."""
        words = super().klass(dest)
        if self.rng.random() < 0.5:
            masks = (reg.CLASS + 6 * dest + 3, reg.CLASS + 6 * dest + 4)
            words = [(register, 0 if register in masks else value) for register, value in words]
        return words

    def rules(self):
        return [word for number in range(self.bench.routes6) for word in self.route6(number)] + super().rules()


@cocotb.test()
async def any_rules(dut):
    """Overlapping prefixes and classes at random: the lowest matching route, the class of its destination."""
    await try_rules(dut, Plan6)


@cocotb.test()
async def changes_under_traffic(dut):
    """A frame is forwarded by the old rule or the new one, or by none in between; never by half of one."""
    async with Bench(dut) as bench:
        traffic = Traffic(SEED)
        card = bench.cards[0]
        plan = Plan6(bench, card, traffic)
        running = True

        async def feed():
            while running:
                await bench.lines[card].idle.wait()
                bench.lines[card].send(plan.frame())

        feeder = cocotb.start_soon(feed())
        for _ in range(CHANGES):
            writes = plan.route6(traffic.rng.randrange(bench.routes6))
            await change(bench, card, writes + [(reg.CMD, writes[0][1] | reg.CMD_COMMIT)], traffic.rng)
        running = False
        await feeder


@cocotb.test()
async def half_written(dut):
    """No word of a route counts before its commit, whichever is written; nor does a route after its first write."""
    async with Bench(dut) as bench:
        traffic, card = Traffic(SEED), bench.cards[0]
        to, number = bench.cards[2], 1
        rule = bench.models[card].route6[number]
        writes = route6(bench.models[card].read(reg.CMD), number, rule.address, rule.length, rule.dest, rule.next_hop.to_bytes(6, "little"))
        for register, value in writes[1:]:
            bench.lines[card].send(traffic.routed6(card, to))
            await bench.quiet()
            await bench.write(card, *writes[0])
            await bench.write(card, register, value)
            assert not rule.live
            bench.lines[card].send(traffic.routed6(card, to))
            await bench.quiet()
            assert not bench.ledger.open()
            await bench.commit(card)
