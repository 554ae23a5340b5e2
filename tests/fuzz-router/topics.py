"""What configurations are about. A topic makes a few commands; they may fail, if they fail alike on both routers."""

import collections

import pools
from pools import Device

Topic = collections.namedtuple("Topic", "make weight needs always hooks")
Shape = collections.namedtuple("Shape", "make needs often")
TOPICS, SHAPES = [], []
SYSCTLS = {
    "net.ipv4.ip_forward": 1, "net.ipv6.conf.all.forwarding": 1, "net.ipv4.fib_multipath_hash_policy": 0, "net.ipv6.fib_multipath_hash_policy": 0,
    "net.ipv4.conf.all.rp_filter": 0, "net.ipv4.conf.all.send_redirects": 1, "net.ipv4.conf.all.accept_local": 0,
    "net.ipv4.ip_forward_update_priority": 1, "net.ipv6.conf.all.proxy_ndp": 0, "net.ipv4.conf.all.proxy_arp": 0,
    "net.ipv4.fwmark_reflect": 0, "net.ipv4.icmp_errors_use_inbound_ifaddr": 0, "net.ipv4.icmp_echo_ignore_all": 0, "net.ipv4.ip_default_ttl": 64,
    "net.ipv4.conf.all.src_valid_mark": 0, "net.ipv4.fib_multipath_hash_fields": 7, "net.ipv6.fib_multipath_hash_fields": 7,
    "net.ipv6.icmp.echo_ignore_all": 0, "net.ipv4.ip_forward_use_pmtu": 0,
}
SYSCTL_VALUES = {
    "net.ipv4.fib_multipath_hash_policy": (0, 1, 2, 3), "net.ipv6.fib_multipath_hash_policy": (0, 1, 2, 3), "net.ipv4.conf.all.rp_filter": (0, 1, 2),
    "net.ipv4.fib_multipath_hash_fields": (1, 7, 55, 51), "net.ipv6.fib_multipath_hash_fields": (1, 7, 15, 55), "net.ipv4.ip_default_ttl": (64, 32),
}
PORT_SYSCTLS = {
    "ipv4.conf.{}.forwarding": 1, "ipv4.conf.{}.rp_filter": 0, "ipv4.conf.{}.send_redirects": 1, "ipv4.conf.{}.accept_local": 0,
    "ipv4.conf.{}.ignore_routes_with_linkdown": 0, "ipv6.conf.{}.ignore_routes_with_linkdown": 0, "ipv6.conf.{}.disable_ipv6": 0,
    "ipv6.conf.{}.forwarding": 1, "ipv6.conf.{}.mtu": 1500, "ipv4.conf.{}.proxy_arp": 0, "ipv6.conf.{}.proxy_ndp": 0, "ipv4.conf.{}.route_localnet": 0,
    "ipv4.conf.{}.accept_source_route": 0, "ipv4.conf.{}.disable_policy": 0, "ipv4.conf.{}.bc_forwarding": 0, "ipv4.conf.{}.shared_media": 1,
    "ipv4.conf.{}.src_valid_mark": 0, "ipv6.conf.{}.keep_addr_on_down": 0, "ipv6.conf.{}.accept_ra": 1, "ipv6.conf.{}.accept_ra_rt_info_max_plen": 0,
}
PORT_VALUES = {"ipv6.conf.{}.accept_ra": (1, 2), "ipv6.conf.{}.accept_ra_rt_info_max_plen": (0, 128), "ipv4.conf.{}.rp_filter": (0, 1, 2), "ipv6.conf.{}.mtu": (1280, 1300, 1400, 1500)}


def topic(weight=1, needs="", always=False, hooks=False):
    """Adds a topic: function of a configuration to commands. `hooks`: Bora leaves the traffic to Linux where it is in force."""
    def add(make):
        TOPICS.append(Topic(make, weight, needs, always, hooks))
        return make
    return add


def shape(needs, often):
    """Adds a shape: a device more, before the first commands."""
    def add(make):
        SHAPES.append(Shape(make, needs, often))
        return make
    return add


# Devices.


@shape("bridge", 0.3)
def bridge(c):
    c.first += ["ip link add br0 address 02:bc:00:00:00:2f type bridge stp_state 0 mcast_snooping 0 forward_delay 0",
                "ip link set r2 master br0", "ip link set r3 master br0", "ip link set br0 up"]
    c.devices[2:4] = [Device("br0", 2, 2, "02:bc:00:00:00:2f"), Device("br0", 2, 3, "02:bc:00:00:00:2f")]


@shape("macvlan", 0.1)
def macvlan(c):
    mode = c.rng.choice(("bridge", "private", "vepa"))
    c.first += [f"ip link add mv0 link r1 address 02:bc:00:00:00:2e type macvlan mode {mode}", "ip link set mv0 up"]
    c.devices.append(Device("mv0", 5, 1, "02:bc:00:00:00:2e"))


