"""The guard: packets that netfilter, ip rules, xfrm or tc drop in Linux do not pass through Bora either."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from lib.bora import Bora, binary
from lib.load import Load, trailer
from lib.packets import udp4, udp6

FORBIDDEN, ALLOWED = 4444, 5555
RESUME_SECONDS = 30.0  # Bora looks again after ten times what a look took, which on a busy machine is a second
# The program checks hooks in each poll, so they count at once; of ip rules Bora learns by an event.
NOTICE_SECONDS = {"ip-rule": 1.5, "ip-rule-v6": 1.5}
NFT = "nft add table {table}; nft add chain {table} c '{{ type filter hook {hook} priority 0; }}'; " \
      "nft add rule {table} c udp dport 4444 drop"
XFRM = "src {any} dst {any} proto udp dport 4444 dir fwd"

# Rules that Bora follows itself once it has read them.
FOLLOWED = ("nft-forward", "nft-prerouting", "nft-postrouting", "iptables", "ip6tables")
# name: (command that adds the rule, command that removes it, families it concerns)
RULES = {
    "nft-forward": (NFT.format(table="inet t", hook="forward"), "nft delete table inet t", (4, 6)),
    "nft-prerouting": (NFT.format(table="ip t", hook="prerouting"), "nft delete table ip t", (4,)),
    "nft-postrouting": (NFT.format(table="ip6 t", hook="postrouting"), "nft delete table ip6 t", (6,)),
    "nft-conntrack": (
        NFT.format(table="inet t", hook="forward").replace("udp dport", "meta cpu 0-4095 ct state new,established,untracked,invalid udp dport"), "nft delete table inet t", (4, 6)),
    "nft-ingress": (
        NFT.format(table="netdev t", hook="ingress device r0"), "nft delete table netdev t", (4, 6)),
    "iptables": (
        "iptables -A FORWARD -p udp --dport 4444 -j DROP", "nft delete table ip filter", (4,)),
    "ip6tables": (
        "ip6tables -A FORWARD -p udp --dport 4444 -j DROP", "nft delete table ip6 filter", (6,)),
    "ip-rule": (
        "ip rule add ipproto udp dport 4444 prohibit", "ip rule del ipproto udp dport 4444 prohibit", (4,)),
    "ip-rule-v6": (
        "ip -6 rule add ipproto udp dport 4444 prohibit", "ip -6 rule del ipproto udp dport 4444 prohibit", (6,)),
    "xfrm": (
        f"ip xfrm policy add {XFRM.format(any='0.0.0.0/0')} action block",
        f"ip xfrm policy del {XFRM.format(any='0.0.0.0/0')}", (4,)),
    "tc": (
        "tc qdisc add dev r0 clsact; tc filter add dev r0 ingress protocol ip u32 match ip dport 4444 0xffff "
        "action mirred egress redirect dev r2", "tc qdisc del dev r0 clsact", (4,)),  # elsewhere: not to host 1
    "tc-egress": (
        "tc qdisc add dev r1 clsact; tc filter add dev r1 egress protocol ip u32 match ip dport 4444 0xffff "
        "action mirred egress redirect dev r2", "tc qdisc del dev r1 clsact", (4,)),
    "nft-egress": (
        NFT.format(table="netdev t", hook="egress device r1"), "nft delete table netdev t", (4, 6)),
    # It is the last one, because its table outlives the rule.
    "iptables-legacy": (
        "iptables-legacy -w 20 -A FORWARD -p udp --dport 4444 -j DROP", "iptables-legacy -w 20 -F FORWARD", (4,)),
}


@pytest.fixture(scope="module")
def guarded(bora_path):
    """A network with Bora running."""
    from lib.topology import Network

    network = Network(bora_path)
    yield network
    network.close()


def shell(net, text, check=True):
    return net.router.exec("sh", "-ec", text, check=check)


def passes(net, family, port, count=20):
    """How many of `count` packets to a UDP port arrive at host 1."""
    make, address = (udp4, net.behind4) if family == 4 else (udp6, net.behind6)
    wanted = []
    for host in net.hosts:
        host.drain()
    for _ in range(count):
        packet = make(address(0), address(1), dport=port)
        wanted.append((1, net.forwarded(packet, 1)))
        net.hosts[0].send(net.frame(packet))
    return sum(item in wanted for item in net.collect(count, 0.3))


def check_forbidden(net, families, when):
    for family in families:
        assert passes(net, family, FORBIDDEN) == 0, f"IPv{family}: forbidden packets passed {when}"
        assert passes(net, family, ALLOWED) == 20, f"IPv{family}: allowed packets were lost {when}"


def check_resumes(net, families):
    for family in families:
        deadline = time.monotonic() + RESUME_SECONDS
        while (count := passes(net, family, FORBIDDEN)) != 20:
            assert time.monotonic() < deadline, f"IPv{family}: {count} of 20 pass after the rule is gone"


def set_rule(net, rule):
    command, undo, families = RULES[rule]
    done = shell(net, command, check=False)
    if done.returncode != 0:
        shell(net, undo, check=False)
        pytest.skip(f"this kernel cannot set the rule: {done.stderr.strip().splitlines()[-1]}")
    return undo, families


# Rules and hooks as `show sync` and `show drops` name them.
NAMES = {
    "nft-conntrack": "table inet t chain c", "nft-ingress": "netfilter ingress of r0", "xfrm": "xfrm: policy",
    "tc": "tc ingress of r0", "tc-egress": "tc egress of r1", "nft-egress": "netfilter egress of r1",
}


@pytest.mark.parametrize("rule", NAMES)
def test_the_rule_that_keeps_traffic_is_named(guarded, rule):
    """`bora show sync` and `bora show drops` name the rule or hook that keeps traffic in Linux."""
    net = guarded
    undo, families = set_rule(net, rule)
    try:
        wait_for_guard(net, True, "nothing is said to hold traffic back")
        deadline = time.monotonic() + RESUME_SECONDS
        while not any(NAMES[rule] in line for line in net.bora.guard()):
            assert time.monotonic() < deadline, f"no {NAMES[rule]!r} in {net.bora.guard()}"
            time.sleep(0.05)
        passes(net, families[0], ALLOWED)
        report = net.bora.show("drops")
        assert report["punts"]["guard"] > 0 and any(NAMES[rule] in line for line in report["guard"]), report
    finally:
        shell(net, undo)
    wait_for_guard(net, False, "the rule is gone, but Bora still reports it")
    check_resumes(net, families)


def test_what_to_add_to_the_ruleset(guarded):
    """`bora show sync` and `bora check` name the chain, and say which lines would let established flows go by Bora."""
    net = guarded
    undo, _ = set_rule(net, "nft-conntrack")
    try:
        wait_for_guard(net, True, "nothing is said to hold traffic back")
        deadline = time.monotonic() + RESUME_SECONDS
        while not (lines := net.bora.show("sync")["flows"]["lines"]):
            assert time.monotonic() < deadline, "nothing is said about flows"
            time.sleep(0.05)
        for text in ("flow add @ft", "r0, r1, r2"):
            assert any(text in line for line in lines), lines
        said = shell(net, f"{binary()} check", check=False).stdout
        assert "table inet t chain c" in said and "flow add @ft" in said, said
    finally:
        shell(net, undo)
    wait_for_guard(net, False, "the rule is gone, but Bora still reports it")
    assert not net.bora.show("sync")["flows"]["lines"]


class Flows(Load):
    """Packets of a flow of each of these IP versions, in turn; not so fast that many wait in the receiver's queue."""

    def __init__(self, net, *versions):
        make = {4: (udp4, net.behind4, FORBIDDEN), 6: (udp6, net.behind6, ALLOWED)}
        self.versions, self.destinations, frames = versions, {}, []
        for flow, version in enumerate(versions):
            datagram, behind, port = make[version]
            self.destinations[version] = behind(1)
            packet = datagram(behind(0), self.destinations[version], dport=port)
            frames.append(net.frame(packet[:-len(trailer(0))] + trailer(flow)))
        super().__init__((net.host_name(0), "h0"), (net.host_name(1), "h1"), frames, 2000)

    def wait_for(self, version, arrives):
        """Waits until packets of an IP version arrive, or do not."""
        deadline, flow = time.monotonic() + RESUME_SECONDS, self.versions.index(version)
        while True:
            before = self.count()
            time.sleep(0.3)
            if any(arrival[1] == flow for arrival in self.arrivals[before:]) == arrives:
                return
            assert time.monotonic() < deadline, f"IPv{version}: arrives is not {arrives}"


