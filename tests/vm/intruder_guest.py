"""Runs in a guest: what a firewall forbids. Established flows go by Bora; then an administrator changes something, or frames come that belong to
no flow. Bora passes no frame that Linux alone does not pass: of an intruder's at no time, of what an administrator forbids after a moment.

TCP segments outside the window, or with flags that make no sense, are not among them: no flowtable looks for them, Linux's neither
(docs/firewall.md).
"""

import dataclasses
import time
from collections import Counter

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, IPv6, IPv6ExtHdrFragment
from scapy.packet import Raw

from lib import packets
from vm import flows
from vm.firewall_guest import CASES, WAN, Lan, begin, by_bora, conversations, load, ready
from vm.topic_guest import FOLLOW_SECONDS, HOST, ROUTER, addressing, differences, tagged

RULESETS = ("openwrt-fw4.nft", "vyos-zones.nft", "docker.iptables")
SETTLED = 8  # packets of a conversation and direction, of which most must be Bora's
FOREIGN = "02:bc:00:00:00:99"
TABLE = "table inet forbid {{ chain c {{ type filter hook {} priority {}; drop; }}; }}"


@dataclasses.dataclass(frozen=True)
class Act:
    """What an administrator does, as commands of the router, and how it is undone. `frames`: what is sent then, by a conversation."""

    name: str
    does: tuple = ()
    undoes: tuple = ()
    frames: object = lambda talk: [talk.frame(True), talk.frame(False)]
    call: object = None  # a function of the network, instead of commands
    undo: object = None


def by_server(talk):
    return [talk.frame(False)]


def both(text, four, six):
    """A command of `ip` for IPv4 and for IPv6."""
    return f"ip {text.format(four)}", f"ip -6 {text.format(six)}"


def nft(text):
    return (f"nft '{text}'",)


def put_back(lan):
    """Addresses and routes that went with a link's state."""
    lan.router.ip("link", "set", "r1", "up")
    lan.router.batch(addressing("r1", WAN, HOST.format(WAN)))


SERVERS = "198.19.0.0/16", "2001:db8:f1::/48"
ACTS = (
    Act("conntrack's entries are deleted", frames=by_server, call=flows.forget),
    Act("a chain that drops", nft(TABLE.format("forward", -5)), nft("delete table inet forbid")),
    Act("a chain that drops before routing", nft(TABLE.format("prerouting", -310)), nft("delete table inet forbid")),
    Act("a chain of family netdev that drops", nft("table netdev forbid { chain c { type filter hook ingress device r1 priority 0; drop; }; }"),
        nft("delete table netdev forbid")),
    Act("a rule of iptables", ("iptables-nft -I FORWARD -j DROP", "ip6tables-nft -I FORWARD -j DROP"),
        ("iptables-nft -D FORWARD -j DROP", "ip6tables-nft -D FORWARD -j DROP")),
    Act("forwarding off", ("sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0",),
        ("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",)),
    Act("a blackhole route", both("route add blackhole {} metric 1", "198.19.0.0/24", "2001:db8:f1::/64"),
        both("route del blackhole {} metric 1", "198.19.0.0/24", "2001:db8:f1::/64")),
    Act("a rule of policy routing", both("rule add pref 10 to {} prohibit", *SERVERS), both("rule del pref 10 to {} prohibit", *SERVERS)),
    Act("an IPsec policy", both("xfrm policy add src {0} dst {0} dir fwd action block", "0.0.0.0/0", "::/0"), ("ip xfrm policy flush",)),
    Act("tc at the ingress", ("tc qdisc add dev r1 clsact", "tc filter add dev r1 ingress matchall action drop"), ("tc qdisc del dev r1 clsact",)),
    Act("tc at the egress", ("tc qdisc add dev r1 clsact", "tc filter add dev r1 egress matchall action drop"), ("tc qdisc del dev r1 clsact",)),
    Act("the link is down", ("ip link set r1 down",), undo=put_back),
    Act("the router's address is gone", ("ip address flush dev r1",), undo=put_back),
)


