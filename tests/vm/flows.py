"""Stateful firewall and NAT with a flowtable: Bora sends the same frames as Linux alone for each case of flow_cases, conntrack
ends the same, and the packets of flows do go by the flow path."""

import os
import re
import socket
import struct
import time
import traceback

from lib import packets
from lib.netns import inside
from vm import bulk, flow_cases, machine
from vm.flow_cases import MASQUERADE, masqueraded, plain, rules

FLOW_PREFIX = "flows: "  # prefix of the names of checks
STEP_SECONDS = 3.0
SILENT_SECONDS = 0.5
GC_SECONDS = 2.5  # the flowtable is cleaned once a second
LOAD_SECONDS = 200.0  # from a new flowtable to the program that uses it; an idle machine needs a tenth
TIMEOUT = 600  # s, of flows: on a slow machine too much time passes else, and packets are Linux's so that it puts off a flow's end
REFRESHES = (6, 11)  # the program puts off a flow's end by bpf_xdp_flow_lookup; before, packets are Linux's now and then
MANY = 10_000
CUSTOMERS, CUSTOMER_PORT = 1_000, 40_000
POOL = b"\xc6\x33\x64"  # 198.51.100.0/24


class Reference:
    """What Linux alone does."""

    def __init__(self, net, short):
        self.net, self.short = net, short
        self.cases = [case for case in flow_cases.cases(net) if case.short or not short]
        self.examples = [case for case in flow_cases.examples(net) if case.short or not short]
        self.burst = flow_cases.burst(net)
        self.results = {}


def run(cell, reference):
    """All checks of a cell, for Linux alone or for Bora."""
    def check(name, function, *arguments):
        cell.check(FLOW_PREFIX + name, function, reference, *arguments)

    try:
        if cell.net.bora is None:
            check("set-up", prepared)
        else:
            check("the first flowtable", noticed)
            check("the advice", advised)
        for case in reference.cases:
            check(case.name, same, case)
        for case in reference.examples:
            check(case.name, example, case)
        check("a burst", burst)
        check("TCP", tcp)
        check("a flow outlives its timeout", kept)
        check("a new ruleset ends a flow", forbidden)
        check("a rule that forbids a flow in mid-flow", forbidden_later)
        if not reference.short:
            check("another route", rerouted)
            check(f"{MANY} flows", many)
            check(f"CGNAT, {CUSTOMERS} customers", cgnat)
    except Exception as error:
        cell.note(check=FLOW_PREFIX + "the rest", ok=False, reason=f"{type(error).__name__}: {error}", where=traceback.format_exc())
    finally:
        clean(cell.net)


def one(net):
    """A flow goes by Bora: this kernel loads the program for it. For guests where no other check has flows."""
    take_time(net.router)
    try:
        load(net, rules(MASQUERADE))
        count = exchanged(net, masqueraded(net, 4, 28999))
    finally:
        clean(net)
    assert count == 4, f"{count} of 6 packets went by the flow, 4 should: {net.bora.show('drops')}"
    return {"by_flow": count}


# The state of Linux.


def load(net, ruleset):
    """Takes a ruleset in place of the one before."""
    clean(net)
    net.router.exec("nft", "-f", "-", input=ruleset)
    ready(net, ruleset)


def ready(net, ruleset=""):
    """Waits until Bora knows the ruleset."""
    if net.bora is None:
        return
    net.settle()
    deadline = time.monotonic() + LOAD_SECONDS
    while "flowtable" in ruleset and net.bora.show("sync")["flows"]["forwards"] is not True:
        assert time.monotonic() < deadline, f"flows are not forwarded: {net.bora.show('sync')['flows']}"
        time.sleep(0.1)


def clean(net):
    """No ruleset and no connections."""
    net.router.exec("nft", "flush", "ruleset")
    forget(net)


def forget(net):
    """No connections."""
    with inside(net.router.name), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_NETFILTER
                                                if hasattr(socket, "NETLINK_NETFILTER") else 12) as netlink:
        # IPCTNL_MSG_CT_DELETE of all, NLM_F_REQUEST | NLM_F_ACK
        netlink.sendall(struct.pack("=IHHIIBBH", 20, 1 << 8 | 2, 5, 1, 0, 0, 0, 0))
        code = struct.unpack_from("=i", netlink.recv(4096), 16)[0]
        assert code == 0, f"conntrack cannot be flushed: {os.strerror(-code)}"