def test_a_rule_in_the_middle_of_a_load(guarded):
    """What the guard has found for packets of a poll counts for that poll only, also when packets of the other IP version go on."""
    net = guarded
    with Flows(net, 4, 6) as load:
        load.wait_for(4, True)
        pid = net.bora.process.pid
        os.kill(pid, signal.SIGSTOP)  # the program must find the rule by itself
        try:
            undo, _ = set_rule(net, "xfrm")
            load.wait_for(4, False)
            load.wait_for(6, True)
        finally:
            os.kill(pid, signal.SIGCONT)
            shell(net, undo)
    check_resumes(net, (4,))


@pytest.mark.parametrize("change", ["address {} dev lo", "route blackhole {}"])
@pytest.mark.parametrize("version", [4, 6])
def test_addresses_in_the_middle_of_a_load(guarded, version, change):
    """What is known of a packet's addresses counts for a poll: that they are not the router's own, and where they lead."""
    net = guarded
    with Flows(net, version) as load:
        prefix = f"{load.destinations[version]}/{32 if version == 4 else 128}"
        family, kind, rest = f"ip -{version}", *change.format(prefix).split(" ", 1)
        load.wait_for(version, True)
        shell(net, f"{family} {kind} add {rest}")
        try:
            load.wait_for(version, False)
        finally:
            shell(net, f"{family} {kind} del {rest}")
        load.wait_for(version, True)