# Frames of an intruder, by a conversation.


def stranger(talk, **more):
    """A conversation that is like this one, and is another."""
    return dataclasses.replace(talk, **more)


def spoofed(talk):
    """By the other link, from another server, to another port, by another client."""
    other = stranger(talk)
    other.server = "198.19.77.7" if talk.family == 4 else "2001:db8:f1:77::7"
    yield from talk.strange()
    yield other.frame(False)
    yield stranger(talk, client="10.0.0.77" if talk.family == 4 else "2001:db8::77", seen=()).frame(False)


def made(talk, by_client, **header):
    """(link, whole packet), with these fields of the IP header."""
    link, frame = stranger(talk).frame(by_client)  # the conversation does not go on
    packet = (IP if talk.family == 4 else IPv6)(frame[14:])
    for field, value in header.items():
        setattr(packet, field, value)
    if talk.family == 4:
        del packet.chksum
    return link, packet


def framed(link, packet):
    return link, packets.ethernet(ROUTER.format(link), HOST.format(link), bytes(packet))


def odd_headers(talk):
    """Fragments, options, a TTL that ends here, lengths and checksums that are wrong."""
    for by_client in (True, False):
        if talk.family == 4:
            yield framed(*made(talk, by_client, flags="MF"))
            yield framed(*made(talk, by_client, frag=100))
            yield framed(*made(talk, by_client, ttl=1))
            link, packet = made(talk, by_client)
            yield framed(link, IP(bytes(packet)[:10] + b"\xba\xad" + bytes(packet)[12:]))
            packet.options = [b"\x94\x04\0\0"]
            del packet.ihl, packet.len, packet.chksum
            yield framed(link, packet)
        else:
            link, packet = made(talk, by_client)
            yield framed(link, IPv6(src=packet.src, dst=packet.dst) / IPv6ExtHdrFragment(nh=packet.nh, m=1, id=7) / Raw(bytes(packet)[40:]))
            yield framed(*made(talk, by_client, hlim=1))
        link, packet = made(talk, by_client)
        yield framed(link, bytes(packet)[:-50])


def odd_frames(talk):
    """Frames with the tag of a VLAN, and frames for another station."""
    for by_client in (True, False):
        link, frame = stranger(talk).frame(by_client)
        yield link, tagged(frame, 5)
        yield link, bytes.fromhex(FOREIGN.replace(":", "")) + frame[6:]


def lies(talk):
    """ICMP errors about no flow."""
    address, port = talk.seen
    if talk.family == 4:
        about = IP(src=address, dst=talk.server) / UDP(sport=port + 300, dport=9) / Raw(bytes(8))
        yield framed(WAN, IP(src=talk.server, dst=address) / ICMP(type=3, code=1) / Raw(bytes(about)))
    else:
        about = IPv6(src=address, dst=talk.server) / UDP(sport=port + 300, dport=9) / Raw(bytes(8))
        yield framed(WAN, IPv6(src=talk.server, dst=address) / ICMPv6DestUnreach(code=3) / Raw(bytes(about)))


INTRUDERS = (
    Act("spoofed", frames=spoofed),
    Act("odd headers", frames=odd_headers),
    Act("odd frames", frames=odd_frames),
    Act("lies", frames=lies),
)


def settled(lan, case, number):
    """New conversations for an act, which speak until their flows are settled; most of it must go by Bora then."""
    talks = conversations(case, ("tcp", "udp", "ping"), 10 * number)
    begin(lan, talks)
    rest = [talk for talk in talks if talk.kind != "ping"]
    frames = [talk.frame(by_client) for by_client in (True, False) for talk in rest for _ in range(SETTLED)]
    before = by_bora(lan)
    got = lan.exchange(frames, len(frames))
    assert len(got) == len(frames), f"{len(got)} of {len(frames)} frames came out; {lan.state()}"
    forwarded = by_bora(lan) - before
    assert lan.bora is None or forwarded > 0.7 * len(frames), f"{forwarded} of {len(frames)} by Bora; {lan.state()}"
    return talks