def connections(net):
    """Conntrack's entries of the tests, without what differs from run to run."""
    with open("/proc/net/nf_conntrack") as file:
        lines = [line for line in file if re.search(r"port=2\d{4} ", line)]
    return sorted(re.sub(r" +", " ", re.sub(r"(?<= )\d+ (?=[A-Z_]+ src|src)|use=\d+|mark=\d+|zone=\d+", "", line)).strip()
                  for line in lines)


def by_flows(net):
    """How many packets Bora has forwarded by flows."""
    return net.bora.show("drops")["flows"] if net.bora is not None else 0


# The cases.


def of_interest(frame):
    """Whether it is one of the test's: no ARP, no Neighbour Discovery or MLD."""
    if frame[12:14] == b"\x08\x00":
        return True
    return frame[12:14] == b"\x86\xdd" and not (frame[20] == 0 or (frame[20] == 58 and frame[54] > 129))


def normalized(frame):
    """Without padding, and without the IPv4 ID of what the router says itself."""
    if frame[12] == 0x86:
        return frame[:54 + int.from_bytes(frame[18:20], "big")]
    frame = frame[:14 + int.from_bytes(frame[16:18], "big")]
    if frame[23] == 1:
        frame = frame[:18] + b"\0\0" + frame[20:24] + b"\0\0" + frame[26:]
    return frame


def step(net, link, packet, seconds=STEP_SECONDS):
    """Sends a packet; returns the frames that come out, as (host, frame). With its last fragment a packet comes out as several, in any order."""
    net.hosts[link].send(net.frame(packet, link))
    quiet = SILENT_SECONDS if is_fragment(packet) else 0
    deadline, got = time.monotonic() + seconds, []
    while not got and time.monotonic() < deadline:
        frames = net.collect(1, deadline - time.monotonic(), quiet=quiet)
        got = sorted((host, normalized(frame)) for host, frame in frames if of_interest(frame))
    return got


def is_fragment(packet):
    """Whether it is a fragment of IPv4."""
    return packet[0] >> 4 == 4 and int.from_bytes(packet[6:8], "big") & 0x3FFF != 0


def play(net, case):
    """What comes out for each packet, conntrack's entries, and how many packets Bora forwarded by flows."""
    if not case.before:
        return _play(net, case)
    net.router.exec("sh", "-c", case.before)
    try:
        return _play(net, case)
    finally:
        net.router.exec("sh", "-c", case.after)


def _play(net, case):
    load(net, case.rules)
    for port in net.hosts:
        port.drain()
    before = by_flows(net)
    got = [step(net, link, packet) for link, packet in case.steps]
    got.append(net.collect(quiet=0.05))
    if case.closing:
        time.sleep(GC_SECONDS)
    return [*map(tuple, got[:-1])], connections(net), by_flows(net) - before


def same(reference, case):
    """Linux alone: something comes out for each packet, and is kept. Bora: it is what came out of Linux."""
    net = reference.net
    frames, entries, flows = play(net, case)
    if net.bora is None:
        silent = [number for number, got in enumerate(frames) if not got]
        assert not silent or "fragment" in case.name, f"nothing came out for packets {silent} of {len(frames)}: {entries}"
        reference.results[case.name] = frames, entries
        return {"packets": len(frames), "entries": entries}
    assert case.name in reference.results, "Linux alone has failed this case"
    wanted, wanted_entries = reference.results[case.name]
    for number, (left, right) in enumerate(zip(wanted, frames)):
        assert left == right, f"packet {number}: " + (packets.difference(left[0][1], right[0][1]) if left and right
                                                      else f"{left} expected, {right} came")
    assert entries == wanted_entries, f"conntrack: {wanted_entries} expected, but {entries}"
    assert case.by_flow is None or flows == case.by_flow, f"{flows} packets went by the flow, {case.by_flow} should: {net.bora.show('drops')}"
    return {"packets": len(frames), "by_flow": flows, "entries": entries}


def example(reference, case):
    """A ruleset of the documentation can be loaded, Bora understands its flowtable, and a flow goes through it."""
    net = reference.net
    named = re.search(r"devices = {(.*?)}", case.rules)[1].split(",")
    others = [name.strip() for name in named if name.strip() not in ("r0", "r1")]
    for name in others:
        net.ip(f"link add {name} type dummy")
    try:
        detail = same(reference, case)
        if net.bora is not None:
            (table,) = net.bora.show("sync")["flows"]["flowtables"]
            assert table["used"] and not table["counter"] and not table["offload"], table
        return detail
    finally:
        clean(net)
        for name in others:
            net.ip(f"link del {name}")


def prepared(reference):
    """The modules are there, and nothing else has a say."""
    clean(reference.net)
    reference.net.router.set_sysctl("net/netfilter/nf_conntrack_tcp_be_liberal", 0)
    take_time(reference.net.router)


