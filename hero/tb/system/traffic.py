"""Frames for the system's benches: good ones, bad ones, and random mixes. Each frame is unique."""

import itertools
import os
import random

from golden.frames import ARP, IPV4, IPV6, ethernet, ip, ip6, ipv4, ipv6, stamp, vlan

SENDER = bytes.fromhex("0200000000aa")
OUTSIDE = 9  # 10.9.0.0/16 is routed by no card
SIZES = (60, 61, 63, 64, 65, 67, 68, 71, 72, 128, 252, 511, 512, 513, 1024, 1513, 1514)


def network6(card):
    """The network of IPv6 behind a card, a /48."""
    return ip6(f"2001:db8:{card}::")


def own_mac(card):
    """The MAC address that the bench gives a card."""
    return bytes([2, 0, 0, 0, 0, card + 1])


class Traffic:
    """`rng`: of the test, so that a seed gives the same run. With routes of IPv6, half of any frames are of IPv6."""

    def __init__(self, seed=1):
        self.rng = random.Random(seed)
        self.ip6 = os.environ.get("HERO_ROUTES6", "0") != "0"
        self.serials = itertools.count(1)

    def size(self):
        """Octets of a frame: the corners often, anything else otherwise."""
        return self.rng.choice(SIZES) if self.rng.random() < 0.5 else self.rng.randrange(60, 1515)

    def payload(self, octets):
        return self.rng.randbytes(octets)

    def routed(self, card, to, size=None, mac=None, src="192.0.2.1", **fields):
        """An IPv4 frame for the router behind `card`, to the network of card `to`."""
        size = size or self.size()
        options = fields.get("options", b"")
        packet = ipv4(ip(f"10.{to}.0.9"), ip(src), payload=self.payload(max(0, size - 34 - len(options))), **fields)
        return stamp(ethernet(mac or own_mac(card), SENDER, IPV4, packet), next(self.serials))

    def routed6(self, card, to, size=None, mac=None, src="2001:db8:99::1", dst=None, **fields):
        """An IPv6 frame for the router behind `card`, to the network of card `to`, or to `dst`."""
        dst = network6(to) | self.rng.getrandbits(80) if dst is None else ip6(dst)
        packet = ipv6(dst, ip6(src), payload=self.payload((size or self.size()) - 54), **fields)
        return stamp(ethernet(mac or own_mac(card), SENDER, IPV6, packet), next(self.serials))

    def plain(self, size=None, mac=b"\xff" * 6, ethertype=ARP):
        """A frame that is not IPv4."""
        return stamp(ethernet(mac, SENDER, ethertype, self.payload((size or self.size()) - 14)), next(self.serials))

    def from_host(self, size=None):
        """A frame for the driver to send."""
        size = size or self.rng.choice((14, 15, 30, 59, self.size(), 1518))
        return stamp(self.payload(size), next(self.serials))

    def any(self, card, cards, bad=0.2, slow=0.3):
        """Arguments for `Line.send`: a frame of any kind. `bad`, `slow`: how often."""
        dice = self.rng.random()
        if dice < bad:
            return self.bad(card)
        if dice < bad + slow:
            return self.slow(card)
        tos = self.rng.choice((0, 0, 0xB8))
        if self.ip6 and self.rng.random() < 0.5:
            to = self.rng.choice([k for k in cards if k != card])
            return {"frame": self.routed6(card, to, traffic_class=tos, hop_limit=self.rng.choice((2, 64, 255)))}
        return {"frame": self.routed(card, self.rng.choice([k for k in cards if k != card]), tos=tos, ttl=self.rng.choice((2, 64, 255)))}

    def slow(self, card):
        """A good frame for the host."""
        to = (card + 1) % 4
        if self.ip6 and self.rng.random() < 0.5:
            return {"frame": self.slow6(card, to)}
        kind = self.rng.randrange(7)
        frame = (
            lambda: self.routed(card, OUTSIDE, tos=self.rng.choice((0, 0xB8))),
            lambda: self.routed(card, to, ttl=self.rng.randrange(2)),
            lambda: self.routed(card, to, size=self.rng.randrange(100, 1500), options=bytes([1]) * 4 * self.rng.randrange(1, 11)),
            lambda: self.plain(),
            lambda: vlan(self.rng.randrange(4096), self.routed(card, to)),
            lambda: self.routed(card, to, mac=b"\xff" * 6),
            lambda: self.routed(card, card),
        )[kind]()
        return {"frame": frame}

    def slow6(self, card, to):
        """A frame of IPv6, or nearly, for the host."""
        special = self.rng.choice(("::", "::1", "::ffff:192.0.2.1", "fe80::1", "ff02::1", "ff0e::1"))
        fields = self.rng.choice((
            {"to": OUTSIDE, "traffic_class": self.rng.choice((0, 0xB8))}, {"hop_limit": self.rng.randrange(2)}, {"next_header": 0},
            {"mac": b"\x33\x33\0\0\0\1"}, {"to": card}, {"src": special}, {"dst": special},
            {"version": self.rng.choice((0, 4, 7, 14))}, {"length": self.rng.randrange(1461, 65536)}))
        return self.routed6(card, fields.pop("to", to), **fields)

    def bad(self, card):
        """A frame that must be dropped."""
        kind = self.rng.randrange(6)
        to = (card + 1) % 4
        good = self.routed6(card, to) if self.ip6 and self.rng.random() < 0.5 else self.routed(card, to)
        return (
            lambda: {"frame": good, "bad_fcs": True},
            lambda: {"frame": good, "error_at": self.rng.randrange(8, len(good) + 12)},
            lambda: {"frame": good[: self.rng.randrange(1, 60)]},
            lambda: {"frame": self.routed(card, to, size=self.rng.randrange(1515, 2000))},
            lambda: {"frame": self.routed(card, to, error=self.rng.randrange(1, 0xFFFF))},
            lambda: {"frame": self.routed(card, to, mac=bytes.fromhex("0200000000ee"))},
        )[kind]()
