"""VLAN devices: Bora sends the same frames as Linux alone for each case of vlan_cases, and does so itself where it should."""

import collections
import contextlib
import dataclasses
import json
import struct
import threading
import time
import traceback

from scapy.layers.l2 import Ether

from lib import packets
from lib.bora import binary
from lib.vlans import CTAG, STAG, Segment, Vlans, untag
from vm import bulk, vlan_cases
from vm.report import VLAN_PREFIX
from vm.vlan_cases import A, B, C, place

STREAM_SECONDS, STREAM_PAUSE = 0.5, 0.01
FOLLOW_SECONDS = 10.0
COUNT_SECONDS = 2.0  # until packets that have come out are counted
_IPV4, _IPV6, _ARP = 0x0800, 0x86DD, 0x0806


class Reference:
    """The VLANs of a network, their cases, and what Linux alone sends for them."""

    def __init__(self, net, short):
        self.net, self.short = net, short
        self.lan = None
        self.cases = None
        self.frames = {}  # by case
        self.generic = False  # whether Bora's ports use generic XDP

    @contextlib.contextmanager
    def vlans(self):
        """Within the block the VLANs exist."""
        self.lan = Vlans(self.net, vlan_cases.SEGMENTS, vlan_cases.STATIONS, vlan_cases.SILENT)
        try:
            if self.cases is None:
                self.cases = vlan_cases.cases(self.lan)
                self.cases = vlan_cases.merged(self.cases) if self.short else self.cases
            self.net.settle()
            yield self.lan
        finally:
            self.lan.close()
            self.net.settle()


def run(cell, reference):
    """All checks of a cell, for Linux alone or for Bora."""
    def check(name, function, *arguments):
        cell.check(VLAN_PREFIX + name, function, *arguments)

    try:
        with reference.vlans() as lan:
            if cell.net.bora is not None:
                reference.generic = uses_generic_xdp(cell.net)
                check("`bora show vlans`", shown, reference)
            for case in reference.cases:
                check(case.name, same, reference, case)
            if cell.net.bora is not None:
                check("`bora prove`", proven, cell.net)
            check("TCP", tcp, lan, 0.5 if reference.short else 2)
            if not reference.short:
                check("another id under traffic", recreated, reference)
                if cell.net.bora is not None:
                    check("kill -9, restart", restarted, reference)
                    check("a VLAN device as a port", as_port, reference)
    except Exception as error:
        cell.note(check=VLAN_PREFIX + "set-up", ok=False, reason=f"{type(error).__name__}: {error}", where=traceback.format_exc())


def proven(net):
    """Linux says the same of all packets that come in by a port and by some VLAN devices."""
    same = {}
    for device in ("r0", A.device, C.device, vlan_cases.QINQ.device):
        done = net.router.exec(binary(), "prove", "--json", "--input", device, check=False, timeout=300)
        proof = json.loads(done.stdout)
        assert proof["progress"]["differ"] == 0, proof["differences"][:3]
        same[device] = proof["progress"]["same"]
    assert all(same.values()), same
    return same


# A frame as text, and as it is compared.


def summary(host, frame):
    """One line: host, tags (with their priority), what it is."""
    found, plain = untag(frame)
    shown = ".".join(("ad" if kind == STAG else "") + str(tci & 0xFFF) + (f"p{tci >> 13}" if tci >> 13 else "")
                     for kind, tci in found)
    return f"h{host} {shown or '-'} {_what(plain)}"


def _what(frame):
    kind, packet = int.from_bytes(frame[12:14], "big"), frame[14:]
    if kind == _ARP:
        return f"ARP {packet[7]}"
    if kind == _IPV4:
        protocol, body = packet[9], packet[(packet[0] & 15) * 4:]
        if int.from_bytes(packet[6:8], "big") & 0x1FFF:
            return "IPv4 fragment"
        return f"IPv4 ICMP {body[0]}/{body[1]}" if protocol == 1 else "IPv4 UDP" if protocol == 17 else f"IPv4 {protocol}"
    if kind == _IPV6:
        following, body = packet[6], packet[40:]
        return f"IPv6 ICMP {body[0]}/{body[1]}" if following == 58 else "IPv6 UDP" if following == 17 else f"IPv6 {following}"
    return Ether(frame).summary()


