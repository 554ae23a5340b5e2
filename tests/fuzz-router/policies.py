"""More topics: rules, neighbours, sysctls, firewalls, IPsec policies, tc, addresses and links."""

import ipaddress

from pools import PREFIXES
from topics import PORT_SYSCTLS, PORT_VALUES, SYSCTL_VALUES, SYSCTLS, topic

NEIGHBOUR_STATES = ("permanent", "permanent", "reachable", "stale", "noarp", "failed", "incomplete", "delay")


@topic(weight=2)
def rule(c):
    rng, family = c.rng, c.family()
    if rng.random() < 0.25:
        return [f"ip -{family} rule del pref {100 * rng.randrange(1, 9)}"]
    parts = []
    if rng.random() < 0.4:
        parts.append(f"from {rng.choice((c.device().behind(family), c.prefix(family).replace('default', 'all')))}")
    if rng.random() < 0.4:
        parts.append(f"to {c.prefix(family).replace('default', 'all')}")
    if rng.random() < 0.3:
        parts.append(f"iif {c.device().name}")
    if rng.random() < 0.1:
        parts.append(rng.choice((f"oif {c.device().name}", "iif lo")))
    if rng.random() < 0.15:
        parts.append(f"fwmark {rng.choice(('1', '0x10/0xf0', '0/0xff'))}")
    if rng.random() < 0.15:
        parts.append(f"tos {rng.choice(('0x08', '0x10', '0x04'))}")
    if rng.random() < 0.25 and "rule ports" in c.features:
        parts.append(f"ipproto {rng.choice(('udp', 'tcp', 'icmp', 'ipv6-icmp'))}")
        if rng.random() < 0.5:
            parts.append(rng.choice(("dport 53", "dport 1000-2000", "sport 80", "sport 1024-65535")))
    if rng.random() < 0.08:
        parts.insert(0, "not")
    action = f"lookup {c.table()}"
    roll = rng.random()
    if roll < 0.2:
        action = rng.choice(("unreachable", "prohibit", "blackhole", "nop", f"goto {100 * rng.randrange(1, 10)}"))
    elif roll < 0.4:
        action += rng.choice((" suppress_prefixlength 0", " suppress_prefixlength 16", " suppress_prefixlength 48", " suppress_ifgroup 0"))
    return [f"ip -{family} rule add {' '.join(parts)} pref {100 * rng.randrange(1, 9)} {action}"]


@topic(weight=2)
def neighbour(c):
    rng, family, device = c.rng, c.family(), c.device()
    address = device.address(family, rng.choice((2, 2, 2, 3, 4, 5, 50, 200)))
    roll = rng.random()
    if roll < 0.15:
        return [f"ip neigh del {address} dev {device.name}"]
    if roll < 0.2:
        return [f"ip neigh flush dev {device.name}"]
    if roll < 0.3:
        there = rng.choice((c.device().address(family, 50), "198.18.7.9" if family == 4 else "2001:db8:f0:7::9"))
        return [f"sysctl -w net.ipv6.conf.all.proxy_ndp={rng.choice((0, 1, 1))}", f"ip neigh {rng.choice(('replace', 'replace', 'del'))} proxy {there} dev {device.name}"]
    # Bora asks for gateways that do not answer earlier than Linux, so these have no address that is only believed
    state = rng.choice(("permanent", "noarp", "failed", "incomplete") if address.endswith(("200", "c8")) else NEIGHBOUR_STATES)
    last = int(address.replace(":", ".").rsplit(".", 1)[1], 16 if family == 6 else 10)
    fixed = state in ("permanent", "noarp")
    mac = f"02:bc:00:00:1{device.link}:{rng.randrange(1, 99) if fixed else last:02x}"
    known = "" if state in ("failed", "incomplete") else f" lladdr {mac}"
    return [f"ip neigh replace {address}{known} dev {device.name} nud {state}"]


@topic(weight=1.5)
def sysctl(c):
    rng = c.rng
    if rng.random() < 0.35:
        key = rng.choice([key for key in SYSCTLS if "fields" not in key or "hash seed" in c.features])
        return [f"sysctl -w {key}={rng.choice(SYSCTL_VALUES.get(key, (0, 1)))}"]
    key = rng.choice(list(PORT_SYSCTLS))
    return [f"sysctl -w net.{key.format(c.device().name)}={rng.choice(PORT_VALUES.get(key, (0, 1)))}"]


MATCHES = ("{ip} daddr {net}", "{ip} saddr {net}", "udp dport 53", "meta l4proto tcp", "iifname {dev}", "oifname {dev}", "meta length > 1000", "meta mark 1",
           "{ip} daddr {net} udp dport 1000-2000", "meta nfproto ipv6", "{ip} saddr != {net}", "{ip} daddr {{ {net}, {other} }}", "udp sport != 1000-2000",
           "th dport {{ 53, 1000-2000, 33000-65535 }}", "iifname != {dev}", "iif {dev}", "fib daddr type local", "{ip} saddr . iifname {{ {net} . {dev}, {other} . r1 }}",
           "oifname {{ {dev}, r1 }}", "meta l4proto {{ icmp, icmpv6, 47 }}", "icmp type echo-request", "@th,0,16 > 2000")