def check_greedy_macvlan(net):
    """A macvlan in passthru mode takes the port's frames, and loses them while it is down."""
    for family in (4, 6):
        assert passes(net, family, ALLOWED) == 20
    shell(net, "ip link add link r0 name greedy type macvlan mode passthru")
    try:
        deadline = time.monotonic() + NOTICE_SECONDS["ip-rule"]
        while passes(net, 4, ALLOWED) or passes(net, 6, ALLOWED):
            assert time.monotonic() < deadline, "it still passes"
        if net.bora:
            [left] = net.bora.show("macvlans")["left_to_linux"]
            assert left["name"] == "greedy" and "takes frames of its port" in left["why"], left
    finally:
        shell(net, "ip link del greedy")
    check_resumes(net, (4, 6))


def test_a_macvlan_takes_the_ports_frames(guarded):
    """What Linux gives to another interface is not forwarded by Bora."""
    check_greedy_macvlan(guarded)


def test_a_macvlan_takes_the_ports_frames_itself(oracle):
    """The plain kernel does so by itself."""
    check_greedy_macvlan(oracle)


BLOCK, ACCEPT = "ip xfrm policy setdefault fwd block", "ip xfrm policy setdefault fwd accept"


def check_xfrm_default(net):
    for family in (4, 6):
        assert passes(net, family, ALLOWED) == 20
    shell(net, BLOCK)
    try:
        for family in (4, 6):
            assert passes(net, family, ALLOWED) == 0, f"IPv{family} passed although the default is to block"
        if net.bora:
            # the report is made anew each second
            deadline = time.monotonic() + RESUME_SECONDS
            while not any("xfrm default policy fwd block" in line for line in net.bora.guard()):
                assert time.monotonic() < deadline, net.bora.guard()
                time.sleep(0.05)
    finally:
        shell(net, ACCEPT)
    for family in (4, 6):
        assert passes(net, family, ALLOWED) == 20


def test_xfrm_default_policy(guarded):
    """`ip xfrm policy setdefault fwd block` without any policy stops forwarded packets."""
    check_xfrm_default(guarded)


def test_xfrm_default_policy_itself(oracle):
    """The plain kernel does so by itself."""
    check_xfrm_default(oracle)


def test_hooks_of_security_modules_hold_nothing(guarded):
    """AppArmor and SELinux register hooks on every stock kernel, but these do nothing to forwarded packets."""
    net = guarded
    wait_for_guard(net, False, "there is no rule, but Bora leaves traffic to the kernel")
    before = net.bora.show("drops")["punts"].get("guard", 0)
    for family in (4, 6):
        assert passes(net, family, ALLOWED) == 20
    assert net.bora.show("drops")["punts"].get("guard", 0) == before, net.bora.show("sync")
    modules = Path("/sys/kernel/security/lsm")
    if modules.exists() and "apparmor" in modules.read_text():
        harmless = net.bora.show("sync")["harmless"]
        assert sum("apparmor_ip_postroute" in line for line in harmless) == 2, harmless


@pytest.mark.parametrize("rule", RULES)
def test_rule_added_while_running(guarded, rule):
    """A rule that is added while Bora runs takes effect; when it is removed, all traffic passes again."""
    net = guarded
    for family in (4, 6):
        assert passes(net, family, FORBIDDEN) == 20, "before the rule all must pass, or the test proves nothing"
    undo, families = set_rule(net, rule)
    try:
        time.sleep(NOTICE_SECONDS.get(rule, 0.0))
        check_forbidden(net, families, "while Bora ran")
        if rule in FOLLOWED:
            deadline = time.monotonic() + RESUME_SECONDS
            while not net.bora.show("sync")["rules"]:
                assert time.monotonic() < deadline, net.bora.guard()
                time.sleep(0.05)
            check_forbidden(net, families, "while Bora followed the rule")
        elif not rule.startswith("ip-rule"):  # these Bora follows, too
            wait_for_guard(net, True, "show sync does not say why traffic is left to the kernel")
    finally:
        shell(net, undo)
    check_resumes(net, families)
    if rule != "iptables-legacy":  # its table stays registered until the module is unloaded
        wait_for_guard(net, False, "the rule is gone, but Bora still leaves traffic to the kernel")
    net.bora.check_conservation()


def sent_by_qdisc(net, device):
    """Packets that the root qdisc of a device has sent."""
    said = json.loads(net.router.exec("tc", "-s", "-j", "qdisc", "show", "dev", device, "root").stdout)
    return said[0]["packets"]


