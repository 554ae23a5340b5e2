"""Steps of a soak that are about neighbours: hosts whose Ethernet address changes, routers that advertise themselves."""

import json
import time

from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_RA, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether

from lib import packets
from lib.port import wait_readable
from lib.waiting import until

OLD, NEW = "02:bc:00:00:00:77", "02:bc:00:00:00:88"
PROBE_SECONDS = 1  # until Linux probes a neighbour that is used and was not confirmed
FOUND_SECONDS = 20  # Linux needs six, Bora one more; the rest is for a busy machine
ROUTER_LIFETIME = 600
LOW, HIGH = 3, 1  # RFC 4191, section 2.1


def neighbours(stage, rng):
    """Neighbours get other Ethernet addresses by hand, and come back."""
    net, link = stage.net, rng.choice((1, 2))
    for _ in range(rng.randrange(1, 20)):
        other = f"02:bc:00:{rng.randrange(256):02x}:{rng.randrange(256):02x}:99"
        for address in (net.host4(link), net.host6(link)) if link == 2 else (f"10.0.1.{rng.randrange(9, 250)}",):
            net.router.ip("neighbour", "replace", address, "lladdr", other, "dev", f"r{link}")
        stage.count("neighbour changes")
    yield
    net.configure_link(2)
    net.router.ip("neighbour", "flush", "dev", "r1", "nud", "stale", check=False)


def moved_host(stage, rng):
    """A host on link has another Ethernet address than Linux believes: packets to it make Linux ask, and reach it."""
    yield
    net, six = stage.net, rng.random() < 0.5
    address = f"2001:db8:1::{rng.randrange(0x100, 0xffff):x}" if six else f"10.0.1.{rng.randrange(9, 250)}"
    key = f"net/ipv{6 if six else 4}/neigh/r1/delay_first_probe_time"
    usual = net.router.get_sysctl(key)
    net.router.set_sysctl(key, PROBE_SECONDS)
    try:
        net.router.ip("neighbour", "replace", address, "lladdr", OLD, "dev", "r1", "nud", "stale")
        packet = (packets.udp6(net.behind6(0), address) if six else packets.udp4(net.behind4(0), address))
        _send_until_found(net, address, packet)
    finally:
        net.router.set_sysctl(key, usual)
    net.router.ip("neighbour", "del", address, "dev", "r1")
    stage.count("hosts found at another Ethernet address")


def _send_until_found(net, address, packet):
    """Plays the host: it does not get what is for the old address, answers what asks all, and in the end gets the packet."""
    deadline = time.monotonic() + FOUND_SECONDS
    new, old = packets.mac(NEW), packets.mac(OLD)
    while time.monotonic() < deadline:
        net.hosts[0].send(net.frame(packet))
        turn = time.monotonic() + 0.1
        while wait_readable(net.hosts[1:2], max(0.0, turn - time.monotonic())):
            frame = net.hosts[1].receive_now()
            if frame is not None and frame.startswith(new):
                return
            answer = _answer(address, frame) if frame is not None and not frame.startswith(old) else None
            if answer is not None:
                net.hosts[1].send(answer)
    raise AssertionError(f"{address} was not found within {FOUND_SECONDS} s: {net.router.ip('neighbour', 'show', address).stdout}")


def _answer(address, frame):
    """The answer to an ARP request or a neighbour solicitation for the address, or None."""
    asked = Ether(frame)
    if ARP in asked and asked[ARP].op == 1 and asked[ARP].pdst == address:
        return bytes(Ether(dst=asked.src, src=NEW) / ARP(op=2, hwsrc=NEW, psrc=address, hwdst=asked.src, pdst=asked[ARP].psrc))
    if asked.haslayer("ICMPv6ND_NS") and asked["ICMPv6ND_NS"].tgt == address:
        return bytes(Ether(dst=asked.src, src=NEW) / IPv6(src=address, dst=asked[IPv6].src, hlim=255)
                     / ICMPv6ND_NA(tgt=address, R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=NEW))
    return None


def advertisements(stage, rng):
    """Routers on two links advertise themselves, one with a high preference, and withdraw in some order."""
    net = stage.net
    links = rng.sample((1, 2), 2)
    for link in links:
        net.router.set_sysctl(f"net/ipv6/conf/r{link}/accept_ra", 2)
    yield
    try:
        for link, preference in zip(links, (HIGH, LOW)):
            net.hosts[link].send(_advertisement(net, link, preference, ROUTER_LIFETIME))
        until("two default routes", lambda: _defaults(net) == {f"r{link}" for link in links}, lambda: _defaults(net), seconds=10)
        for link in (links[0], links[1]):  # the preferred one goes first
            net.bora.wait_in_sync(10)
            until(f"unknown addresses by r{link}", lambda: stage.leaves_by("2001:db8:beef::/48", link), seconds=5)
            net.hosts[link].send(_advertisement(net, link, HIGH, 0))
            until(f"no default route by r{link}", lambda: f"r{link}" not in _defaults(net), seconds=10)
    finally:
        for link in links:
            net.router.set_sysctl(f"net/ipv6/conf/r{link}/accept_ra", 0)
        net.router.ip("-6", "route", "flush", "default", check=False)
    stage.count("routers advertised and withdrawn", 2)


def _advertisement(net, link, preference, lifetime):
    mac = net.host_mac(link)
    return bytes(Ether(dst="33:33:00:00:00:01", src=mac) / IPv6(src=net.link_local(mac), dst="ff02::1", hlim=255)
                 / ICMPv6ND_RA(chlim=0, prf=preference, routerlifetime=lifetime) / ICMPv6NDOptSrcLLAddr(lladdr=mac))


def _defaults(net):
    return {route["dev"] for route in json.loads(net.router.ip("-6", "-j", "route", "show", "default").stdout or "[]")}