def normalized(frame):
    """The frame without what differs from run to run: padding, and the IPv4 ID of what the router says itself."""
    found, plain = untag(frame)
    if int.from_bytes(plain[12:14], "big") == _IPV4:
        packet = plain[14:]
        length = int.from_bytes(packet[2:4], "big")
        if packet[12:14] == b"\x0a\0" and packet[15] == 1:  # 10.0.N.1
            packet = packet[:4] + b"\0\0" + packet[6:10] + b"\0\0" + packet[12:]
        plain = plain[:14] + packet[:length] + packet[length:].rstrip(b"\0")
    elif int.from_bytes(plain[12:14], "big") in (_IPV6, _ARP):
        length = 40 + int.from_bytes(plain[18:20], "big") if plain[12] == 0x86 else 28
        plain = plain[:14 + length] + plain[14 + length:].rstrip(b"\0")
    return plain[:12] + b"".join(struct.pack("!HH", *one) for one in found) + plain[12:]


# The cases.


def same(reference, case):
    """Linux alone: the frames are as the case says, and are kept. Bora: they are those that Linux has sent."""
    lan, net = reference.lan, reference.net
    if case.prepare:
        case.prepare(lan)
        net.settle()
    before = Counts.now(net)
    got = exchange(lan, case)
    summaries = sorted(summary(host, frame) for host, frame in got)
    if net.bora is None:
        assert summaries == sorted(case.wanted), f"Linux: {differences(sorted(case.wanted), summaries)}"
        reference.frames[case.name] = got
        return len(got)
    wanted = reference.frames.get(case.name)
    assert wanted is not None, "Linux alone has failed this case"
    left, right = (sorted((host, normalized(frame)) for host, frame in frames) for frames in (wanted, got))
    assert left == right, explained(left, right)
    deadline = time.monotonic() + COUNT_SECONDS
    while True:
        try:
            return by_bora(reference, case, before, Counts.now(net))
        except AssertionError:
            if time.monotonic() > deadline:
                raise


def exchange(lan, case):
    """Sends a case's frames; returns what comes out, of all hosts."""
    net = lan.net
    for port in net.hosts:
        port.drain()
    for way, segment, frame in case.sends:
        lan.send(way, segment, frame)
    if case.wanted:
        return net.collect(len(case.wanted), case.seconds)
    assert net.probe(), "the good packet after the others did not arrive"
    return net.extra + net.collect()


def differences(left, right):
    """Which lines one list has more of than another."""
    missing, extra = list(left), []
    for line in right:
        missing.remove(line) if line in missing else extra.append(line)
    return f"{len(left)} frames expected, {len(right)} came; missing: {missing[:8]}, unexpected: {extra[:8]}"


def explained(wanted, got):
    """How the frames of Linux and Bora differ."""
    missing, extra = list(wanted), []
    for one in got:
        missing.remove(one) if one in missing else extra.append(one)
    text = differences([summary(*one) for one in wanted], [summary(*one) for one in got])
    if missing and extra:
        text += "\n" + packets.difference(missing[0][1], extra[0][1])
    return text


# Who forwards.


@dataclasses.dataclass
class Counts:
    """Bora's counters: sent, left to Linux (and by reason), received and sent by VLAN device and port."""

    sent: int
    passed: int
    reasons: collections.Counter
    devices: dict

    @classmethod
    def now(cls, net):
        """None without Bora."""
        if net.bora is None:
            return None
        drops = net.bora.show("drops")
        devices = {one["name"]: collections.Counter(rx=one["rx_packets"], tx=one["tx_packets"])
                   for one in net.bora.show("vlans")["devices"] + net.bora.show("ports")}
        return cls(drops["sent"], drops["passed"], collections.Counter(drops["punts"]), devices)

    def grown(self, name, before):
        """What a device has received and sent since `before`."""
        return self.devices[name] - before.devices.get(name, collections.Counter())


