"""The golden model against worked examples, and the checker against runs that are wrong on purpose."""

import random

import pytest
from golden import registers as reg
from golden.card import DROP, FAST, HOST, Card, Verdict, edit, parse, peer, slot
from golden.checker import Ledger
from golden.frames import checksum, ethernet, fcs, ip, ipv4, mac, stamp, vlan, wire

OWN, SENDER, HOP = mac("02:00:00:00:00:01"), mac("02:00:00:00:00:99"), mac("02:00:00:00:00:42")
EVERYTHING = reg.CMD_RX | reg.CMD_TX | reg.CMD_FAST


def card(index=0, routes=3, command=EVERYTHING):
    """A card with 10.1.0.0/16 on route 1 and nothing else."""
    model = Card(index, routes)
    for number, value in [
        (reg.MAC_LOW, int.from_bytes(OWN[:4], "little")),
        (reg.MAC_HIGH, int.from_bytes(OWN[4:], "little") | index << 16),
        (reg.ROUTE + 2, ip("10.1.0.0")),
        (reg.ROUTE + 3, ip("255.255.0.0")),
        (reg.NEXTHOP_MAC + 2, int.from_bytes(HOP[:4], "little")),
        (reg.NEXTHOP_MAC + 3, int.from_bytes(HOP[4:], "little")),
        (reg.CMD, command | reg.CMD_COMMIT),
    ]:
        model.write(number, value)
    return model


def frame(dst="10.1.2.3", to=OWN, **fields):
    fields.setdefault("payload", bytes(range(26)))
    return ethernet(to, SENDER, 0x0800, ipv4(ip(dst), ip("192.0.2.1"), **fields))


def test_checksum_of_rfc_1071_and_a_known_header():
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D
    assert checksum(bytes.fromhex("45000073000040004011b861c0a80001c0a800c7")) == 0
    assert fcs(b"123456789") == (0xCBF43926).to_bytes(4, "little")


def test_fast_frame_is_edited():
    verdict = card().verdict(frame())
    assert (verdict.kind, verdict.dest, verdict.route, verdict.high) == (FAST, 1, 1, False)
    assert verdict.frame[:6] == HOP
    assert verdict.frame[22] == 63
    assert checksum(verdict.frame[14:34]) == 0
    assert verdict.frame[34:] == frame()[34:]
    assert [i for i, (a, b) in enumerate(zip(frame(), verdict.frame)) if a != b and i >= 6] == [22, 24]


@pytest.mark.parametrize("ttl", range(2, 256))
def test_edit_is_rfc_1624(ttl):
    before = frame(ttl=ttl, ident=ttl * 257)
    word = lambda octets, at: int.from_bytes(octets[at : at + 2], "big")
    total = (~word(before, 24) & 0xFFFF) + (~word(before, 22) & 0xFFFF) + word(before, 22) - 0x100
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    assert word(edit(before, HOP), 24) == total ^ 0xFFFF


@pytest.mark.parametrize(
    "octets, kind, reason",
    [
        (frame(), FAST, ""),
        (frame(ttl=2), FAST, ""),
        (frame(ttl=1), HOST, ""),
        (frame(ttl=0), HOST, ""),
        (frame(dst="10.2.0.1"), HOST, ""),
        (frame(options=b"\x01" * 4), HOST, ""),
        (frame(options=b"\x01" * 4, error=1), DROP, "bad_checksum"),
        (frame(error=1), DROP, "bad_checksum"),
        (frame(error=1, to=mac("02:00:00:00:00:77")), DROP, "bad_checksum"),
        (frame(version=6), HOST, ""),
        (frame(total=19), HOST, ""),
        (frame(total=47), HOST, ""),
        (frame(total=46), FAST, ""),
        (frame(dst="0.0.0.0"), HOST, ""),
        (frame(to=mac("02:00:00:00:00:77")), DROP, "foreign_mac"),
        (frame(to=b"\xff" * 6), HOST, ""),
        (frame(to=mac("01:00:5e:00:00:01")), HOST, ""),
        (ethernet(b"\xff" * 6, SENDER, 0x0806, bytes(28)), HOST, ""),
        (vlan(5, frame()), HOST, ""),
        (frame()[:59], DROP, "runt"),
        (b"", DROP, "runt"),
        (frame(payload=bytes(1480)), FAST, ""),
        (frame(payload=bytes(1481)), DROP, "giant"),
        (vlan(5, frame(payload=bytes(1480))), HOST, ""),
        (vlan(5, frame(payload=bytes(1481))), DROP, "giant"),
    ],
)
def test_verdicts(octets, kind, reason):
    verdict = card().verdict(octets)
    assert (verdict.kind, verdict.reason) == (kind, reason)
    if kind == HOST:
        assert verdict.frame == octets
    assert card().verdict(octets, bad_fcs=True).reason == "bad_fcs"


