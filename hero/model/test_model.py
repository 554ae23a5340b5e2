"""The model library through its C interface: registers, both paths, bad arguments."""

import struct

import pytest

from hero.bench.system import cards_of, route_in_software
from hero.bench.traffic import Flow, network, next_hop
from hero.model import build, library
from hero.model import card as c
from hero.model.host import Cpu, Rings
from hero.tb.golden import frames
from hero.tb.golden import registers as reg
from hero.tb.golden.card import edit6

NAMES = ("xbar", pytest.param("pcix", marks=pytest.mark.slow))


@pytest.fixture(params=NAMES)
def hero(request):
    build.build(request.param)
    with library.Hero(request.param) as made:
        made.name = request.param
        yield made


def test_parameters(hero):
    wanted = build.BUILDS[hero.name]
    for name in ("bus", "setup", "routes", "routes6", "sys_mhz"):
        assert hero.parameter(name) == wanted[name.upper()]
    assert hero.parameter("colour") == -1
    assert len(hero.memory) == 64 << 20


def test_time_passes_only_when_told(hero):
    begin = hero.now
    hero.run(12345)
    assert hero.now == begin + 12345
    assert hero.run_until_irq(500) == 0
    assert hero.now == begin + 12845


def test_registers(hero):
    for card in range(4):
        assert hero.read(card, reg.ID) == 0x4845524F
        assert hero.read(card, reg.STATUS) >> 8 & 0xFF == hero.parameter("routes")
        hero.write(card, reg.PEER_BASE, 0x8000_0000 + card)
    assert [hero.read(card, reg.PEER_BASE) for card in range(4)] == [0x8000_0000 + card for card in range(4)]


def test_links(hero):
    def links():
        return [hero.read(card, reg.STATUS) >> 1 & 1 for card in range(4)]

    assert links() == [1, 1, 1, 1]
    hero.set_link(2, False)
    assert links() == [1, 1, 0, 1]
    hero.set_link(4, False)
    hero.set_link(2, True)
    assert links() == [1, 1, 1, 1]


def test_bad_arguments(hero):
    lib, h, frame = hero.lib, hero.h, bytes(64)
    assert hero.read(4, 0) == hero.read(0, 64) == 0xFFFFFFFF
    hero.write(4, 0, 1)
    hero.write(0, 64, 1)
    for card, data, octets in [(4, frame, 64), (0, None, 64), (0, frame, 0), (0, bytes(9217), 9217)]:
        assert lib.hero_receive(h, card, data, octets, 0, 0) == -1
    assert lib.hero_arriving(h, 4) == 0
    assert lib.hero_transmitted(h, 4, None, 0, None, None) == -1
    assert lib.hero_transmitted(h, 0, None, 0, None, None) == -1


def test_a_line_queues_4096_frames(hero):
    for _ in range(4096):
        hero.receive(0, bytes(60), 1 << 40)
    with pytest.raises(ValueError):
        hero.receive(0, bytes(60))
    assert hero.arriving(0) == 4096 and hero.arriving(1) == 0


def test_fast_path(hero):
    cards = cards_of(hero, fast=True)
    flow = Flow(7, 2, 0, 128)
    begin = (hero.now + 7) // 8 * 8 + 80
    hero.receive(2, flow.make(0), begin)
    hero.receive(2, flow.make(1), begin)
    hero.run(20_000)
    first = hero.transmitted(0)
    assert hero.transmitted(0)[0] == flow.expected(1)
    assert hero.transmitted(0) is None
    octets, started, ended = first
    assert octets == flow.expected(0)
    assert started > begin + (8 + 128) * 8 and ended == started + 127 * 8
    assert cards[2].forwarded()[c.destination(2, 0)] == 2
    with pytest.raises(ValueError):
        hero.receive(2, b"")


def test_short_buffer_takes_the_frame_away(hero):
    cards_of(hero, fast=True)
    flow = Flow(1, 0, 1, 64)
    hero.receive(0, flow.make(0))
    hero.run(20_000)
    assert hero.lib.hero_transmitted(hero.h, 1, bytes(60), 59, None, None) == -3
    assert hero.transmitted(1) is None


@pytest.mark.parametrize("faults, reason", [(library.BAD_FCS, "bad_fcs"), (library.RX_ER, "bad_fcs")])
def test_faults_on_the_wire(hero, faults, reason):
    cards = cards_of(hero, fast=True)
    flow = Flow(1, 0, 1, 64)
    hero.receive(0, flow.make(0), 0, faults)
    hero.run(20_000)
    assert hero.transmitted(1) is None
    assert cards[0].drops() == {reason: 1}