@shape("vlan", 0.2)
def vlan(c):
    c.first += ["ip link add r0.100 link r0 type vlan id 100", "ip link set r0.100 up",
                "ip link add r1.200 link r1 type vlan id 200 protocol 802.1ad", "ip link set r1.200 up"]
    c.devices += [Device("r0.100", 6, 0, c.devices[0].mac, ((0x8100, 100),)), Device("r1.200", 7, 1, c.devices[1].mac, ((0x88A8, 200),))]


@shape("vrf", 0.2)
def vrf(c):
    c.first += ["ip link add red type vrf table 102", "ip link set red up", "ip link set r3 master red"]
    c.tables.append(102)


@shape("dummy", 0.2)
def dummy(c):
    c.first += ["ip link add d0 type dummy", "ip link set d0 up", "ip address add 10.0.9.1/24 dev d0"]


@shape("bond", 0.15)
def bond(c):
    if c.devices[3].name == "r3":
        c.first += ["ip link add bond0 address 02:bc:00:00:00:23 type bond mode active-backup", "ip link set r3 down", "ip link set r3 master bond0",
                    "ip link set bond0 up"]
        c.devices[3] = Device("bond0", 3, 3, "02:bc:00:00:00:23")


@shape("ipip", 0.1)
def tunnel(c):
    c.first += ["ip link add t0 type ipip remote 10.0.1.2 local 10.0.1.1 ttl 64", "ip link set t0 up", "ip address add 10.0.10.1/32 dev t0",
                "ip -4 route replace 198.18.0.0/16 dev t0"]


@shape("gre", 0.1)
def gre(c):
    c.first += ["ip link add g0 type gre remote 10.0.2.2 local 10.0.2.1 ttl 64", "ip link set g0 up", "ip -4 route replace 198.18.7.0/24 dev g0"]


@shape("vxlan", 0.15)
def vxlan(c):
    c.tunnel = c.devices[1]
    c.first += ["ip link add vx0 type vxlan id 5 remote 10.0.1.2 local 10.0.1.1 dstport 4789", "ip link set vx0 address 02:bc:00:00:00:2d",
                "sysctl -w net.ipv6.conf.vx0.disable_ipv6=1", "ip link set vx0 up",
                "ip address add 10.0.8.1/24 dev vx0", "ip neigh add 10.0.8.2 lladdr 02:bc:00:00:00:77 dev vx0",
                "ip -4 route replace 198.18.0.0/16 via 10.0.8.2 dev vx0"]


# Routes.


def gateway(c, family):
    """A gateway and its device: mostly a host that is there."""
    device = c.device()
    last = c.rng.choice((2, 2, 3, 3, 4, 5, 1)) if c.rng.random() < 0.95 else 200
    if family == 6 and c.rng.random() < 0.2:
        return f"fe80::{last:x}", device
    return device.address(family, last), device


def hop(c, family):
    """via and dev of a path."""
    via, device = gateway(c, family)
    roll = c.rng.random()
    if roll < 0.1:
        return f"dev {device.name}"
    if roll < 0.18 and family == 4 and "via inet6" in c.features:
        return f"via inet6 {device.address(6, 2)} dev {device.name}"
    if roll < 0.25:
        odd = f"172.16.0.{c.rng.choice((5, 9))}" if family == 4 else f"2001:db8:ffff::{c.rng.choice((5, 9))}"
        return f"via {odd} dev {device.name} onlink"
    return f"via {via} dev {device.name}"


def attributes(c, family):
    """What may follow a destination."""
    rng, made = c.rng, ""
    if rng.random() < 0.3:
        made += f" metric {rng.choice((1, 10, 100, 1024, 4096))}"
    if rng.random() < 0.3:
        made += f" table {c.table()}"
    if family == 4 and rng.random() < 0.1:
        made += f" tos {rng.choice(('0x08', '0x10', '0x04', '0x1c'))}"
    if rng.random() < 0.1:
        made += f" mtu {rng.choice(('lock ', ''))}{rng.choice((600, 1280, 1300, 1400, 1492, 2000))}"
    if rng.random() < 0.08:
        made += f" src {c.device().address(family, 1)}"
    if family == 6 and rng.random() < 0.05:
        made += f" pref {rng.choice(('low', 'medium', 'high'))}"
    if family == 6 and rng.random() < 0.04 and "subtrees" in c.features:
        made += f" from {rng.choice((c.device().behind(6), c.prefix(6)))}"
    if rng.random() < 0.05:
        made += f" proto {rng.choice(('static', 'bird', '77'))}"
    return made


def paths(c, family, count):
    """Several paths."""
    seed = "hash seed" in c.features
    return "".join(f" nexthop {hop(c, family)} weight {c.rng.choice((1, 1, 1, 2, 5, 200))}" for _ in range(count)) if seed else f" {hop(c, family)}"