def test_switches():
    assert card(command=reg.CMD_FAST).verdict(frame()).reason == "disabled"
    assert card(command=reg.CMD_RX).verdict(frame()).kind == HOST
    promiscuous = card(command=EVERYTHING | reg.CMD_PROMISCUOUS)
    assert promiscuous.verdict(frame(to=mac("02:00:00:00:00:77"))).kind == HOST
    assert promiscuous.verdict(frame()).kind == FAST


def test_rule_is_off_between_its_first_write_and_the_commit():
    model = card()
    model.write(reg.ROUTE + 2, ip("10.9.0.0"))
    assert model.verdict(frame()).kind == HOST
    assert model.verdict(frame(dst="10.9.0.1")).kind == HOST
    model.write(reg.CMD, EVERYTHING | reg.CMD_COMMIT)
    assert model.verdict(frame()).kind == HOST
    assert model.verdict(frame(dst="10.9.0.1")).route == 1


def test_lowest_route_wins_and_banks_lead_to_the_same_peers():
    model = card(routes=16)
    model.write(reg.CMD, EVERYTHING | 4 << reg.CMD_BANK_SHIFT)
    model.write(reg.ROUTE + 4, 0)
    model.write(reg.ROUTE + 5, 0)  # route 14 matches everything
    model.write(reg.CMD, EVERYTHING | 5 << reg.CMD_BANK_SHIFT)
    model.write(reg.ROUTE + 2, 0)
    model.write(reg.ROUTE + 3, 0)  # there is no route 16
    model.write(reg.CMD, EVERYTHING | reg.CMD_COMMIT)
    assert model.verdict(frame()).route == 1
    assert (model.verdict(frame(dst="10.2.0.1")).route, model.verdict(frame(dst="10.2.0.1")).dest) == (14, 2)


def test_class_of_the_destination_gives_the_priority():
    model = card()
    for word, value in [(2, 0x2E11), (5, 0xFCFF)]:
        model.write(reg.CLASS + 6 + word, value)
    for word in (3, 4):
        model.write(reg.CLASS + 6 + word, 0)
    assert not model.verdict(frame(tos=0x2E)).high, "not committed"
    model.write(reg.CMD, EVERYTHING | reg.CMD_COMMIT)
    assert model.verdict(frame(tos=0x2C)).high
    assert not model.verdict(frame(tos=0x20)).high
    assert not model.verdict(frame(tos=0x2E, proto=6)).high
    assert not model.verdict(frame(tos=0x2E, dst="10.2.0.1")).high, "the host has a class of its own"


def test_registers_keep_their_bits():
    model = card()
    assert model.read(reg.ROUTE + 2) == ip("10.1.0.0")
    model.write(reg.CMD, 0xFFFFFFFE)
    assert model.read(reg.CMD) == 0x1F1E
    model.write(reg.CMD, reg.CMD_RESET)
    assert [model.read(n) for n in (reg.CMD, reg.ROUTE + 2, reg.ROUTE + 3)] == [0, 0, 0xFFFFFFFF]


def test_slots_and_peers_are_inverse():
    for own in range(4):
        assert [peer(own, d) for d in range(3)] == [k for k in range(4) if k != own]
        assert all(slot(peer(own, d), own) == d for d in range(3))


def test_headers_at_random_are_parsed_like_their_fields():
    rng = random.Random(1)
    for _ in range(500):
        fields = dict(ttl=rng.randrange(256), tos=rng.randrange(256), proto=rng.randrange(256), ident=rng.randrange(65536))
        options = bytes(4 * rng.choice([0, 0, 1, 10]))
        header = parse(frame(options=options, **fields))
        assert (header.ttl, header.tos, header.proto) == (fields["ttl"], fields["tos"], fields["proto"])
        assert header.checksum_ok and header.options == bool(options)
        assert not parse(frame(error=rng.randrange(1, 0xFFFF), **fields)).checksum_ok


# The checker: each wrong run must be found.


def counted(**values):
    return {name: values.get(name, 0) for name in reg.COUNTERS}


def run_of(ledger, *serials):
    """Sends frames to card 0 and returns what must come out of card 2."""
    out = []
    for serial in serials:
        octets = stamp(frame(), serial)
        verdict = ledger.sent(0, octets).verdicts[0]
        out.append(verdict.frame[:6] + ledger.cards[2].mac + verdict.frame[12:])
    return out


@pytest.fixture
def ledger():
    return Ledger([card(k) for k in range(4)])


