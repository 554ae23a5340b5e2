"""Lives that are written down: each has what one chapter of a router's manual is about, and packets that must show it.

Each thing has a prefix of its own, so that nothing hides anything: 198.18.N.0/24 and 2001:db8:f0:N::/64. Random lives find what
things do together; these find each alone, soon.
"""

import random
import struct

import pools
import signalling
import traffic
from hosts import arp, mac_of
from pools import Device
from routers import LINKS, router_mac

DEVICES = [Device(f"r{link}", link, link, router_mac(link)) for link in range(LINKS)]
PREFIX = {4: "198.18.{}.0/24", 6: "2001:db8:f0:{:x}::/64"}
VIA = {4: ("10.0.1.2", "10.0.2.2", "10.0.3.2"), 6: ("2001:db8:1::2", "2001:db8:2::2", "2001:db8:3::2")}  # by r1, r2, r3
NOWHERE = {4: "172.20.0.0/16", 6: "2001:db8:aaaa::/48"}  # sources without a route, once the default routes are gone
DEAD = {4: ("10.0.1.200", "10.0.2.200", "10.0.3.200"), 6: ("2001:db8:1::c8", "2001:db8:2::c8", "2001:db8:3::c8")}  # there is nobody who answers
LEAST = 24  # prefixes that a step has packets for; fewer get several times as many
SIZES = (10, 1240, 1252, 1253, 1273, 1353, 1373, 1445, 1473, 1474)


class Life:
    """A life that grows: steps with commands, and packets for all prefixes that were given out."""

    def __init__(self, chapter, tier, taps):
        self.rng, self.count, self.tunnel, self.spoofs = random.Random(chapter), 0, None, 0.1
        self.case = {"seed": chapter, "tier": tier, "taps": taps, "start": 0, "begins": [0], "steps": []}
        self.prefixes = []
        self.step([line for device in DEVICES for line in device.addressing()] +
                  ["ip -4 route add default via 10.0.3.2", "ip -6 route add default via 2001:db8:3::2"], traffic.introductions(DEVICES))

    def prefix(self, family):
        """One that nothing else has."""
        self.count += 1
        self.prefixes.append((family, PREFIX[family].format(self.count)))
        return self.prefixes[-1][1]

    def routes(self, family, *templates):
        """Commands: each for a prefix of its own; `;` separates commands for the same one. {a}, {b}: gateways by r1 and r2."""
        a, b, c = VIA[family]
        made = []
        for template in templates:
            line = template.format(p=self.prefix(family), a=a, b=b, c=c)
            made += [f"ip -{family} {part.strip()}" for part in line.split(";")]
            self.prefixes += [self.prefixes[-1]] * 6 * (" mtu " in line)  # packets of many sizes
        return made

    def packets(self):
        """Some for each prefix, by all inputs, of all sizes and protocols; and random ones."""
        made = []
        for family, prefix in self.prefixes * max(1, LEAST // max(1, len(self.prefixes))):
            to = pools.inside(self.rng, prefix, family).packed
            for device in (*DEVICES[:3], self.rng.choice(DEVICES)):
                packet = self.packet(family, self.source(family, device), to)
                if self.rng.random() < 0.25:
                    packet = (traffic.ipv4 if family == 4 else traffic.ipv6)(self.rng, self.source(family, device), to)
                made.append((device.link, traffic.frame(self.rng, DEVICES, device, packet, mac_of(device.link, b"\2"))))
        return made + traffic.some(self.rng, DEVICES, 80, self.tunnel)

    def source(self, family, device):
        """Mostly one behind the input; another's, or one without a route; one on the link; rarely one that is none."""
        roll = self.rng.random()
        if roll < 0.05:
            return signalling.octets(self.rng.choice((*pools.ODD[family], device.address(family, 1))))
        if roll < 0.1 and family == 6:  # Linux sends few redirects to the same host, by the clock
            return signalling.octets(device.address(family, self.rng.randrange(2, 99)))
        spoofed = self.rng.choice((NOWHERE[family], *(other.behind(family) for other in DEVICES)))
        behind = spoofed if self.rng.random() < self.spoofs else device.behind(family)
        return pools.inside(self.rng, behind, family).packed

    def packet(self, family, source, to):
        """A valid one, with the ports and TOS that rules ask for."""
        protocol, body = traffic.body(self.rng, family, source, to)
        if self.rng.random() < 0.6:
            ports, data = (self.rng.choice((80, self.rng.randrange(1024, 65536))), self.rng.choice((53, 80, 443))), bytes(self.rng.choice(SIZES))
            protocol, body = 17, traffic.checked(source, to, 17, struct.pack("!HHHH", *ports, 8 + len(data), 0) + data, 6)
        tos = self.rng.choice((0, 0, 0x10))
        if family == 6:
            return struct.pack("!IHBB", 6 << 28 | tos << 20, len(body), protocol, 64) + source + to + body
        header = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(body), self.rng.getrandbits(16), self.rng.choice((0, 0, 0x4000, 0x4000, 0x2000)), 64, protocol, 0)
        return traffic.packets.fill_header_checksum(header + source + to) + body

    def step(self, lines, packets=None, wait="verify", again=False):
        """A step; `again`: the same packets once more, when neighbours are known, and what Linux itself says."""
        packets = self.packets() if packets is None else packets
        packets = [(link, frame) for link, frame in packets if traffic.fits(frame, self.case["taps"])]
        self.case["steps"].append({"do": lines, "wait": wait, "packets": [[link, frame.hex()] for link, frame in packets], "prove": again is None})
        if again:
            self.step([], packets, "sync", None)