def take_time(router):
    """Flows stay for long."""
    router.exec("modprobe", "nf_conntrack")
    for protocol in ("tcp", "udp"):
        router.set_sysctl(f"net/netfilter/nf_flowtable_{protocol}_timeout", TIMEOUT)


def noticed(reference):
    """Bora started without nf_flow_table in the kernel; with the first flowtable it loads what forwards flows."""
    net = reference.net
    clean(net)
    for module in ("nft_flow_offload", "nf_flow_table_inet", "nf_flow_table"):
        net.router.exec("modprobe", "-r", module, check=False)
    there = any(line.startswith("nf_flow_table ") for line in open("/proc/modules"))
    before = net.bora.show("sync")["flows"]
    net.router.exec("nft", "-f", "-", input=rules(MASQUERADE))
    started = time.monotonic()
    ready(net, rules())
    after = net.bora.show("sync")["flows"]
    return {"module_was_there": there, "before": before, "after": after, "seconds": round(time.monotonic() - started, 2)}


# Rulesets without a flowtable, as programs write them.
LIMIT = "ct state established limit rate over 1000000/second drop; "
WITHOUT = {
    "a chain for each IP version (iptables, VyOS)": "".join(
        f"table {family} filter {{ chain FORWARD {{ type filter hook forward priority 0; policy drop; {{limit}}"
        "ct state established,related accept; accept; }; }\n" for family in ("ip", "ip6")),
    "a chain of its own priority (firewalld)":
        "table inet firewalld { chain filter_FORWARD { type filter hook forward priority 10; {limit}ct state { established, related } accept; "
        "ct state invalid drop; iifname r0 accept; drop; }; }",
}


def advised(reference):
    """Flows of both IP versions go by Bora where the ruleset has no flowtable: by themselves, and if a rule must see every packet, by the
    command that Bora prints. For a flowtable with `counter` it says what keeps flows with Linux."""
    net, detail = reference.net, {}
    for number, (name, ruleset) in enumerate(WITHOUT.items()):
        for way, limit in (("by itself", ""), ("as advised", LIMIT)):
            load(net, ruleset.replace("{limit}", limit))
            if limit:
                text = "\n".join(advice(net, "nft '"))
                assert "limit" in text, text
                net.router.exec("sh", "-c", re.search(r"`(nft '.*?')`", text)[1])
            else:
                advice(net, "Bora offers them")
            ready(net, "flowtable")
            for family in (4, 6):
                port = 29100 + 20 * number + 10 * bool(limit) + family
                detail[f"{name}, {way}, IPv{family}"] = exchanged(net, plain(net, family, port))
    assert all(detail.values()), detail
    load(net, rules(MASQUERADE, flags="counter;"))
    assert "nf_conntrack_acct" in "\n".join(advice(net, "has `counter`"))
    return detail


def exchanged(net, ends):
    """How many of some datagrams in both directions went by flows."""
    for port in net.hosts:
        port.drain()
    before = by_flows(net)
    for way in (True, False) * 3:
        assert step(net, *ends.udp(way)), f"{ends}: a packet did not come out"
    return by_flows(net) - before


def advice(net, text):
    """What `bora show sync` says about flows, once this text is in it."""
    deadline = time.monotonic() + LOAD_SECONDS
    while True:
        lines = net.bora.show("sync")["flows"]["lines"]
        if any(text in line for line in lines):
            return lines
        assert time.monotonic() < deadline, f"no {text!r}: {lines}"
        time.sleep(0.1)


def burst(reference):
    """Packets of three flows in turn, so fast that a NAPI poll has many; some are Linux's. Each comes out as Linux sends it, and the others go by
    the flow path."""
    net = reference.net
    load(net, rules(MASQUERADE))
    begin, packets_of_flows, plain_ones = reference.burst
    for link, packet in begin:
        assert step(net, link, packet), "a flow did not begin"
    before = by_flows(net)
    for link, packet in packets_of_flows:
        net.hosts[link].send(net.frame(packet, link))
    frames = net.collect(len(packets_of_flows), STEP_SECONDS, quiet=SILENT_SECONDS)
    got = sorted((host, normalized(frame)) for host, frame in frames if of_interest(frame))
    assert len(got) == len(packets_of_flows), f"{len(packets_of_flows)} packets were sent, {len(got)} came out"
    flows = by_flows(net) - before
    if net.bora is not None:
        assert got == reference.results["a burst"], "other packets than Linux's came out"
        assert flows == plain_ones, f"{flows} packets went by the flow, {plain_ones} should: {net.bora.show('drops')}"
    reference.results["a burst"] = got
    return {"packets": len(got), "by_flow": flows}


