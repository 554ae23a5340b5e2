"""Runs in a guest: flows of a flowtable by VLAN devices and bonds. Bora sends the frames that Linux alone sends, and forwards what it can find.

    h0 ==== r0 [router] r1 ==== h1        10.0.0.0/24 on r0, 10.0.1.0/24 on bond0, 10.0.100.0/24 on bond0.100, 10.0.101.0/24 on r0.101,
                        r2 ==== h2        10.0.102.0/24 on bond0.102, which has an egress-qos-map
    The same with 2001:db8:N::/64; r1 and r2 are ports of bond0.
"""

import functools

from lib import packets
from vm import flow_cases, flows, topic_guest
from vm.bond_guest import BOND_MAC, FAR, VLAN, Lan
from vm.topic_guest import HOST, ROUTER, addressing, differences, tagged

COUNT = 6  # flows of each family
TRUNK_VLAN, QOS_VLAN = 101, 102
TOS = 0x10  # Linux's chains give it a priority; its flowtable does not


class Place:
    """Where an end of flows is: behind a device of the router, on some links."""

    def __init__(self, device, number, links, mac, neighbour, vlan=0):
        self.device, self.number, self.links, self.mac, self.neighbour, self.vlan = device, number, links, mac, neighbour, vlan

    def host(self, family, flow):
        return f"198.{18 + self.number}.1.{flow + 1}" if family == 4 else f"2001:db8:f{self.number}::{flow + 1:x}"

    def router(self, family):
        return f"10.0.{self.number}.1" if family == 4 else f"2001:db8:{self.number}::1"

    def send(self, packet, flow):
        """(link, frame): by the links in turn."""
        return self.links[flow % len(self.links)], tagged(packets.ethernet(self.mac, self.neighbour, packet), self.vlan)


PLAIN = Place("r0", 0, (0,), ROUTER.format(0), HOST.format(0))
BOND = Place("bond0", 1, (1, 2), BOND_MAC, FAR)
ON_BOND = Place(f"bond0.{VLAN}", VLAN, (1, 2), BOND_MAC, FAR, VLAN)
ON_PORT = Place(f"r0.{TRUNK_VLAN}", TRUNK_VLAN, (0,), ROUTER.format(0), HOST.format(0), TRUNK_VLAN)
QOS = Place(f"bond0.{QOS_VLAN}", QOS_VLAN, (1, 2), BOND_MAC, FAR, QOS_VLAN)

# Client, server, devices of the flowtable, and which directions go by the flow: to the server, to the client.
CASES = (
    (PLAIN, BOND, "r0, bond0", (True, True)),
    (BOND, PLAIN, "r0, bond0", (True, True)),
    (PLAIN, BOND, "r0, bond0, r1, r2", (True, True)),
    (BOND, PLAIN, "r0, bond0, r1, r2", (True, True)),
    (PLAIN, ON_BOND, f"r0, bond0, r1, r2, bond0.{VLAN}", (True, True)),
    (PLAIN, ON_BOND, f"r0, bond0.{VLAN}", (True, True)),
    (PLAIN, ON_BOND, f"r0, bond0, bond0.{VLAN}", (True, True)),
    (PLAIN, ON_PORT, f"r0, r0.{TRUNK_VLAN}", (True, True)),
    (PLAIN, ON_PORT, f"r0.{TRUNK_VLAN}, r1", (False, True)),
    (ON_PORT, BOND, f"r0, r0.{TRUNK_VLAN}, bond0", (True, True)),
    (PLAIN, QOS, f"r0, {QOS.device}", (True, True)),
)
SHORT = (2, 3, 6, 7)
ALONE = (5, 8, 10)  # those with a VLAN device without what is below it, for which not every kernel makes flows