VERDICTS = ("drop", "drop", "accept", "counter", "meta mark set 1", "meta mark set 0x10", "counter drop", "return", "counter accept")
CHAINS = {"before": "type filter hook prerouting priority {0}", "through": "type filter hook forward priority {0}", "to": "type filter hook input priority {0}",
          "from": "type filter hook output priority {0}", "after": "type filter hook postrouting priority {0}", "again": "type route hook output priority {0}"}


# Neighbours must be found: Bora looks for them earlier than Linux does.
DISCOVERY = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"


def match(c):
    """A match with a verdict, for any IP version."""
    family = c.family()
    net = c.rng.choice(PREFIXES[family][1:])
    own = ipaddress.ip_network(net)
    apart = [other for other in PREFIXES[family][1:] if not own.overlaps(ipaddress.ip_network(other))]
    other = c.rng.choice(apart or ["fc00::/7"])
    return c.rng.choice(MATCHES).format(ip="ip" if family == 4 else "ip6", net=net, other=other, dev=c.device().name)


@topic(weight=1.5, needs="nft", hooks=True)
def firewall(c):
    rng, name = c.rng, c.rng.choice(list(CHAINS))
    roll = rng.random()
    if roll < 0.2:
        return rng.choice((["nft flush ruleset"], [f"nft flush chain inet f {name}", f"nft add rule inet f {name} {DISCOVERY}"],
                           [f"nft delete chain inet f {name}"], ["nft delete table inet f"]))
    if roll < 0.25 and "nat" in c.features:
        return ["nft add table inet f", "nft add chain inet f source { type nat hook postrouting priority 100; }",
                f"nft add rule inet f source oifname {c.device().name} ip saddr 10.0.0.0/8 snat to {c.device().address(4, 1)}"]
    if roll < 0.3 and "conntrack" in c.features:
        return ["nft add table inet f", "nft add chain inet f states { type filter hook forward priority 5; }", "nft add rule inet f states ct state invalid drop"]
    lines = ["nft add table inet f", f"nft add chain inet f {name} {{ {CHAINS[name].format(rng.choice((-150, 0, 10)))}; }}",
             f"nft add rule inet f {name} {DISCOVERY}"]
    if rng.random() < 0.8:
        more = ("reject",) if "reject" in c.features and name in ("through", "to") else ()
        lines.append(f"nft add rule inet f {name} {match(c)} {rng.choice((*VERDICTS, *more))}")
    return lines


@topic(weight=0.5, needs="flowtable conntrack", hooks=True)
def flowtable(c):
    devices = ", ".join(dict.fromkeys(device.name for device in c.devices))
    return ["nft delete table inet o", "nft add table inet o", f"nft add flowtable inet o t {{ hook ingress priority 0; devices = {{ {devices} }}; }}",
            "nft add chain inet o through { type filter hook forward priority 20; }", "nft add rule inet o through meta l4proto { tcp, udp } flow add @t"]


@topic(weight=0.7)
def other_routers(c):
    c.advertises = True
    device = c.device().name
    return [f"sysctl -w net.ipv6.conf.{device}.accept_ra=2", f"sysctl -w net.ipv6.conf.{device}.accept_ra_rt_info_max_plen=128"]


@topic(weight=0.7, needs="nft", hooks=True)
def device_firewall(c):
    rng, device = c.rng, c.device().name
    if rng.random() < 0.3:
        return ["nft delete table netdev n"]
    hook = rng.choice(("ingress", "egress")) if "egress" in c.features else "ingress"
    chain = f"{hook[0]}{device.replace('.', '_')}"
    side = "oifname" if hook == "egress" else "iifname"
    rules = [f"nft add rule netdev n {chain} {match(c).replace('iifname', side)} {rng.choice(('drop', 'accept', 'counter'))}"]
    return ["nft add table netdev n", f"nft add chain netdev n {chain} {{ type filter hook {hook} device {device} priority 0; }}",
            f"nft add rule netdev n {chain} {DISCOVERY}", *rules[:rng.randrange(2)]]


ENDS = "src 10.0.1.1 dst 10.0.1.2"