PLAIN = ("route add {p} via {a} metric 20; route add {p} via {b} metric 10", "route add {p} via {a} metric 10; route add {p} via {b} metric 20",
         "route add blackhole {p}", "route add unreachable {p}",
         "route add prohibit {p}", "route add throw {p}", "route add {p} via {a} mtu 1300", "route add {p} via {a} mtu lock 1400",
         "route add {p} via {b} encap seg6 mode encap segs 2001:db8:b1::7", "route add {p} via {a}; route change {p} via {b}",
         "route add {p} via {a}; route append {p} via {b}; route del {p} via {a}", "route add local {p} dev lo", "route add {p} dev r3")
PATHS = ("route add {p} nexthop via {a} nexthop via {b}", "route add {p} nexthop via {a} weight 3 nexthop via {b} weight 1",
         "route add {p} nexthop via {a} weight 3 nexthop via {b} weight 4 nexthop via {c} weight 200")


def routes(life):
    """Routes of all kinds."""
    lines = life.routes(4, *PLAIN, *PATHS, "route add {p} via {a}; route add {p} tos 0x10 via {b}", "route add {p} via {a}; route append {p} via {b}",
                        "route add {p} via {a}; route prepend {p} via {b}", "route add {p} via inet6 2001:db8:2::2 dev r2",
                        "route add {p} encap ip id 3 dst 10.0.1.9 via {a} dev r1", "route add {p} via 10.0.0.2")
    lines += life.routes(6, *PLAIN, *PATHS, "route add {p} via {a}; route append {p} via {b}", "route add {p} from 2001:db8:b0::/48 via {a}; route add {p} via {b}", "route add {p} from 2001:db8:b0::/48 via {a}",
                         "route add {p} dev r1 metric 50 pref low; route append {p} dev r2 metric 50 pref high", "route add {p} dev r1 metric 50; route append {p} dev r2 metric 50",
                         "route add {p} via {a} metric 50 pref low; route append {p} dev r2 metric 50")
    lines += ["ip -4 route add local 198.19.0.0/16 dev lo", "ip -4 route add 198.19.7.0/24 via 10.0.1.2", "ip -4 route add 10.0.3.64/27 dev r3 mtu 1300",
              "ip -4 route add 198.19.9.7/32 via 10.0.2.2", "ip -6 route add 2000::/3 via 2001:db8:1::2"]
    life.prefixes += [(6, "2a00:7::/32"), (6, "fd00:7::/48")]
    life.prefixes += [(4, "198.19.7.0/24"), (4, "198.19.9.0/24"), (4, "10.0.3.64/27"), (4, "10.0.1.0/24"), (6, "2001:db8:2::/64")]
    life.step(lines, wait="sync", again=True)  # `verify` reads all routes again, in the kernel's order
    life.step([], redirected(life), "sync")
    life.step(["ip -4 route del default", "ip -6 route del default", "ip -4 route add 198.18.3.4/30 via 10.0.2.3", "ip -6 route add default via 2001:db8:1::3"], again=True)


def redirected(life):
    """Packets of hosts that Linux tells of a better way: to another host on their own link."""
    to = life.routes(6, "route add {p} via fe80::2 dev r1")
    prefix = life.prefixes[-1][1]
    life.step(to, [], "sync")
    sources = [signalling.octets(DEVICES[1].address(6, last)) for last in range(20, 26)]
    return [signalling.frame_to(DEVICES[1], mac_of(1, source), 0x86DD, life.packet(6, source, pools.inside(life.rng, prefix, 6).packed)) for source in sources]


