"""Random configurations: a life of a router is a list of steps, each some commands, and packets after them."""

import random

import chapters
import pools
import signalling
import topics
import traffic
from pools import Device
from routers import LINKS, router_mac

CONFIGURATIONS, CHANGES, PACKETS = 5, 4, 120  # for a life, a configuration, a step
HOOKS = 0.3  # the part of the configurations that may have firewalls, IPsec policies or tc
TAPS = [0.0]  # the part of the engine's lives with ports of kind tap
RESET = [
    "ip xfrm policy flush", "ip xfrm state flush", *(f"ip xfrm policy setdefault {where} accept" for where in ("fwd", "in", "out")), "nft flush ruleset",
    "ip rule flush", "ip rule add pref 32766 lookup main", "ip rule add pref 32767 lookup default",
    "ip -6 rule flush", "ip -6 rule add pref 32766 lookup main",
    *(f"ip -{family} route flush table {table}" for family in (4, 6) for table in (100, 101, 102, "main", "default")),
    "ip nexthop flush", *(f"ip link del {name}" for name in ("br0", "mv0", "vx0", "d0", "red", "r0.100", "r1.200", "bond0", "t0", "g0")),
    *(f"ip -n {{spare}} link set r{link} netns {{router}}" for link in range(LINKS)),
    *(f"ip link set x{link} name r{link}" for link in range(LINKS)),
]


def settle_link(link):
    """Commands that bring a link and its port to where they were in the beginning."""
    port = f"r{link}"
    lines = [f"ip -n {{hosts}} link set h{link} up", f"ip link set {port} nomaster", f"ip link set {port} down", f"ip address flush dev {port}",
             f"ip link set {port} mtu 1500 address {router_mac(link)} promisc off allmulticast off arp on",
             f"ip neigh flush dev {port} nud all", f"tc qdisc del dev {port} clsact", f"tc qdisc del dev {port} root"]
    lines += [f"sysctl -w net.{key.format(port)}={value}" for key, value in topics.PORT_SYSCTLS.items()]
    return lines + [f"ip link set {port} up"]


def reset():
    """Commands that undo all of a configuration."""
    return [*RESET, *(f"sysctl -w {key}={value}" for key, value in topics.SYSCTLS.items()),
            *(line for link in range(LINKS) for line in settle_link(link))]


class Configuration:
    """What a configuration is made of: devices with addresses, and topics that its commands are about."""

    def __init__(self, rng, features, last, taps=()):
        self.rng, self.features, self.taps = rng, features, taps
        self.devices = [Device(f"r{link}", link, link, router_mac(link)) for link in range(LINKS)]
        self.first, self.tunnel, self.advertises = [], None, False
        self.tables = list(pools.TABLES)
        for shape in topics.SHAPES:
            # a namespace that has had a bridge keeps its hooks, so this comes at the end of a life
            if shape.needs in features and rng.random() < shape.often and (last or shape.needs != "bridge"):
                shape.make(self)
        hooks = rng.random() < HOOKS
        usable = [topic for topic in topics.TOPICS if all(need in features for need in topic.needs.split()) and topic.hooks <= hooks]
        # a few topics at a time meet each other more often
        chosen = rng.sample(usable, min(len(usable), rng.randrange(2, 6)))
        self.topics = [topic for topic in usable if topic in chosen or topic.always]

    def begin(self):
        """Commands: devices, addresses, and what is behind their hosts."""
        lines = [*self.first, *(line for device in dict.fromkeys(self.devices) for line in device.addressing())]
        for family in (4, 6):
            for prefix in self.rng.sample(pools.PREFIXES[family][:9], self.rng.randrange(6)):  # otherwise most packets find no route
                device = self.device()
                lines.append(f"ip -{family} route replace {prefix} via {device.address(family, self.rng.choice((2, 3, 4)))} dev {device.name}")
        return lines

    def change(self, count):
        """Commands of random topics."""
        lines = []
        for _ in range(count):
            topic = self.rng.choices(self.topics, [topic.weight for topic in self.topics])[0]
            lines += topic.make(self)
        return lines

    # What topics choose from.

    def device(self):
        return self.rng.choice(self.devices)

    def family(self):
        return self.rng.choice((4, 6))

    def prefix(self, family):
        return self.rng.choice(pools.PREFIXES[family])

    def table(self):
        return self.rng.choice(self.tables)


def how_to_wait(rng, lines):
    """How a step waits for Bora: sysctls, and the like, have no event; a port that comes back is taken again within a second."""
    if any(" netns " in line or " name " in line for line in lines):
        return "second"
    slow = any(line.startswith(("sysctl", "tc")) or "pref" in line for line in lines)
    return rng.choice(("second", "verify", "verify", "verify")) if slow else "sync"


def step(lines, wait, packets):
    """A step: commands, how to wait for Bora, packets."""
    return {"do": lines, "wait": wait, "packets": [[link, frame.hex()] for link, frame in packets]}


def change(rng, configuration, count):
    """A step with random commands and packets."""
    lines = configuration.change(count)
    packets = traffic.some(rng, configuration.devices, PACKETS, configuration.tunnel)
    return step(lines, how_to_wait(rng, lines), [(link, frame) for link, frame in packets if traffic.fits(frame, configuration.taps)])


def life(seed, tier, features):
    """A router's life, decided by its seed; every fifth is a chapter. `begins`: the first steps of configurations; `reset`:
    how many of such a step's commands undo what was before."""
    rng = random.Random(seed)
    steps, begins = [], []
    taps = (0, 1) if tier == "engine" and rng.random() < TAPS[0] else ()
    if seed % 5 == 0:
        return {**chapters.life(seed // 5 % len(chapters.ALL), tier, taps[:1]), "seed": seed}  # whose MTU no chapter changes
    if taps:  # what comes by them has another hash, for VXLAN, and another CPU, each of which keeps the outer route that it found first (seg6_iptunnel.c)
        features = features - {"seg6", "seg6local", "vxlan"}
    for number in range(CONFIGURATIONS):
        configuration = Configuration(rng, features, number == CONFIGURATIONS - 1, taps)
        begins.append(len(steps))
        before = reset() if number else []
        steps.append({**step(before + configuration.begin(), "second" if before else "sync", traffic.introductions(configuration.devices)), "reset": len(before)})
        steps.append(change(rng, configuration, rng.randrange(4, 18)))
        for _ in range(rng.randrange(1, 2 * CHANGES)):
            if rng.random() < 0.15:
                steps.append(step([], "sync", traffic.moves(rng, configuration.devices)))
            elif configuration.advertises and rng.random() < 0.4:
                steps.append(step([], "sync", signalling.advertisements(rng, configuration.devices)))
            else:
                steps.append(change(rng, configuration, rng.randrange(1, 5)))
        for place in (begins[-1] + 1, -1):
            steps[place]["prove"] = True
    return {"seed": seed, "tier": tier, "taps": taps, "start": rng.choice((0, 0, 1, 2)), "begins": begins, "steps": steps}