# Real stacks.


def tcp(reference):
    """TCP between Linux hosts through masquerade and back arrives intact; its packets go by the flow path."""
    net, detail = reference.net, {}
    load(net, rules(MASQUERADE))
    seconds = 0.5 if reference.short else 2
    with net.linux_hosts():
        for link in (0, 1):
            net.host(link).exec("ethtool", "-K", f"h{link}", "tx", "off", check=False)
        for family in (4, 6):
            before = by_flows(net)
            detail[f"IPv{family}"] = bulk.tcp(net, family, seconds, 0)
            detail[f"IPv{family} by flows"] = by_flows(net) - before
            if net.bora is not None:
                assert by_flows(net) - before > 50, f"{detail}, {net.bora.show('drops')}"
        for link in (0, 1):
            net.host(link).exec("ethtool", "-K", f"h{link}", "tx", "on", check=False)
    return detail


def kept(reference):
    """A flow that is used stays for longer than its timeout; one that is not used ends."""
    net = reference.net
    load(net, rules(MASQUERADE))
    net.router.set_sysctl("net/netfilter/nf_flowtable_udp_timeout", 3)
    try:
        ends = masqueraded(net, 4, 29001)
        for way in (True, False):
            assert step(net, *ends.udp(way)), "the flow cannot begin"
        before, sent, end = by_flows(net), 0, time.monotonic() + 8
        while time.monotonic() < end:
            assert step(net, *ends.udp(sent % 2 == 0)), "a packet of the flow did not come out"
            assert "[OFFLOAD]" in connections(net)[0], f"after {sent} packets the flow is gone: {connections(net)}"
            sent += 1
            time.sleep(0.2)
        flows = by_flows(net) - before
        time.sleep(3 + GC_SECONDS)
        assert "[OFFLOAD]" not in "".join(connections(net)), "an unused flow stays"
        own = sent - 2 if machine.kernel_release() >= REFRESHES else 0.7 * sent
        assert net.bora is None or flows >= own, f"{flows} of {sent} packets went by the flow"
        return {"sent": sent, "by_flow": flows}
    finally:
        net.router.set_sysctl("net/netfilter/nf_flowtable_udp_timeout", TIMEOUT)


def forbidden(reference):
    """A ruleset that forbids a flow replaces the one that made it: its packets do not come out any more. If Linux has forgotten the connection with the
    old rules, the server's packets are for the router, which says that nobody wants them."""
    net = reference.net
    load(net, rules(MASQUERADE))
    ends = masqueraded(net, 4, 29002)
    for way in (True, False, True, False):
        assert step(net, *ends.udp(way)), "the flow does not work"
    drop = rules(MASQUERADE, policy="drop").replace("ct state established", "ct state established tcp dport 1")
    net.router.exec("nft", "-f", "-", input="flush ruleset\n" + drop)
    came = [frame for way in (True, False, True) for _, frame in step(net, *ends.udp(way), SILENT_SECONDS)]
    got = [frame for frame in came if (frame[23], frame[34:36]) != (1, b"\x03\x03")]  # not what the router says itself
    assert not got, f"the new ruleset forbids it, but it came out: {got}"


def forbidden_later(reference):
    """A rule that comes in mid-flow is for a flow of the flowtable only when that has ended: with its connection, or for want of packets."""
    net, timeout = reference.net, "net/netfilter/nf_flowtable_udp_timeout"

    def to_server(seconds=STEP_SECONDS):
        return [frame for host, frame in step(net, *ends.udp(True), seconds) if host == 1 and frame[23] == 17]

    def unused():
        net.router.set_sysctl(timeout, 2)
        assert to_server(), "the packet that gives the flow its new timeout did not come out"
        time.sleep(2 + GC_SECONDS)

    for number, end in enumerate((lambda: forget(net), unused)):
        load(net, rules(MASQUERADE))
        ends = masqueraded(net, 4, 29010 + number)
        try:
            for way in (True, False, True, False):
                assert step(net, *ends.udp(way)), "the flow does not work"
            net.router.exec("nft", "insert rule inet flows forward drop")
            ready(net, rules())
            before = by_flows(net)
            assert all(to_server() for _ in range(4)), "the rule has stopped a flow of the flowtable"
            flows = by_flows(net) - before
            assert net.bora is None or flows == 4, f"{flows} of 4 packets went by the flow: {net.bora.show('drops')}"
            end()
            before = by_flows(net)
            assert not to_server(SILENT_SECONDS), f"the flow has ended, and the rule forbids it: {connections(net)}"
            assert by_flows(net) == before, net.bora.show("drops")
        finally:
            net.router.set_sysctl(timeout, TIMEOUT)


