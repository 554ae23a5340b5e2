"""Random changes of routes in the guest; Linux itself says of each slot of the cards whether it would do the same (`ip route get`)."""

import ipaddress
import json
import random
import re
import time
from pathlib import Path

from hero.guest.steps import CARDS, device, interfaces, ping, run, set_parameter

CHANGES = 60
SETTLE_SECONDS = 0.4  # after that routes are chosen anew
BATCH = Path("/run/batch")
SLOT = re.compile(r"^slot6? \d+: (\S+) to (\S+) ([0-9a-f:]{17})", re.MULTILINE)


class Family:
    """IPv4 or IPv6: where the random prefixes are, and the hosts behind the cards."""

    def __init__(self, version):
        self.ip = f"ip -{version}"
        four = version == 4
        self.base = int(ipaddress.ip_address("10.64.0.0" if four else "2001:db8:8000::"))
        self.lengths = (12, 14, 16, 20, 24, 28, 32) if four else (36, 40, 48, 56, 64, 96, 127, 128)
        self.bits = (17, 15, 11, 7, 3, 0) if four else (90, 85, 77, 66, 40, 0)  # few, so that prefixes are inside of others
        self.host = (lambda card: f"10.0.{card}.2") if four else (lambda card: f"2001:db8:0:{card}::2")
        self.make = ipaddress.IPv4Address if four else ipaddress.IPv6Address
        self.version = version

    def prefix(self):
        """A random one."""
        address = self.base | sum(1 << bit for bit in self.bits if random.random() < 0.5)
        return ipaddress.ip_network((address, random.choice(self.lengths)), strict=False)

    def change(self):
        """Two commands: a random change, and one that takes it back."""
        prefix, names = self.prefix(), interfaces()
        host, other = (f"via {self.host(card)}" for card in random.sample(range(CARDS), 2))
        route = random.choice([host] * 5 + [f"nexthop {host} nexthop {other}", f"{host} mtu 1400", f"{host} metric 7", f"{host} table 100",
                                            f"dev {random.choice(names)}", "LOCAL", "KIND"] + ([f"{host} tos 0x10"] if self.version == 4 else []))
        if route == "LOCAL":
            address = f"{prefix.network_address}/{prefix.max_prefixlen} dev {random.choice(names)}"
            return prefix, f"{self.ip} address add {address} {'nodad' if self.version == 6 else ''}", f"{self.ip} address del {address}"
        if route == "KIND":
            prefix, route = f"{random.choice(('blackhole', 'unreachable', 'prohibit', 'throw'))} {prefix}", ""
        how = random.choice(("add", "replace", "append"))
        return prefix, f"{self.ip} route {how} {prefix} {route}", f"{self.ip} route del {prefix} {route}"


def devices():
    """The cards' interfaces, by PCI address."""
    return {device(name).name: name for name in interfaces()}


def set_policies(name):
    """Says which routes get the slots of all cards."""
    for card in range(CARDS):
        set_parameter("route_policy", name, card)


def slots(address, names):
    """What is in the slots of a card: prefix, interface where it leads, MAC address of the next hop."""
    text = Path(f"/sys/kernel/debug/hero/{address}/routes").read_text()
    return [(ipaddress.ip_network(prefix), names[to], mac) for prefix, to, mac in SLOT.findall(text)]


def batch(ip, lines):
    """What `ip -json` answers to each of these lines; an error ends the step, because no slot may have what Linux does not forward."""
    decoder, answers = json.JSONDecoder(), []
    BATCH.write_text("".join(f"{line}\n" for line in lines))
    text = run(f"{ip} -json -batch {BATCH}").strip()
    while text:
        answer, end = decoder.raw_decode(text)
        answers.append(answer)
        text = text[end:].strip()
    assert len(answers) == len(lines), (lines, answers)
    return answers


def points(prefix, borders):
    """Addresses inside a prefix whose answers may differ: its ends, the borders of others, and some inside."""
    first, last = int(prefix.network_address), int(prefix.broadcast_address)
    inside = {first, last, *(random.randint(first, last) for _ in range(2)), *(one for one in borders if first <= one <= last)}
    return sorted(inside)


def judge(family, borders):
    """Compares all slots of the family with Linux; returns how many addresses were compared, and the prefixes."""
    names, asked, lines = devices(), [], []
    for card, (pci, name) in enumerate(names.items()):
        for slot in slots(pci, names):
            for point in points(slot[0], borders) if slot[0].version == family.version else []:
                line = f"route get {family.make(point)} from {family.host(card)} iif {name}"
                more = [f"{line} tos 0x10"] if family.version == 4 else []
                lines += [line, *more]
                asked += [slot] * (1 + len(more))
    shown, *answers = batch(family.ip, ["neigh show", *lines])
    neighbours = {(one["dst"], one["dev"]): one.get("lladdr") for one in shown}
    for line, (prefix, *card), (answer,) in zip(lines, asked, answers):
        there = answer.get("dev"), neighbours.get((answer.get("gateway"), answer.get("dev")))
        assert list(there) == card and answer.get("type", "unicast") == "unicast", f"{line}: the card sends {prefix} to {card}, Linux: {answer}"
    return len(answers), {slot[0] for slot in asked}


def random_routes(version):
    """Changes routes at random, and has Linux judge the cards' slots at once, and when routes are chosen anew; takes all back."""
    for card in range(CARDS):
        ping(card, Family(version).host((card + 1) % CARDS))  # only known neighbours are on the fast path
    set_policies("prefix")
    family, undo, borders, compared, seen = Family(version), [], set(), 0, set()
    seed = time.time_ns() & 0xFFFFFFFF
    random.seed(seed)
    try:
        for _ in range(CHANGES):
            if undo and random.random() < len(undo) / 40:
                run(undo.pop(random.randrange(len(undo))), check=False)
            else:
                prefix, do, back = family.change()
                net = ipaddress.ip_network(str(prefix).rpartition(" ")[2])
                borders |= {int(net.network_address), int(net.broadcast_address)}
                run(do, check=False)
                undo.append(back)
            for wait in (0, SETTLE_SECONDS):
                time.sleep(wait)
                count, there = judge(family, borders)
                compared, seen = compared + count, seen | there
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        for back in undo:
            run(back, check=False)
        set_policies("rate")
    assert compared > CHANGES and len(seen) > 5, (compared, seen)
    return f"{compared} answers of Linux are as those of the cards, for {len(seen)} prefixes; seed {seed}"