OBJECTS = ("nexthop add id {i}1 via {a} dev r1", "nexthop add id {i}2 via {b} dev r2", "nexthop add id {i}3 blackhole",
           "nexthop add id {i}4 encap seg6 mode encap segs 2001:db8:b1::7 via {b} dev r2", "nexthop add id {i}5 group {i}1/{i}2", "nexthop add id {i}6 group {i}1,1/{i}2,5",
           "nexthop add id {i}7 group {i}1/{i}4", "nexthop add id {i}8 group {i}4", "nexthop add id {i}9 group {i}1/{i}2 type resilient buckets 8 idle_timer 0",
           "nexthop add id {i}0 group {i}3", "nexthop add id {i}11 via {c} dev r3", "nexthop add id {i}12 group {i}1", "nexthop add id {i}13 via {dead} dev r1",
           "nexthop add id {i}14 group {i}13/{i}2")
WITH_ROUTES = (*range(10), 11, 12, 14)


def objects(life):
    """Next-hop objects and groups of them."""
    lines = []
    for family in (4, 6):
        a, b, c = VIA[family]
        lines += known_for_ever(1, family)
        lines += [(f"ip -{family} " if " group " not in one else "ip ") + one.format(i=family, a=a, b=b, c=c, dead=DEAD[family][0]) for one in OBJECTS]
        lines += life.routes(family, *(f"route add {{p}} nhid {family}{number}" for number in WITH_ROUTES), "route add {p} nexthop via {a} nexthop via {b}")
    life.step(lines, again=True)
    life.step([f"ip neigh replace {DEAD[family][0]} dev r1 nud failed" for family in (4, 6)], wait="sync")
    life.step(["sysctl -w net.ipv4.nexthop_compat_mode=0"] + [f"ip -{family} nexthop replace id {family}11 blackhole" for family in (4, 6)], wait="sync")  # and no route is told of
    for policy in (1, 2, 3):
        fields = [f"sysctl -w net.ipv{family}.fib_multipath_hash_fields=55" for family in (4, 6)] * (policy == 3)
        life.step(["sysctl -w net.ipv4.nexthop_compat_mode=1"] + [f"sysctl -w net.ipv{family}.fib_multipath_hash_policy={policy}" for family in (4, 6)] + fields, again=policy == 1)
    life.step(["sysctl -w net.ipv4.fib_multipath_hash_policy=0", "ip nexthop replace id 46 group 41,9/42,1", "ip nexthop del id 42", "ip nexthop replace id 61 via 2001:db8:3::3 dev r3"], again=True)
    life.step(["ip neigh replace 10.0.1.2 dev r1 nud failed", "ip link set r1 down"], again=True)


def known_for_ever(link, family):
    """Commands: a host that does not answer has a MAC, which the operator has written down."""
    return [f"ip neigh replace {DEAD[family][link - 1]} lladdr 02:bc:00:00:1{link}:c8 dev r{link} nud permanent"]


SELECTORS = ("iif r0", "oif r1", "fwmark 1", "ipproto udp", "ipproto tcp", "ipproto udp dport 53", "ipproto udp sport 80", "ipproto udp dport 50-60")
MORE = {4: (*SELECTORS, "tos 0x10", "from 10.100.0.0/16"), 6: (*SELECTORS, "from 2001:db8:b0::/48")}


def rules(life):
    """Policy routing; each rule is for a prefix of its own, which table main has a route for."""
    lines = []
    for family in (4, 6):
        a, b, _ = VIA[family]
        last = "fe80::9 dev r2" if family == 6 else "10.0.2.9"
        lines += [f"ip -{family} route add default via {a} table 100", f"ip -{family} route add default via {b} table 101",
                  f"ip -{family} route add {'198.18.0.0/16' if family == 4 else '2001:db8:f0::/48'} via {last} table 101"]
        for number, selector in enumerate(MORE[family]):
            lines += life.routes(family, f"rule add to {{p}} {selector} pref {100 + number} lookup 100")
        for number, action in enumerate(("unreachable", "prohibit", "blackhole", "lookup 101", "goto 310", "lookup 102", "nop")):
            lines += life.routes(family, f"rule add to {{p}} pref {200 + number} {action}")
        lines += life.routes(family, "rule add to {p} pref 300 lookup 100; rule add to {p} pref 301 lookup 101", "rule add to {p} pref 302 lookup main suppress_prefixlength 0; rule add to {p} pref 303 lookup 101",
                             "rule add to {p} pref 304 lookup 101 suppress_prefixlength 16; rule add to {p} pref 305 lookup 100", "route add throw {p} table 101; rule add to {p} pref 306 lookup 101",
                             "rule add to {p} pref 307 goto 309; rule add to {p} pref 308 lookup 100; rule add to {p} pref 309 lookup 101")
    life.step(lines, again=True)
    life.step(["ip -4 rule del pref 100", "ip -6 rule del pref 101", "ip -4 rule add iif r1 pref 50 lookup 101", "ip -4 rule add pref 60 from 10.102.0.0/16 tos 0x10 lookup 100"], again=True)
    life.step(["ip -4 rule add pref 900 not from 10.100.0.0/16 lookup 101", "ip -6 rule add pref 900 not ipproto udp lookup 101"], again=True)


