"""Four cards on a bus, configured for a measurement on the fast path or the slow path."""

from hero.bench.traffic import Flow, Offer, Sink, interval, network, next_hop
from hero.model import card as c
from hero.model.host import Cpu, Rings
from hero.model.library import CARDS, Hero
from hero.tb.golden import registers as reg
from hero.tb.golden.frames import checksum

STEP = 20_000  # ns that frames are queued ahead
SETTLE = 2_000  # ns before the first frame
IDLE = 200_000  # ns without a frame coming out: the system is empty


class Measured:
    """The frames that came out, and the counters of all cards."""

    def __init__(self, sink, cards, cpu=None):
        self.sink, self.cpu = sink, cpu
        self.counters = [card.counters() for card in cards]
        self.forwarded = [card.forwarded() for card in cards]

    @property
    def lost(self):
        return self.sink.lost()

    @property
    def clean(self):
        """No loss, no reordering, no damage."""
        return not (self.lost or self.sink.reordered or self.sink.damaged)

    def settled(self):
        """The queues do not grow: latency at the end is about that of the middle."""
        for values in self.sink.latency.values():
            quarter = len(values) // 4
            middle, end = values[quarter : 2 * quarter], values[-quarter:]
            if sum(end) > 1.25 * sum(middle) + 1000 * quarter:
                return False
        return True

    def drops(self):
        """Frames dropped by all cards, by reason."""
        total = {}
        for counted in self.counters:
            for name, value in counted.items():
                if name in reg.DROPS:
                    total[name] = total.get(name, 0) + value
        return total

    def conserved(self):
        """Each frame received was enqueued or dropped with a reason (hero/README.md, Registers)."""
        return all(
            counted.get("received", 0) == sum(forwarded) + sum(counted.get(name, 0) for name in reg.VERDICTS)
            for counted, forwarded in zip(self.counters, self.forwarded))

    def rate(self, card):
        """Share of 1 Gbit/s that a card sent at after the warm-up, with preamble and gap."""
        frames, octets, first, last = self.sink.line.get(card, (0, 0, 0, 0))
        return octets * 8 / (last - first) if frames > 1 else 0.0

    def mean_latency(self):
        values = self.sink.latencies()
        return sum(values) / len(values)

    def percentile(self, share):
        values = self.sink.latencies()
        return values[min(len(values) - 1, int(share * len(values)))]


OTHER = 0xAC10_0000  # 172.16.0.0/12: no flow goes there


def cards_of(hero, fast, classes=(), routes=3):
    """All cards up; with `fast`, each has routes to its three peers, the last three of `routes`. `classes`: destinations
    whose frames are of high priority when their TOS is 0x10."""
    cards = [c.Card(hero, k) for k in range(CARDS)]
    for card in cards:
        card.start(reg.CMD_RX | reg.CMD_TX | (reg.CMD_FAST if fast else 0))
        for number in range(routes):
            to = c.peer(card.number, number % 3)
            is_used = number >= routes - 3
            card.route(number, *((network(to), 16) if is_used else (OTHER | number << 8, 24)), next_hop(to))
        for d in classes:
            card.class_of(d, (0, 0, HIGH_TOS << 8), (0, 0, 0xFF00))
        card.commit()
    hero.run(SETTLE)
    return cards


HIGH_TOS = 0x10


def offers(hero, flows, load, duration, phase=0.0):
    """The flows of each source in turn on its line, at `load` of 1 Gbit/s, for `duration` ns from now. `phase` (0-1)
    shifts the sources against each other."""
    made = []
    for source in sorted({flow.source for flow in flows}):
        mine = [flow for flow in flows if flow.source == source]
        gap = sum(interval(flow.size, load) for flow in mine) / len(mine)
        start = hero.now + 1000 + gap * (phase * source % 1)
        made.append(Offer(mine, start, gap, max(1, int(duration / gap))))
    return made


def drive(hero, sink, sources, work):
    """Offers all frames and lets time pass by `work(until)` until nothing comes out any more."""
    while any(source.left for source in sources):
        until = hero.now + STEP
        for source in sources:
            source.feed(hero, until + STEP)  # `work` may end a little late
        work(until)
        sink.take(hero)
    while any(hero.arriving(card) for card in range(CARDS)):
        work(hero.now + STEP)
        sink.take(hero)
    quiet = hero.now
    while sink.lost() and hero.now - quiet < IDLE:
        work(hero.now + STEP)
        if sink.take(hero):
            quiet = hero.now


def fast(build, flows, load=1.0, duration=1_000_000, phase=0.0, classes=(), warm_up=0.2, routes=3):
    """Runs flows over the fast path; a share `warm_up` of the duration does not count in rates and latencies."""
    with Hero(build) as hero:
        cards = cards_of(hero, fast=True, classes=classes, routes=routes)
        sink = Sink(flows, hero.now + warm_up * duration)
        drive(hero, sink, offers(hero, flows, load, duration, phase), hero.run_until)
        return Measured(sink, cards)


def route_in_software(memory_of_frame):
    """The work of a router's CPU: next hop, TTL, checksum. Returns the output card, or None."""
    frame = memory_of_frame
    card = frame[31] - 1  # 10.CARD+1.x.x
    if frame[22] <= 1 or not 0 <= card < CARDS:
        return None
    frame[0:6] = next_hop(card)
    frame[6:12] = c.mac(card)
    frame[22] -= 1
    frame[24:26] = bytes(2)
    frame[24:26] = checksum(bytes(frame[14:34])).to_bytes(2, "big")
    return card


def slow(build, flows, load=1.0, duration=1_000_000, phase=0.0, classes=(), warm_up=0.2, service=0,
         interrupt=0):
    """Runs flows through the host; `service`, `interrupt` as in host.Cpu, the rest as in `fast`."""
    with Hero(build) as hero:
        cards = cards_of(hero, fast=False, classes=classes)
        rings = [Rings(card) for card in cards]
        cpu = Cpu(hero, rings, lambda _card, frame: route_in_software(frame), service, interrupt)
        hero.run(SETTLE)
        sink = Sink(flows, hero.now + warm_up * duration)
        drive(hero, sink, offers(hero, flows, load, duration, phase), cpu.run)
        return Measured(sink, cards, cpu)


def ring_of_flows(size):
    """Each card to the next one."""
    return [Flow(k, k, (k + 1) % CARDS, size) for k in range(CARDS)]


def mesh_of_flows(size):
    """Each card to all three others in turn; at each moment the four outputs are different."""
    return [Flow(k * 3 + step, k, (k + 1 + step) % CARDS, size) for k in range(CARDS) for step in range(3)]