def test_runt(hero):
    cards = cards_of(hero, fast=True)
    hero.receive(0, bytes(40), 0, library.NO_PAD)
    hero.run(20_000)
    assert cards[0].drops() == {"runt": 1}


def test_slow_path(hero):
    cards = cards_of(hero, fast=False)
    rings = [Rings(card) for card in cards]
    cpu = Cpu(hero, rings, lambda _card, frame: route_in_software(frame), service=100)
    flow = Flow(3, 1, 3, 512)
    for sequence in range(5):
        hero.receive(1, flow.make(sequence))
    cpu.run(hero.now + 100_000)
    for sequence in range(5):
        assert hero.transmitted(3)[0] == flow.expected(sequence)
    assert hero.transmitted(3) is None
    assert cpu.handled == 5 and cpu.interrupts >= 1 and cpu.errors == 0
    assert cards[1].forwarded() == [0, 0, 0, 5]


def test_an_interrupt_returns_at_once(hero):
    card = c.Card(hero, 0)
    card.start()
    rings = Rings(card)
    rings.refill()
    card.write(reg.IRQ_MASK, reg.IRQ_RXLO)
    begin = hero.now
    hero.receive(0, struct.pack(">6s6sH", c.mac(0), bytes(6), 0x0806).ljust(60, b"\0"))
    assert hero.run_until_irq(1_000_000) == 1
    assert hero.now - begin < 10_000
    assert hero.run_until_irq(1_000_000, 0b1110) == 1  # another card's line is not waited for: time passes
    assert hero.now - begin >= 1_000_000
    assert card.read(reg.IRQ_MASKED) == reg.IRQ_RXLO
    assert hero.irq == 0


@pytest.mark.slow
def test_routes_beyond_the_first_bank():
    build.build("xbar-16")
    with library.Hero("xbar-16") as hero:
        assert hero.parameter("routes") == 16
        card, other = c.Card(hero, 0), c.Card(hero, 3)
        card.start()
        other.start()
        d = c.destination(0, 3)
        flow = Flow(1, 0, 3, 64)
        card.route(4 * 3 + d, network(3), 16, next_hop(3))  # bank 4
        card.commit()
        hero.receive(0, flow.make(0))
        hero.run(20_000)
        assert hero.transmitted(3)[0] == flow.expected(0)
        assert card.forwarded() == [0, 0, 0, 0]
        card.command(card.cmd | 4 << reg.CMD_BANK_SHIFT)
        assert card.forwarded()[d] == 1


@pytest.mark.slow
def test_routes_of_ip6():
    """Beside those of IPv4; the longer prefix comes first."""
    build.build("xbar-6")
    with library.Hero("xbar-6") as hero:
        card, *others = (c.Card(hero, number) for number in range(4))
        for each in (card, *others):
            each.start()
        assert card.read(reg.LEVELS) >> reg.LEVELS_ROUTES6_SHIFT & 15 == hero.parameter("routes6") == 8
        flow = Flow(1, 0, 1, 64)
        card.route(c.destination(0, 1), network(1), 16, next_hop(1))
        card.route6(3, frames.ip6("2001:db8:7::"), 48, c.destination(0, 2), next_hop(2))
        card.route6(7, frames.ip6("2001:db8::"), 32, c.destination(0, 3), next_hop(3))
        card.commit()
        for address, to in (("2001:db8:7::1", 2), ("2001:db8:8::1", 3)):
            packet = frames.ipv6(frames.ip6(address), frames.ip6("2001:db8:9::1"), bytes(26))
            frame = frames.ethernet(c.mac(0), next_hop(0), frames.IPV6, packet)
            hero.receive(0, frame)
            hero.receive(0, flow.make(0))
            hero.run(20_000)
            out = edit6(frame, next_hop(to))
            assert hero.transmitted(to)[0] == out[:6] + c.mac(to) + out[12:]
            assert hero.transmitted(1)[0] == flow.expected(0)
        for number, count in ((3, 1), (7, 1), (0, 0)):
            card.write(reg.CMD, card.cmd | reg.ROUTE6_BANK + number << reg.CMD_BANK_SHIFT)
            assert card.forwarded()[0] == count