def sysctls(life):
    """Sysctls, one step each."""
    life.spoofs = 0.5
    lines = life.routes(4, "route add {p} via {a}", "route add {p} via {b} mtu 1300", *PATHS, "route add {p} dev r2") + life.routes(6, "route add {p} via {a}", *PATHS, "route add {p} via {b} mtu 1300")
    lines += ["ip -4 route replace 10.100.7.0/24 via 10.0.2.2", "ip -4 route replace 10.102.0.0/17 nexthop via 10.0.1.2 nexthop via 10.0.2.2", "ip -4 route del default"]
    life.step(lines, wait="sync")
    sets = [("ipv4.conf.all.rp_filter", 1, 0), ("ipv4.conf.r0.rp_filter", 1, 0), ("ipv4.conf.r2.rp_filter", 2, 0), ("ipv4.conf.r1.forwarding", 0, 1), ("ipv4.conf.r1.send_redirects", 0, 1),
            ("ipv6.conf.r1.mtu", 1300, 1500), ("ipv6.conf.r2.disable_ipv6", 1, 0)]
    before = []
    for key, value, usual in sets:
        life.step([*before, f"sysctl -w net.{key}={value}"], wait="second", again=key == "ipv4.conf.r1.forwarding")
        before = [f"sysctl -w net.{key}={usual}"]
    life.step([*before, "sysctl -w net.ipv6.conf.all.forwarding=0", "sysctl -w net.ipv6.conf.r0.forwarding=1"], wait="second")
    far = [pools.inside(life.rng, prefix, 4).packed for family, prefix in life.prefixes if family == 4]
    learnt = [signalling.narrow_path(life.rng, DEVICES[1:2], to) for to in far]
    long = [signalling.frame_to(DEVICES[0], mac_of(0, b"\2"), 0x0800, life.packet(4, signalling.octets("10.100.1.9"), to)) for to in far for _ in range(6)]
    life.step(["sysctl -w net.ipv6.conf.all.forwarding=1", "sysctl -w net.ipv4.ip_forward_use_pmtu=1"], learnt, "second")
    life.step([], long, "sync", again=True)


def neighbours(life):
    """Neighbours of all states, routers that advertise themselves, proxies."""
    unknown = [f"ip neigh del {DEAD[family][2]} dev r3" for family in (4, 6)]
    life.step([line for family in (4, 6) for line in known_for_ever(3, family) + life.routes(family, f"route add {{p}} via {DEAD[family][2]}", "route add {p} via {a}", *PATHS)], again=True)
    life.step(unknown, wait="sync")
    life.prefixes += [(4, "10.0.1.0/27"), (6, "2001:db8:2::/64")]
    moved = [(1, b"\xff" * 6 + mac + b"\x08\x06" + arp(1, mac, signalling.octets("10.0.1.2"), bytes(6), signalling.octets("10.0.1.1"))) for mac in [mac_of(1, b"\x72")]]
    life.step([], moved, "sync")
    life.step(["ip neigh replace 2001:db8:1::2 lladdr 02:bc:00:00:11:33 dev r1 nud permanent"], again=True)
    life.step(["ip neigh replace 10.0.2.2 lladdr 02:bc:00:00:12:44 dev r2 nud permanent", "ip neigh del 2001:db8:1::2 dev r1"], again=True)
    life.step(["ip neigh replace 10.0.2.2 lladdr 02:bc:00:00:12:55 dev r2 nud permanent"], wait="sync", again=True)  # the state stays, and nothing is read again
    life.step(["ip neigh del 10.0.2.2 dev r2", "ip neigh replace 10.0.1.2 dev r1 nud failed"], again=True)
    life.step(["sysctl -w net.ipv6.conf.all.proxy_ndp=1"] + [f"ip neigh add proxy {signalling.PROXIED} dev r{link}" for link in range(LINKS)], [signalling.proxied_solicitation(life.rng, DEVICES) for _ in range(20)])