def past_qdisc(net, device):
    """Sends 20 packets of each IP version, which must arrive at host 1; returns how many have not gone by the root qdisc of the device."""
    before = sent_by_qdisc(net, device)
    assert [passes(net, family, ALLOWED) for family in (4, 6)] == [20, 20]
    return 40 - (sent_by_qdisc(net, device) - before)


def wait_for_line(net, text, wanted):
    """Until `bora show sync` has a line with this text, or has none."""
    deadline = time.monotonic() + NOTICE_SECONDS["ip-rule"]
    while any(text in line for line in net.bora.guard()) != wanted:
        assert time.monotonic() < deadline, f"{text!r}: {net.bora.guard()}"
        time.sleep(0.02)


TBF = "tbf rate 100mbit burst 64k latency 50ms"


def shaped(net):
    """Sends 20 packets of each IP version; returns how many are counted as left to Linux's shaper."""
    counted = net.bora.show("drops")["punts"].get("shaped", 0)
    past_qdisc(net, "r1")
    return net.bora.show("drops")["punts"]["shaped"] - counted


@pytest.mark.parametrize("qdisc", [TBF, "htb default 1"])
def test_what_shapes_is_obeyed(kernel_net, bora_path, qdisc):
    """What leaves by an interface with a shaper goes through it, from the moment it is there; without it Bora forwards again."""
    net = kernel_net
    net.bora = Bora(net.router, ["r0", "r1", "r2"], bora_path)
    net.bora.start()
    net.bora.wait_in_sync()
    said = f"what leaves by r1 goes to Linux, whose {qdisc.split()[0]} shapes it"
    shell(net, f"tc qdisc replace dev r1 root handle 1: {qdisc}")
    try:
        wait_for_line(net, said, True)
        assert past_qdisc(net, "r1") <= 0
        assert shaped(net) >= 40
        assert said in shell(net, f"{binary()} check --port r1", check=False).stdout
        shell(net, "tc qdisc replace dev r1 root handle 2: pfifo")  # it only queues
        wait_for_line(net, said, False)
        assert past_qdisc(net, "r1") >= 30
    finally:
        shell(net, "tc qdisc del dev r1 root", check=False)


def test_a_shaper_can_be_passed_by(kernel_net, tmp_path):
    """`bypass_qdisc` of a port sends past its shaper, and `bora apply` changes that."""
    net, config = kernel_net, tmp_path / "bora.toml"
    shell(net, f"tc qdisc replace dev r1 root handle 1: {TBF}")

    def write(bypass):
        ports = "".join(f'[[port]]\nname = "r{link}"\nbypass_qdisc = {bypass}\n' for link in range(3))
        config.write_text(f'path = "express"\n{ports}')

    write("true")
    net.bora = Bora(net.router, [], None, ["--config", str(config)])
    net.bora.start()
    wait_for_line(net, "tbf on r1 does not see", True)
    assert past_qdisc(net, "r1") >= 30
    write("false")
    net.router.exec(binary(), "apply", str(config))
    wait_for_line(net, "what leaves by r1 goes to Linux", True)
    assert past_qdisc(net, "r1") <= 0


def wait_for_guard(net, wanted, otherwise):
    """Waits until Bora leaves traffic to the kernel (`wanted` true) or forwards (false); fails after the time limit."""
    deadline = time.monotonic() + RESUME_SECONDS
    while bool(reasons := net.bora.guard()) != wanted:
        assert time.monotonic() < deadline, f"{otherwise}: {reasons}"
        time.sleep(0.05)


@pytest.mark.parametrize("rule", ["nft-forward", "iptables", "ip-rule", "xfrm", "tc-egress", "nft-egress"])
def test_rule_there_before_the_start(kernel_net, bora_path, rule):
    """A rule that exists when Bora starts takes effect from the first packet on."""
    net = kernel_net
    undo, families = set_rule(net, rule)
    check_forbidden(net, families, "with the plain kernel")
    net.bora = Bora(net.router, ["r0", "r1", "r2"], bora_path)
    net.bora.start()
    check_forbidden(net, families, "after Bora's start")
    shell(net, undo)
    check_resumes(net, families)
    net.bora.check_conservation()


@pytest.mark.parametrize("rule", RULES)
def test_the_rules_themselves(oracle, rule):
    """The plain kernel drops what the rules of this file say, and nothing else."""
    undo, families = set_rule(oracle, rule)
    try:
        check_forbidden(oracle, families, "with the plain kernel")
    finally:
        shell(oracle, undo)
    check_resumes(oracle, families)


@pytest.fixture(scope="module")
def oracle():
    """A network without Bora."""
    from lib.topology import Network

    network = Network("kernel")
    yield network
    network.close()