def by_bora(reference, case, before, after):
    """Checks whether Bora or Linux has forwarded a case's packets, by Bora's counters."""
    sent, passed = after.sent - before.sent, after.passed - before.passed
    detail = {"sent": sent, "to_linux": passed, "reasons": after.reasons - before.reasons}
    if case.by == "linux":
        assert sent == 0, f"Bora has sent packets that Linux should forward: {detail}"
    if case.by != "bora" or reference.generic:
        return detail
    assert sent >= len(case.wanted), f"Bora has sent {sent} of {len(case.wanted)} packets: {detail}"
    for segment in (*reference.lan.segments, vlan_cases.R0, vlan_cases.R1):
        if segment.device not in after.devices:
            continue  # Linux's
        received = sum(source == segment for _, source, _ in case.sends)
        out = sum(line.startswith(place(segment) + " ") for line in case.wanted)
        grown = after.grown(segment.device, before)
        assert grown["rx"] >= received and grown["tx"] >= out, \
            f"{segment.device}: received {received}, sent {out}, but Bora has counted {dict(grown)}"
    return detail


def uses_generic_xdp(net):
    """Whether the VLANs of a port are Linux's, because generic XDP does not see all tags."""
    return any(port["xdp"] == "generic" for port in net.bora.show("ports"))


def shown(reference):
    """`bora show vlans` has all devices, as the table, too; those left to Linux have a reason."""
    net = reference.net
    report = net.bora.show("vlans")
    devices = {one["name"]: one for one in report["devices"]}
    left = {one["name"]: one["why"] for one in report["left_to_linux"]}
    generic = "generic" if reference.generic else None
    for segment in reference.lan.segments:
        why = vlan_cases.LEFT_TO_LINUX.get(segment, generic)
        if why is not None:
            assert segment.device not in devices, f"{segment.device} is Linux's: {devices[segment.device]}"
            assert why in left.get(segment.device, ""), f"{segment.device} should be listed with the reason ({why}): {left}"
            continue
        wanted = {"port": f"r{segment.link}", "state": "up", "mtu": segment.mtu,
                  "tags": [f"{kind:#06x} {vid}" for kind, vid in segment.tags],
                  "mac": reference.lan.router_mac(segment)}
        found = {key: devices.get(segment.device, {}).get(key) for key in wanted}
        assert found == wanted, f"{segment.device}: {found}, not {wanted}"
    text = net.router.exec(net.bora.program, "show", "vlans").stdout
    missing = [name for name in [*devices, *left] if name not in text]
    assert not missing, f"the table lacks {missing}:\n{text}"
    return {"devices": len(devices), "left_to_linux": left}


def restarted(reference):
    """Linux forwards after kill -9; a new Bora finds the VLAN devices and forwards by them."""
    net = reference.net
    cases = [case for case in reference.cases if case.by == "bora" and case.short]
    net.bora.kill()
    bora, net.bora = net.bora, None
    try:
        kept = {case.name: reference.frames[case.name] for case in cases}
        for case in cases:
            same(reference, case)
        reference.frames.update(kept)
    finally:
        net.bora = bora
    start_again(net)
    return [same(reference, case) for case in cases]


def start_again(net):
    """Starts a Bora that was killed."""
    net.bora.start()
    net.wait_for_links()
    net.settle()
    net.wait_until_forwarding()


def as_port(reference):
    """A VLAN device that is itself a port of Bora."""
    net = reference.net
    ports = net.bora.ports
    net.bora.kill()
    net.bora.ports = [*ports, A.device]
    try:
        start_again(net)
        left = {one["name"]: one["why"] for one in net.bora.show("vlans")["left_to_linux"]}
        assert "port itself" in left.get(A.device, ""), left
        case = next(case for case in reference.cases if case.name == "VLANs of one trunk")
        return same(reference, dataclasses.replace(case, by=""))
    finally:
        net.bora.kill()
        net.bora.ports = ports
        start_again(net)


# Real stacks.