@topic(weight=6, always=True)
def route(c):
    rng, family = c.rng, c.family()
    verb = rng.choice(("add", "replace", "replace", "append", "prepend", "change"))
    what, more = c.prefix(family), attributes(c, family)
    roll = rng.random()
    if roll < 0.15:
        kind = rng.choice(("blackhole", "unreachable", "prohibit", "throw"))
        return [f"ip -{family} route {verb} {kind} {what}{more}"]
    if roll < 0.18:
        kind = rng.choice(("local", "broadcast", "multicast", "anycast") if family == 4 else ("local", "anycast", "multicast"))
        return [f"ip -{family} route {verb} {kind} {what} dev {rng.choice((c.device().name, 'lo'))}{more}"]
    if roll < 0.32:
        return [f"ip -{family} route {verb} {what}{more}{paths(c, family, rng.randrange(2, 5))}"]
    if roll < 0.42 and "nexthop" in c.features:
        return [f"ip -{family} route {verb} {what}{more} nhid {rng.choice(NEXT_HOPS[family] + GROUPS[family])}"]
    return [f"ip -{family} route {verb} {what} {hop(c, family)}{more}"]


@topic(weight=3, always=True)
def fewer_routes(c):
    rng, family = c.rng, c.family()
    roll = rng.random()
    if roll < 0.1:
        return [f"ip -{family} route flush table {rng.choice((100, 101))}"]
    if roll < 0.15:
        return [f"ip -{family} route flush proto {rng.choice(('bird', '77'))}"]
    if roll < 0.25:
        device = c.device()
        return [f"ip -{family} route del {device.behind(family)}"]
    return [f"ip -{family} route del {c.prefix(family)}" + (f" table {c.table()}" if rng.random() < 0.3 else "")]


ENCAPSULATIONS = {4: (("mpls 100/200", "mpls"), ("seg6 mode encap segs 2001:db8:b1::7", "seg6")),
                  6: (("mpls 300", "mpls"), ("seg6 mode encap segs 2001:db8:b1::7,2001:db8:b2::9", "seg6"))}  # with what a kernel needs for them
NEXT_HOPS, GROUPS = {4: (1, 2, 3, 4), 6: (5, 6, 7, 8)}, {4: (9, 10), 6: (11, 12)}


@topic(weight=3, needs="nexthop")
def next_hop(c):
    rng, family = c.rng, c.family()
    roll, number = rng.random(), rng.choice(NEXT_HOPS[family])
    if roll < 0.12:
        return [f"ip nexthop del id {rng.randrange(1, 13)}"]
    if roll < 0.17:
        return [f"ip -{family} nexthop replace id {number} blackhole"]
    if roll < 0.55 and "hash seed" in c.features:
        members = rng.sample(NEXT_HOPS[family], rng.randrange(1, 4))
        group = "/".join(f"{member},{rng.choice((1, 1, 2, 7, 100))}" for member in members)
        kind = " type resilient buckets 8 idle_timer 0" if "resilient" in c.features and rng.random() < 0.3 else ""
        number = rng.choice(GROUPS[family])
        return [f"ip nexthop replace id {number} group {group}{kind}", f"ip -{family} route replace {c.prefix(family)} nhid {number}"][:rng.randrange(1, 3)]
    if roll < 0.6:
        return [f"ip -{family} nexthop replace id {number} dev {c.device().name}"]
    around = rng.choice(ENCAPSULATIONS[family]) if rng.random() < 0.12 else ("", "nexthop")
    device = c.device()
    path = f" encap {around[0]} via {device.address(family, 2)} dev {device.name}" if around[0] and around[1] in c.features else f" {hop(c, family)}"
    return [f"ip -{family} nexthop replace id {number}{path}", f"ip -{family} route replace {c.prefix(family)} nhid {number}"][:rng.randrange(1, 3)]


@topic(needs="seg6")
def encapsulation(c):
    rng = c.rng
    choices = [f"ip -6 route replace {c.prefix(6)} encap seg6 mode {mode} segs 2001:db8:b1::7,2001:db8:b2::9 dev {c.device().name}"
               for mode in ("encap", "inline")]
    choices += [f"ip -4 route replace {c.prefix(4)} encap seg6 mode encap segs 2001:db8:b1::7 via {c.device().address(4, 2)}"]
    if "seg6local" in c.features:
        choices += [f"ip -6 route replace {c.prefix(6)} encap seg6local action End dev {c.device().name}",
                    f"ip -6 route replace {c.prefix(6)} encap seg6local action End.X nh6 {c.device().address(6, 2)} dev {c.device().name}"]
    if "mpls" in c.features:
        choices += [f"ip -4 route replace {c.prefix(4)} encap mpls 100/200 via {c.device().address(4, 2)}"]
    if "encap ip" in c.features:
        device = c.device()
        choices += [f"ip -4 route replace {c.prefix(4)} encap ip id 3 dst 10.0.1.9 via {device.address(4, 2)} dev {device.name}"]
    return [rng.choice(choices)]