def cgnat(reference):
    """Customers with the same port share the pool of cgnat.nft; each packet comes out, with the same address of the pool each time."""
    net = reference.net
    net.route("100.64.0.0/10", f"via {net.host4(0)}")
    (ruleset,) = (case.rules for case in flow_cases.examples(net) if "cgnat" in case.name)
    load(net, ruleset.replace("access0", "r0").replace("core0", "r1"))
    server, seen, before = socket.inet_aton(net.behind4(1)), {}, by_flows(net)
    for turn in range(2):
        out = _all(net, 0, {customer: (_customer(customer), CUSTOMER_PORT, server, 53) for customer in range(CUSTOMERS)})
        mapped = {customer: (frame[26:30], *struct.unpack_from("!H", frame, 34)) for customer, (_, frame) in out.items()}
        assert {host for host, _ in out.values()} == {1} and all(source[:3] == POOL for source, _ in mapped.values()), mapped
        assert len(set(mapped.values())) == CUSTOMERS and (not turn or mapped == seen), "customers share an address and a port, or change them"
        seen = mapped
        back = _all(net, 1, {customer: (server, 53, *mapped[customer]) for customer in range(CUSTOMERS)})
        assert all(frame[30:34] == _customer(customer) for customer, (_, frame) in back.items()), "a reply came to another customer"
    flows = by_flows(net) - before
    assert net.bora is None or flows == 2 * CUSTOMERS, f"{flows} packets went by flows: {net.bora.show('drops')}"
    return {"customers": CUSTOMERS, "by_flow": flows, "addresses": len({source for source, _ in seen.values()})}


def _customer(number):
    """Its address."""
    return bytes((100, 64 + number % 60, number // 250, 1 + number % 250))


def _all(net, link, sends):
    """Sends UDP by {number: (source, port, destination, port)}; returns {number: (host, frame)} of what came out, which must be all."""
    got = {}
    numbers = list(sends)
    for start in range(0, len(numbers), 200):
        part = numbers[start:start + 200]
        for number in part:
            net.hosts[link].send(net.frame(_udp(number, *sends[number]), link))
        for host, frame in net.collect(len(part), STEP_SECONDS):
            if of_interest(frame):
                got[struct.unpack_from("!I", frame, 42)[0]] = host, frame
    assert len(got) == len(sends), f"{len(got)} of {len(sends)} packets came out"
    return got


def _udp(number, source, port, target, target_port):
    """A packet that carries a number."""
    header = struct.pack("!BBHIBBH4s4s", 0x45, 0, 32, 0, 64, 17, 0, source, target)
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xffff) + (total >> 16)
    check = ~((total & 0xffff) + (total >> 16)) & 0xffff
    return header[:10] + struct.pack("!H", check) + header[12:] + struct.pack("!HHHHI", port, target_port, 12, 0, number)


def rerouted(reference):
    """Another route to the flow's destination takes effect for the next packet."""
    net = reference.net
    load(net, rules())
    ends = flow_cases.plain(net, 4, 29003)
    for way in (True, False, True, False):
        assert step(net, *ends.udp(way)), "the flow does not work"
    net.route(f"{ends.server}/32", f"via {net.host4(0)}")
    net.ip(f"neighbour replace {net.host4(0)} lladdr {net.host_mac(0)} dev r0")
    hosts = {host for host, _ in step(net, *ends.udp(True))}
    assert hosts == {0}, f"it came out at {hosts}"


def many(reference):
    """Thousands of flows at a time; each packet comes out, translated."""
    net = reference.net
    load(net, rules(MASQUERADE))
    ends = masqueraded(net, 4, 29004)
    frames = {way: net.frame(ends.udp(way, 20, zero=True)[1], ends.link(way)) for way in (True, False)}
    before, lost = by_flows(net), []
    for way in (True, False, True):
        place = 34 if way else 36  # place of the client's port
        lost.append(MANY)
        for start in range(0, MANY, 200):
            for port in range(30000 + start, 30000 + start + 200):
                net.hosts[ends.link(way)].send(frames[way][:place] + struct.pack("!H", port) + frames[way][place + 2:])
            lost[-1] -= sum(of_interest(frame) for _, frame in net.collect(200, STEP_SECONDS))
    assert sum(lost) == 0, f"lost of {MANY} packets, in three turns: {lost}"
    flows = by_flows(net) - before
    assert net.bora is None or flows == MANY, f"{flows} of {MANY} packets went by flows"
    return {"flows": MANY, "by_flow": flows}