class Pair:
    """Two stations, as `vm.bulk` wants a network."""

    def __init__(self, lan, *segments):
        self.lan, self.segments = lan, segments

    def host(self, end):
        return self.lan.stations[self.segments[end]]

    def __getattr__(self, name):
        """host4(end), host6(end), router4(end), router6(end)."""
        return lambda end: getattr(self.segments[end], name)


def tcp(lan, seconds):
    """Ping and TCP between Linux hosts with VLAN devices of their own: on one trunk, and on two."""
    detail = {}
    for segment in (A, B, C):
        lan.awake(segment)
    try:
        for name, pair, family in (("one trunk", Pair(lan, A, B), 4), ("two trunks", Pair(lan, A, C), 6)):
            bulk.pings(pair)
            for link in (0, 1):
                detail[f"{name}, from end {link}"] = bulk.tcp(pair, family if link == 0 else 10 - family, seconds, link)
    finally:
        for segment in (A, B, C):
            lan.asleep(segment)
    return detail


# A VLAN device that gets another id.


class Sender(threading.Thread):
    """Sends to and from a VLAN device's network, with the device's old id and its new one, until the end of the block."""

    def __init__(self, lan, old, new):
        super().__init__(daemon=True)
        self.lan, self.old, self.new = lan, old, new
        self._end = threading.Event()
        there = packets.udp4(lan.behind(4, B), lan.behind(4, old))
        self.frames = [(B, lan.frame(there, B)), *((one, lan.frame(lan.udp(4, one, B, sport=one.tags[0][1]), one))
                                                   for one in (old, new))]

    def run(self):
        while not self._end.wait(STREAM_PAUSE):
            for segment, frame in self.frames:
                self.lan.send("band", segment, frame)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *what):
        self._end.set()
        self.join(5)


def recreated(reference):
    """A VLAN device is deleted and made again with another id under traffic: the old id is dead, the new one works."""
    net, lan = reference.net, reference.lan
    old, new = (Segment("r0.150", 30, 0, ((CTAG, vid),)) for vid in (150, 151))

    def make(segment):
        net.router.batch([*lan.adding(segment), *lan.configuring(segment)])

    def remove():
        net.router.ip("link", "del", old.device, check=False)

    net.later(remove)
    make(old)
    with Sender(lan, old, new):
        _wait_for_id(lan, old)
        remove()
        _until(lan, lambda seen: seen == set(), "nothing, as the device is gone")
        make(new)
        _wait_for_id(lan, new)
        if net.bora is not None and not reference.generic:
            net.bora.wait_in_sync(FOLLOW_SECONDS)
            device = next(one for one in net.bora.show("vlans")["devices"] if one["name"] == new.device)
            assert device["tags"] == ["0x8100 151"], device
            assert device["rx_packets"] and device["tx_packets"], f"Linux forwards: {device}"


def _wait_for_id(lan, segment):
    """Only this segment's packets come out, and packets for its network have its id."""
    vid = segment.tags[0][1]
    _until(lan, lambda seen: seen == {("in", vid), ("out", vid)}, f"only VLAN {vid}")


def _until(lan, good, what):
    """Waits until what comes out is `good` for STREAM_SECONDS: ("in", id that it came in by), ("out", id that it went out by)."""
    deadline = time.monotonic() + FOLLOW_SECONDS
    while not good(seen := _seen(lan)):
        assert time.monotonic() < deadline, f"after {FOLLOW_SECONDS} s: {seen}, not {what}"


def _seen(lan):
    for port in lan.net.hosts:
        port.drain()
    time.sleep(STREAM_SECONDS)
    seen = set()
    while (frame := lan.net.hosts[0].receive_now()) is not None:
        (_, tci), *_ = untag(frame)[0] or [(0, 0)]
        if _what(untag(frame)[1]) != "IPv4 UDP":
            continue
        if tci & 0xFFF == B.tags[0][1]:
            seen.add(("in", int.from_bytes(untag(frame)[1][34:36], "big")))
        else:
            seen.add(("out", tci & 0xFFF))
    return seen