@topic(weight=0.7, needs="xfrm", hooks=True)
def ipsec(c):
    rng, family = c.rng, c.family()
    roll = rng.random()
    if roll < 0.35:
        return ["ip xfrm policy flush"]
    if roll < 0.45 and "xfrm default" in c.features:
        return [f"ip xfrm policy setdefault {rng.choice(('fwd', 'out', 'in'))} {rng.choice(('block', 'accept'))}"]
    nets = [rng.choice(PREFIXES[family][1:]) for _ in range(2)]
    device = f" dev {c.device().name}" if rng.random() < 0.2 else ""
    if roll < 0.55:
        return ["ip xfrm policy update src 10.0.1.0/24 dst 10.0.1.0/24 dir in action block"]  # also for what comes out of tunnels
    if roll < 0.65 and "xfrm state" in c.features:
        return [f"ip xfrm state add {ENDS} proto esp spi 5 mode tunnel enc ecb(cipher_null) '' auth digest_null ''",
                f"ip xfrm policy update src 10.0.0.0/8 dst {rng.choice(PREFIXES[4][1:])} dir out priority 2 tmpl {ENDS} proto esp mode tunnel"]
    return [f"ip xfrm policy update src {c.device().behind(family)} dst {nets[0]}{device} dir {rng.choice(('fwd', 'in', 'out'))} "
            f"action {rng.choice(('block', 'block', 'allow'))} priority {rng.choice((1, 9))}"]


@topic(weight=0.7, needs="clsact", hooks=True)
def classifiers(c):
    rng, device = c.rng, c.device().name
    roll = rng.random()
    if roll < 0.3:
        return [f"tc qdisc del dev {device} {rng.choice(('clsact', 'root'))}"]
    if roll < 0.45 and "tbf" in c.features:
        return [f"tc qdisc replace dev {device} root tbf rate 1gbit burst 1m latency 50ms"]
    lines = [f"tc qdisc add dev {device} clsact"]
    if rng.random() < 0.7 and "mirred" in c.features:
        kind = rng.choice(("redirect", "mirror"))
        lines.append(f"tc filter add dev {device} {rng.choice(('ingress', 'egress'))} protocol ip u32 match ip dst {rng.choice(PREFIXES[4][1:])} "
                     f"action mirred egress {kind} dev {c.device().name}")
    return lines


@topic(weight=1.5)
def address(c):
    rng, family, device = c.rng, c.family(), c.device()
    length = rng.choice((24, 25, 32, 31) if family == 4 else (64, 65, 128, 127))
    nodad = "" if family == 4 else " nodad"
    roll = rng.random()
    if roll < 0.25:
        return [f"ip address del {device.address(family, rng.choice((1, 254)))}/{length} dev {device.name}"]
    if roll < 0.35:
        return [f"ip address del {device.address(family, 1)}/{24 if family == 4 else 64} dev {device.name}"]
    if roll < 0.45:
        return [line for line in device.addressing() if "address" in line]
    if roll < 0.55:
        other = f"10.0.{device.number}.254 peer 203.0.113.65/32" if family == 4 else f"2001:db8:{device.number:x}::fe peer 2001:db8:e0:1::41/128"
        return [f"ip address add {other} dev {device.name}{nodad}"]
    extra = rng.choice(("", "", " noprefixroute", " preferred_lft 0", " scope link" if family == 4 else "", " metric 50", " home" if family == 6 else ""))
    place = rng.choice((device, c.device())).address(family, 254)
    return [f"ip address {rng.choice(('add', 'replace'))} {place}/{length} dev {rng.choice((device.name, device.name, 'lo'))}{extra}{nodad}"]


@topic(weight=1.5)
def link(c):
    rng, device = c.rng, c.device()
    # a TAP interface belongs into Bora's namespace, takes frames above its MTU, and its carrier is Bora's, later than a veth's
    name, number = device.name, rng.choice([link for link in range(4) if link not in c.taps])
    again = [line for one in c.devices if one.link == number for line in one.addressing()]
    roll = rng.random()
    if roll < 0.5 and device.link in c.taps:
        return []
    if roll < 0.3:
        longer = () if c.taps else (2000, 3000)  # those have no room for more
        return [f"ip link set {name} mtu {rng.choice((1280, 1300, 1400, 1492, 1500, 1500, *longer))}"]
    if roll < 0.4:
        return [f"ip link set {name} down", f"ip link set {name} up", *(device.addressing() if rng.random() < 0.7 else [])]
    if roll < 0.5:
        return [f"ip link set {name} {rng.choice(('down', 'up', 'up'))}"]
    if roll < 0.65:
        return [f"ip -n {{hosts}} link set h{number} {rng.choice(('down', 'up', 'up'))}"]
    if roll < 0.72:
        return [f"ip link set r{number} name x{number}", *([f"ip link set x{number} name r{number}"] if rng.random() < 0.6 else [])]
    if roll < 0.8:
        lines = [f"ip link set r{number} netns {{spare}}"]
        return lines + ([f"ip -n {{spare}} link set r{number} netns {{router}}", f"ip link set r{number} up", *again] if rng.random() < 0.7 else [])
    if roll < 0.85 and name != "br0":
        return [f"ip link set {name} address 02:bc:00:00:00:{rng.choice(('99', device.mac[-2:])) }"]
    return [f"ip link set {name} {rng.choice(('promisc on', 'promisc off', 'allmulticast on', 'group 5', 'arp off', 'arp on', 'txqueuelen 50'))}"]