def test_a_good_run_has_no_complaint(ledger):
    for octets in run_of(ledger, 1, 2, 3):
        ledger.on_wire(2, octets)
    ledger.sent(0, frame(error=1))
    assert wire(frame())[-4:] == fcs(frame())
    assert ledger.check(0, counted(received=4, bad_checksum=1), [0, 3, 0, 0]) == []
    assert ledger.check(2, counted(sent=3), [0, 0, 0, 0]) == []
    assert not ledger.open()


def test_wrong_order_is_found(ledger):
    first, second = run_of(ledger, 1, 2)
    ledger.on_wire(2, second)
    ledger.on_wire(2, first)
    assert "out of order" in ledger.check(0, counted(received=2), [0, 2, 0, 0])[0]


@pytest.mark.parametrize(
    "values, forwarded, text",
    [
        (dict(received=2), [0, 2, 0, 0], "route 1: enqueued 2, came out 1"),
        (dict(received=2), [0, 1, 0, 0], "received 2 but enqueued or dropped 1"),
        (dict(received=2, foreign_mac=1), [0, 1, 0, 0], "foreign_mac: counted 1, at most 0"),
        (dict(received=2, peer_full=1), [0, 1, 0, 0], ""),
        (dict(received=1), [0, 1, 0, 0], "2 frames sent to it, counted 1"),
    ],
)
def test_a_lost_frame_must_be_accounted_for(ledger, values, forwarded, text):
    ledger.on_wire(2, run_of(ledger, 1, 2)[0])
    complaints = "\n".join(ledger.check(0, counted(**values), forwarded))
    assert text in complaints and bool(text) == bool(complaints)
    assert len(ledger.open()) == 1


def test_a_drop_by_a_queue_that_is_not_full_is_found():
    """What the card counts is no excuse: the frames under way tell whether the queue can have been full."""
    time = 0
    words = 2 * (len(frame()) + 7) // 8
    for queue_words, ended, complaint in ((words, 1, True), (words, 9, False), (2 * words, 9, True), (None, 1, False)):
        time = 0
        ledger = Ledger([card(k) for k in range(4)], queue_words, lambda: time)
        out = run_of(ledger, 1, 2)
        if ended == 1:
            time = 1
            for octets in out:
                ledger.on_wire(2, octets)
        time = 5
        run_of(ledger, 3)  # is dropped
        if ended == 9:
            time = 9
            for octets in out:
                ledger.on_wire(2, octets)
        complaints = ledger.check(0, counted(received=3, peer_full=1), [0, 2, 0, 0])
        assert any("frame 3 fell to a full queue" in text for text in complaints) == complaint, complaints
        assert bool(complaints) == complaint, complaints


def test_a_drop_by_the_input_needs_a_slow_reader():
    ledger = Ledger([card(k) for k in range(4)], 1024)
    ledger.sent(0, frame(error=1))
    assert any("in time" in text for text in ledger.check(0, counted(received=1, input_full=1), [0, 0, 0, 0]))
    ledger.input_may_be_full = True
    assert ledger.check(0, counted(received=1, input_full=1), [0, 0, 0, 0]) == []


def test_foreign_and_doubled_frames_are_found(ledger):
    octets = run_of(ledger, 1)[0]
    ledger.on_wire(2, octets)
    ledger.on_wire(2, octets)
    ledger.on_wire(1, octets)
    assert "fast 2" in ledger.errors[0] and "a second time" in ledger.errors[0]
    assert "wire 1" in ledger.errors[1] and "nobody sent it" in ledger.errors[1]


def test_an_undeserved_pass_is_found(ledger):
    ledger.sent(0, frame(error=1))
    complaints = ledger.check(0, counted(received=1, disabled=1), [0, 0, 0, 0])
    assert any("bad_checksum: counted 0, 1 deserved" in text for text in complaints)


def test_forgiven_frames_may_be_lost_or_come(ledger):
    first, second = run_of(ledger, 1, 2)
    ledger.forgive(2)
    ledger.on_wire(2, second)
    assert ledger.check(0, counted(received=2), [0, 2, 0, 0]) == []
    assert ledger.check(0, counted(received=2), [0, 3, 0, 0]) != []


def test_either_of_two_verdicts(ledger):
    octets = stamp(frame(), 7)
    fast = ledger.cards[0].verdict(octets)
    ledger.sent(0, octets, fast, Verdict(HOST, frame=octets))
    ledger.at_host(0, False, octets)
    assert ledger.check(0, counted(received=1), [0, 0, 0, 1]) == []
    ledger.at_host(0, False, octets)
    assert ledger.errors


def test_transmitted_frames_are_padded_and_expected(ledger):
    ledger.from_host(3, b"\x02" * 20)
    assert "never came out" in ledger.check(3, counted(), [0, 0, 0, 0])[0]
    ledger.on_wire(3, (b"\x02" * 20).ljust(60, b"\0"))
    assert ledger.check(3, counted(sent=1), [0, 0, 0, 0]) == []