def advertisements(life):
    """Routers that advertise themselves."""
    life.prefixes.append((6, "2001:db8:f1::/48"))
    life.step([f"sysctl -w net.ipv6.conf.r{link}.accept_ra=2" for link in range(LINKS)] + ["ip -6 route del default"])
    one, other, far = signalling.advertisement(DEVICES[1], 2), signalling.advertisement(DEVICES[1], 3), signalling.advertisement(DEVICES[2], 3)
    for advertised in ([one, other], [far], [signalling.advertisement(DEVICES[1], 3, signalling.HIGH), signalling.advertisement(DEVICES[2], 3, lifetime=0)],
                       [signalling.advertisement(DEVICES[1], 2, lifetime=0)]):
        life.step([], advertised, "sync")
        life.step([], wait="sync", again=True)


def links(life):
    """Links that go down, come back, are renamed, move; other MTUs and addresses."""
    equal = "route add {p} nexthop via {a} nexthop via {b} nexthop via {c}"
    life.step([line for family in (4, 6) for line in life.routes(family, "route add {p} via {a}", "route add {p} via {b}", equal, *PATHS)], again=True)
    again = [line for line in DEVICES[1].addressing()]
    for lines in (["ip link set r1 mtu 1400"], ["ip -n {hosts} link set h2 down"], ["ip -n {hosts} link set h2 up"], ["sysctl -w net.ipv4.conf.r2.ignore_routes_with_linkdown=1", "sysctl -w net.ipv6.conf.r2.ignore_routes_with_linkdown=1"],
                  ["ip -n {hosts} link set h2 down"], ["ip -n {hosts} link set h2 up"], ["ip link set r1 down"], ["ip link set r1 up", *again], ["ip link set r1 address 02:bc:00:00:00:99"], ["ip link set r1 down", "ip link set r1 name x1", "ip link set x1 up"],
                  ["ip link set x1 name r1", "ip link set r1 address " + router_mac(1), *again, "ip link set r2 netns {spare}", "ip -n {spare} link set r2 up"]):
        life.step(lines, wait="sync" if lines == ["ip link set r1 down"] else "second", again=len(lines) == 1)
    gone = [(1, frame) for link, frame in life.packets() if link == 1]
    life.step(["ip link set r1 netns {spare}", "ip -n {spare} link set r1 up"], gone, wait="second" if 1 in life.case["taps"] else "paused")


def hooks(life):
    """Firewalls, tc and IPsec, which Bora leaves the packets to; and a VXLAN."""
    accept = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"
    life.tunnel = DEVICES[1]

    def change(lines):
        """The program sees by itself what has changed; what looks at ports of kind tap, a little later."""
        life.step(lines, wait="second" if life.case["taps"] else "paused", again=True)

    life.step(["ip link add vx0 type vxlan id 5 remote 10.0.1.2 local 10.0.1.1 dstport 4789", "ip link set vx0 address 02:bc:00:00:00:2d", "sysctl -w net.ipv6.conf.vx0.disable_ipv6=1",
               "ip link set vx0 up", "ip address add 10.0.8.1/24 dev vx0"] + life.routes(4, "route add {p} via {a}", "route add {p} via {b}", "route add {p} dev r3") +
              life.routes(6, "route add {p} via {a}", "route add {p} via {b}"), again=True)
    change(["nft add table ip f", "nft add chain ip f through { type filter hook forward priority 0; }", "nft add rule ip f through udp dport 53 drop"])
    change(["nft flush ruleset", "nft add table ip6 f", "nft add chain ip6 f before { type filter hook prerouting priority 0; }", f"nft add rule ip6 f before {accept}", "nft add rule ip6 f before udp dport 53 drop"])
    change(["nft flush ruleset", "nft add table netdev n", "nft add chain netdev n e { type filter hook egress device r1 priority 0; }", "nft add rule netdev n e udp dport 53 drop"])
    change(["nft flush ruleset", "tc qdisc add dev r0 clsact", "tc filter add dev r0 ingress protocol ip u32 match ip dst 198.18.0.0/16 action mirred egress redirect dev r3"])
    change(["tc qdisc del dev r0 clsact", "ip xfrm policy update src 10.100.0.0/16 dst 198.18.0.0/16 dir fwd action block"])
    change(["ip xfrm policy flush", "ip xfrm policy update src 10.0.1.0/24 dst 10.0.1.0/24 dir in action block"])
    change(["ip xfrm policy flush", "ip xfrm policy setdefault in block"])
    change(["ip xfrm policy setdefault in accept"])


ALL = (routes, rules, objects, sysctls, neighbours, advertisements, links, hooks)


def life(number, tier, taps=()):
    """The life of a chapter."""
    made = Life(number, tier, taps)
    ALL[number % len(ALL)](made)
    return made.case