def do(lan, commands, function):
    for command in commands:
        lan.router.exec("sh", "-c", command)
    if function:
        function(lan)


def is_late(frame):
    """Whether Linux says that the rest of a fragment did not come, which an earlier act has sent."""
    if frame[12:14] == b"\x08\0":
        return frame[23] == 1 and frame[34:36] == b"\x0b\x01"
    return frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54:56] == b"\x03\x01"


def passed_now(lan, frames):
    """What passes."""
    return [(link, frame) for link, frame in lan.exchange(frames) if not is_late(frame)]


def perform(lan, case, number, act, passed):
    """An act, and what passes then. `passed`: what passes with Linux alone. Returns what passed, and for how long it was more than that."""
    talks = settled(lan, case, number)
    frames = [frame for talk in talks for frame in act.frames(talk)]
    do(lan, act.does, act.call)
    try:
        begun = time.monotonic()
        got = passed_now(lan, frames)
        if passed is None:
            return got, 0
        allowed = 0 if act in INTRUDERS else FOLLOW_SECONDS
        while more := Counter(got) - Counter(passed):
            assert time.monotonic() - begun < allowed, f"passes, and does not with Linux: {differences([], sorted(more.elements()))}; {lan.state()}"
            got = passed_now(lan, frames)
        took = time.monotonic() - begun
        for _ in range(3):
            more = Counter(passed_now(lan, frames)) - Counter(passed)
            assert not more, f"passes again: {differences([], sorted(more.elements()))}; {lan.state()}"
        return got, took
    finally:
        do(lan, act.undoes, act.undo)


def judged(lan, case, wanted, say):
    """All acts with Bora, whose process is killed at the end; returns those that failed."""
    failed = []
    for number, act in enumerate(INTRUDERS + ACTS):
        try:
            _, took = perform(lan, case, number, act, wanted[number])
            moment = "" if act in INTRUDERS else f" after {took:.1f} s"
            say(f"{case.file}: {act.name}: nothing passes that Linux does not pass{moment}")
            ready(lan, case)
        except AssertionError as error:
            failed.append(f"{case.file}: {act.name}")
            say(f"{case.file}: {act.name}: FAILED: {error}")
            load(lan, case)
    return failed


def killed(lan, case, say):
    """kill -9 while the flowtable is Bora's: flows go on by Linux, whose rules count at once."""
    talks = settled(lan, case, len(INTRUDERS + ACTS))
    lan.bora.kill()
    frames = [frame for talk in talks for frame in (talk.frame(True), talk.frame(False))]
    assert len(lan.exchange(frames, len(frames))) == len(frames), "flows end with Bora"
    lan.router.exec("nft", "-f", "-", input=TABLE.format("forward", -5))
    assert not passed_now(lan, frames), "a dead Bora passes what Linux forbids"
    lan.router.exec("nft", "delete", "table", "inet", "forbid")
    say(f"{case.file}: Bora killed: its flows go on by Linux, whose rules count at once")


def body(how, say):
    """The rulesets; one in short."""
    cases = [case for case in CASES if case.file in RULESETS[:1 if how == "short" else None] and not case.bridge and not case.legacy]
    failed = []
    for case in cases:
        lan = Lan(False)
        try:
            load(lan, case)
            wanted = [perform(lan, case, number, act, None)[0] for number, act in enumerate(INTRUDERS + ACTS)]
            flows.clean(lan)
            lan.start("express")
            load(lan, case)
            failed += judged(lan, case, wanted, say)
            killed(lan, case, say)
        finally:
            lan.close()
    assert not failed, failed
