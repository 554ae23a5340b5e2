"""The addresses that configurations and packets are made of. Few, so that routes meet packets, and routes meet routes."""

import dataclasses
import ipaddress

PREFIXES = {
    4: ["default", "198.18.0.0/15", "198.18.0.0/16", "198.18.128.0/17", "198.18.7.0/24", "198.18.7.128/25", "198.18.7.8/30", "198.18.7.9/32",
        "203.0.113.0/24", "203.0.113.64/26", "203.0.113.65/32", "192.0.2.0/24", "10.0.2.0/25", "10.0.1.7/32", "10.0.0.0/8", "10.103.0.0/16"],
    6: ["default", "2001:db8:f0::/44", "2001:db8:f0::/48", "2001:db8:f0:8000::/49", "2001:db8:f0:7::/64", "2001:db8:f0:7:8000::/65",
        "2001:db8:f0:7::8/126", "2001:db8:f0:7::9/128", "2001:db8:e0::/48", "2001:db8:e0:1::/65", "2001:db8:e0:1::41/128",
        "2001:db8:2::/65", "2001:db8:1::7/128", "2000::/3", "2001:db8:b3::/48"],
}
ODD = {
    4: ["0.0.0.0", "127.0.0.1", "255.255.255.255", "224.0.0.1", "224.0.0.5", "239.1.1.1", "240.0.0.1", "169.254.1.1", "0.1.2.3", "10.0.1.255", "10.0.2.0"],
    6: ["::", "::1", "ff02::1", "ff02::2", "ff02::5", "ff05::2", "ff0e::1", "ff01::1", "fe80::9", "::ffff:198.18.7.9", "::198.18.7.9", "2002:c612:709::1",
        "fec0::9", "fc00::9", "2001:db8:1::", "64:ff9b::198.18.7.9"],
}
TABLES = (100, 101, 254)


@dataclasses.dataclass(frozen=True)
class Device:
    """An interface of the routers with addresses 10.0.NUMBER.1/24 and 2001:db8:NUMBER::1/64. Packets reach it by a link,
    with tags (VLANs), at a MAC."""

    name: str
    number: int
    link: int
    mac: str
    tags: tuple = ()

    def address(self, family, last):
        """The address of this octet on its network."""
        return f"10.0.{self.number}.{last}" if family == 4 else f"2001:db8:{self.number:x}::{last:x}"

    def behind(self, family):
        """The network behind its host 2."""
        return f"10.{100 + self.number}.0.0/16" if family == 4 else f"2001:db8:b{self.number:x}::/48"

    def addressing(self, table=""):
        """Commands: its addresses, and the routes to what is behind it."""
        lines = []
        for family in (4, 6):
            length, nodad = (24, "") if family == 4 else (64, " nodad")
            lines += [f"ip address replace {self.address(family, 1)}/{length} dev {self.name}{nodad}",
                      f"ip -{family} route replace {self.behind(family)} via {self.address(family, 2)} dev {self.name}{table}"]
        return lines


def network(prefix, family):
    """A prefix of the pools as an object."""
    return ipaddress.ip_network({"default": "0.0.0.0/0" if family == 4 else "::/0"}.get(prefix, prefix))


def around(rng, prefix, family):
    """An address at a border of a prefix, beside it, or in it."""
    net = network(prefix, family)
    first, last, top = int(net[0]), int(net[-1]), 2 ** net.max_prefixlen - 1
    number = rng.choice((first, last, first + 1, last - 1, first - 1, last + 1, rng.randint(first, last), rng.randint(first, last)))
    return ipaddress.ip_address(min(max(number, 0), top).to_bytes(net.max_prefixlen // 8, "big"))


def inside(rng, prefix, family):
    """A random address of a prefix; no router has its last octet."""
    net = network(prefix, family)
    number = int(net[0]) + rng.randrange(1 << 12, net.num_addresses) if net.num_addresses > 1 << 13 else int(net[0])
    return ipaddress.ip_address((number & ~0xFF | rng.randrange(2, 250)).to_bytes(net.max_prefixlen // 8, "big"))