def add_vlans(lan):
    """The VLAN device on r0, and the one with priorities."""
    lan.router.batch([f"link add link r0 name {ON_PORT.device} type vlan id {TRUNK_VLAN}", f"link set {ON_PORT.device} up",
                      *addressing(ON_PORT.device, TRUNK_VLAN, HOST.format(0)),
                      f"link add link bond0 name {QOS.device} type vlan id {QOS_VLAN} egress-qos-map 0:2 6:5", f"link set {QOS.device} up",
                      *addressing(QOS.device, QOS_VLAN, FAR)])


@functools.cache
def sends(client, server, nat, to_server):
    """Frames of all flows in one direction, the same ones each time."""
    made = []
    for family, udp in ((4, functools.partial(packets.udp4, tos=TOS)), (6, functools.partial(packets.udp6, tc=TOS))):
        for flow in range(COUNT):
            port = 3000 + flow
            if to_server:
                packet = udp(client.host(family, flow), server.host(family, flow), sport=port, dport=53)
                made.append(client.send(packet, flow))
            else:
                target = server.router(family) if nat else client.host(family, flow)
                packet = udp(server.host(family, flow), target, sport=53, dport=port)
                made.append(server.send(packet, flow))
    return made


def play(lan, case, nat):
    """What comes out: each direction twice, and how many packets of the second time went by flows; None if Linux has made none: kernels differ."""
    client, server, devices, _ = case
    rule = f'chain nat {{ type nat hook postrouting priority 100; oifname "{server.device}" masquerade; }}' if nat else ""
    flows.clean(lan)
    lan.router.exec("nft", "-f", "-", input=flow_cases.rules(rule, devices=devices))
    if lan.bora:
        lan.bora.wait_in_sync(topic_guest.FOLLOW_SECONDS)
        lan.wait("flows are forwarded", lambda: lan.bora.show("sync")["flows"]["forwards"] is True)
    out = []
    for turn in range(2):
        none = turn and "[OFFLOAD]" not in lan.router.exec("cat", "/proc/net/nf_conntrack").stdout
        for way in (True, False):
            before = flows.by_flows(lan)
            got = lan.exchange(sends(client, server, nat, way), 2 * COUNT)
            out.append((got, None if none else flows.by_flows(lan) - before if turn else 0))
    return out


def body(how, say):
    """All cases, or a few."""
    lan = Lan("balance-xor", "layer3+4")
    cases = [CASES[number] for number in SHORT] if how == "short" else CASES
    failed = []
    try:
        add_vlans(lan)
        flows.take_time(lan.router)
        runs = [(case, nat) for case in cases for nat in ((True,) if how == "short" else (False, True))]
        wanted = [play(lan, *run) for run in runs]
        for run, got in zip(runs, wanted):
            assert all(len(frames) == 2 * COUNT for frames, _ in got), f"Linux alone, {run[0][2]}: {[len(frames) for frames, _ in got]}"
        for tier in ("express",) if how == "short" else ("express", "engine"):
            flows.clean(lan)
            lan.start(tier)
            for (case, nat), linux in zip(runs, wanted):
                name = f"{tier}: {case[0].device} to {case[1].device}, flowtable of {case[2]}{', masquerade' if nat else ''}"
                try:
                    compare(lan, case, linux, play(lan, case, nat))
                    say(f"{name}: as with Linux")
                except AssertionError as error:
                    failed.append(name)
                    say(f"{name}: FAILED: {error}")
            lan.kill()
    finally:
        lan.close()
    assert not failed, failed


def compare(lan, case, linux, bora):
    """The frames are the same, and the flow path forwarded what it can."""
    for turn, ((wanted, made), (got, by_flow)) in enumerate(zip(linux, bora)):
        assert got == wanted, f"turn {turn}: {differences(wanted, got)}; {lan.bora.show('drops')}"
        expected = 2 * COUNT if turn >= 2 and case[3][turn - 2] else 0
        if made is None and case in [CASES[number] for number in ALONE]:
            expected = None
        assert by_flow == expected, f"turn {turn}: {by_flow} packets went by flows, {expected} should: {lan.bora.show('drops')}"
