"""`bora apply` gives a running Bora another configuration, all of it or nothing, without loss for other flows."""

import json
import time
from pathlib import Path

import pytest

from lib import bora as daemon
from lib import packets
from lib.bora import Bora, binary
from lib.traffic import both_families, flow_frame, load

pytestmark = pytest.mark.bora
RATE = 10_000
STRAY = 5  # packets in some 20 000 that a busy two-core machine may lose by itself; the numbers are printed
PORT = '[[port]]\nname = "{}"\n'
TWO = PORT.format("r0") + PORT.format("r1")
THREE = TWO + PORT.format("r2")
THREE_CLASSES = '[port.queues]\nrate = "1Gbit"\nclass = [{}, {}, { rate = "500Mbit", packets = 100 }]\n'
ENGINE = 'path = "engine"\n'


@pytest.fixture
def start(kernel_net, tmp_path):
    """Starts Bora with a file's text on the kernel's network."""

    def starting(text, prepare=None):
        if prepare:
            prepare(kernel_net)
        kernel_net.bora = Bora(kernel_net.router, [], None, ["--config", written(tmp_path, text)])
        kernel_net.bora.start()
        kernel_net.bora.wait_in_sync()
        for port in kernel_net.hosts:
            port.drain()
        return kernel_net

    return starting


def written(directory, text):
    """The path of a file with this text."""
    path = directory / "bora.toml"
    path.write_text(text)
    return str(path)


def apply(net, directory, text, *options, check=True):
    """`bora apply` of a file with this text."""
    return net.router.exec(binary(), "apply", written(directory, text), *options, check=check)


def saved(net):
    """The configuration in force, as text."""
    return net.router.exec(binary(), "save").stdout


def ports(net):
    return [port["name"] for port in net.bora.show("ports")]


def check_flows(net, report):
    """Nothing was lost, reordered or duplicated; else Bora's totals say which way the packets took."""
    assert report.lost <= STRAY and report.reordered == 0 == report.duplicated, f"{report} {net.bora.totals()}"


def sent_by(net, name):
    return next(port["tx_packets"] for port in net.bora.show("ports") if port["name"] == name)


@pytest.mark.alone
def test_settings_change_under_load(start, tmp_path, say):
    """Rules, classes, queues, quotas, budget and mode change while packets flow, and none is lost."""
    net = start(ENGINE + TWO)
    queues = PORT.format("r0") + "quota = 7\n" + THREE_CLASSES + PORT.format("r1") + THREE_CLASSES
    rules = '[dscp]\nEF = 2\n[[rule]]\nprotocol = "udp"\nclass = 1\n[[rule]]\naction = "drop"\nprotocol = 200\n'
    others = '[workers]\nbudget = 50\nmode = "moderated:16:200"\n[linux]\nbypass_netfilter = true\n[firewall]\nflows = "off"\n'
    with load(net, both_families(net), RATE) as traffic:
        for _ in range(3):
            done = apply(net, tmp_path, ENGINE + queues + others + rules).stdout
            for line in ("port r0: quota 7 (was 64)", "port r1: queues.class 3 entries (was none)",
                         "port r1: queues.rate 1Gbit (was none)", "rule: 2 entries (was none)", "workers: budget 50",
                         "workers: mode moderated:16:200 (was adaptive)", "dscp: EF 2 (was none)",
                         "linux: bypass_netfilter true (was false)", "firewall: flows off (was proved)"):
                assert line in done, done
            time.sleep(0.3)
            assert net.bora.show("rules")[0]["packets"] > 0
            apply(net, tmp_path, ENGINE + TWO)
            time.sleep(0.3)
        report = traffic.finish()
    say(f"settings: {report}")
    check_flows(net, report)
    assert "nothing to change" in apply(net, tmp_path, ENGINE + TWO).stdout
    net.bora.check_conservation()


def blocklist(directory, octet, count):
    """A file with many sources to drop, and a rule with it."""
    sources = [f"{octet}.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in range(0, 2 * count, 2)]
    (directory / "sources.txt").write_text("# who is not welcome\n" + "\n".join(sources) + "\n")
    return '[[rule]]\nname = "list"\naction = "drop"\nsource_file = "sources.txt"\n'


@pytest.mark.slow
@pytest.mark.alone
def test_a_list_of_100000_addresses_is_replaced_under_load(start, tmp_path, say):
    """A rule reads its sources from a file; lists change while packets flow, and none of other sources is lost."""
    net = start(ENGINE + TWO)
    listed = [packets.udp4(f"{octet}.0.0.4", net.host4(1)) for octet in (11, 12)]
    with load(net, both_families(net), RATE) as traffic:
        for octet, (dropped, passed) in ((11, listed), (12, listed[::-1])) * 2:
            text = ENGINE + TWO + blocklist(tmp_path, octet, 100_000)
            began = time.monotonic()
            done = apply(net, tmp_path, text).stdout
            say(f"a list of 100 000: {time.monotonic() - began:.1f} s, {done.strip()!r}")
            net.hosts[0].send(net.frame(dropped))
            net.hosts[0].send(net.frame(passed))
            assert arrived(net, 1, net.forwarded(passed, 1), 1) == 1
            assert arrived(net, 1, net.forwarded(dropped, 1), 1, seconds=0.2) == 0
            rule, = net.bora.show("rules")
            assert (rule["packets"], rule["rule"]) == (1, f"source {octet}.0.0.0/32 and 99999 more -> drop")
        report = traffic.finish()
    say(f"lists of 100 000 addresses: {report}")
    check_flows(net, report)
    (tmp_path / "sources.txt").write_text("192.0.2.1\n192.0.2.300\n")
    wrong = apply(net, tmp_path, ENGINE + TWO + '[[rule]]\nsource_file = "sources.txt"\n', check=False)
    assert wrong.returncode and "sources.txt, line 2: `192.0.2.300` is not an IPv4 or IPv6 address" in wrong.stderr
    net.bora.check_conservation()


@pytest.mark.parametrize("path, tail", [("engine", ""), ("engine", "[workers]\ncores = [0, 1]\n"), ("express", "")],
                         ids=["engine", "two-workers", "express"])
@pytest.mark.alone
def test_a_port_comes_and_goes_under_load(start, tmp_path, say, path, tail):
    """A port is added and removed: flows of other ports lose nothing; Linux has the interface while it is no port."""
    head = f'path = "{path}"\n{tail}'
    net = start(head + TWO)
    there, back = packets.udp4(net.host4(0), net.host4(2)), packets.udp4(net.host4(2), net.host4(0))
    to_third, to_first = net.forwarded(there, 2), net.forwarded(back, 0)
    with load(net, both_families(net), RATE) as traffic:
        for _ in range(4):
            assert "add port r2" in apply(net, tmp_path, head + THREE).stdout
            assert ports(net) == ["r0", "r1", "r2"]
            assert sent_by(net, "r2") == 0, "the new port has counts of the removed one"
            time.sleep(0.2)
            for _ in range(20):
                net.hosts[0].send(net.frame(there))
            assert arrived(net, 2, to_third, 20) == 20
            assert sent_by(net, "r2") == 20
            # its input is forwarded too
            before = net.bora.totals()["sent"]
            net.hosts[2].send(net.frame(back, 2))
            assert arrived(net, 0, to_first, 1) == 1 and net.bora.totals()["sent"] > before
            assert "remove port r2" in apply(net, tmp_path, head + TWO).stdout
            assert ports(net) == ["r0", "r1"]
            net.hosts[0].send(net.frame(there))
            assert arrived(net, 2, to_third, 1) == 1, "Linux must forward to an interface that is no port"
        report = traffic.finish()
    say(f"a port comes and goes, {path} {tail.strip()!r}: {report}")
    check_flows(net, report)
    assert "xdp" not in net.router.ip("link", "show", "r2").stdout
    net.bora.check_conservation()


def arrived(net, host, frame, count, seconds=2.0):
    """How many of these frames host `host` gets until it has `count`."""
    found, deadline = 0, time.monotonic() + seconds
    while found < count and time.monotonic() < deadline:
        got = net.hosts[host].receive_now()
        if got is None:
            time.sleep(0.005)
        elif packets.same(frame, got):
            found += 1
    return found


@pytest.mark.alone
def test_linux_forwards_to_a_removed_port(start, tmp_path, say):
    """Traffic to a removed port moves to Linux, and back when the port is added again; every loss is counted."""
    net = start(ENGINE + THREE)
    frames = [flow_frame(net, number, 6 if number % 2 else 4, to=2) for number in range(8)]
    with load(net, frames, 5_000, to=2) as traffic:
        for _ in range(3):
            apply(net, tmp_path, ENGINE + TWO)
            time.sleep(0.3)
            apply(net, tmp_path, ENGINE + THREE)
            time.sleep(0.3)
        report = traffic.finish()
    drops = net.bora.totals()["drops"]
    say(f"flows of the port itself: {report}, {drops}")
    # for the engine, an output that is no port is an exception, and those have a budget
    assert set(drops) <= {"punt_budget", "punt_ring_full"}
    assert report.lost <= sum(drops.values()) + STRAY and report.duplicated == 0
    assert report.received > report.sent / 2
    net.bora.check_conservation()


@pytest.mark.slow
def test_frames_of_removed_ports_come_back(start, tmp_path):
    """A port can be removed and added any number of times, because its packet memory is used again."""
    net = start(ENGINE + TWO)
    for _ in range(24):  # far more often than packet memory would last
        apply(net, tmp_path, ENGINE + THREE)
        apply(net, tmp_path, ENGINE + TWO)
    apply(net, tmp_path, ENGINE + THREE)
    assert net.probe(to=2) and net.probe(6, to=2)
    assert sent_by(net, "r2") == 2
    net.bora.check_conservation()


def test_rules_do_what_they_say(start, tmp_path):
    """One rule drops, one chooses another output, and both count."""
    net = start(ENGINE + THREE)
    rules = ('[[rule]]\nname = "no 7001"\nprotocol = "udp"\ndestination_ports = 7001\naction = "drop"\n'
             '[[rule]]\nname = "elsewhere"\ndestination_ports = "7002-7003"\noutput = "via 10.0.2.2 dev r2"\n')
    apply(net, tmp_path, ENGINE + THREE + rules)
    source, target = net.behind4(0), net.behind4(1)
    packet = {port: packets.udp4(source, target, dport=port) for port in (7000, 7001, 7002)}
    net.exchange([net.frame(one) for one in packet.values()],
                 {1: [net.forwarded(packet[7000], 1)], 2: [net.forwarded(packet[7002], 2)]})
    shown = net.bora.show("rules")
    assert [(rule["name"], rule["packets"]) for rule in shown] == [("no 7001", 1), ("elsewhere", 1)]
    assert shown[0]["octets"] > 0 and "drop" in shown[0]["rule"]
    assert net.bora.totals()["drops"] == {"rule": 1}
    table = net.router.exec(binary(), "show", "rules").stdout
    assert "via 10.0.2.2 dev r2" in table and "no 7001" in table
    apply(net, tmp_path, ENGINE + THREE)
    net.exchange(net.frame(packet[7001]), {1: [net.forwarded(packet[7001], 1)]})
    assert net.router.exec(binary(), "show", "rules").stdout.strip() == "no rules"
    net.bora.check_conservation()


def test_classes_are_shown(start):
    """Every class of every port has its counts, and they add up."""
    net = start(ENGINE + PORT.format("r0") + PORT.format("r1") + "[port.queues]\nclass = [{}, {}, {}]\n")
    shown = net.bora.show("classes")
    assert [(one["port"], one["class"]) for one in shown] == [("r0", 0), ("r0", 1), ("r1", 0), ("r1", 1), ("r1", 2)]
    marked = packets.udp4(net.behind4(0), net.behind4(1), tos=46 << 2)
    net.exchange(net.frame(marked), {1: [net.forwarded(marked, 1)]})
    shown = {(one["port"], one["class"]): one for one in net.bora.show("classes")}
    assert shown["r1", 1]["sent"] == 1
    assert all(one["enqueued"] == one["sent"] + one["held"] for one in shown.values())


@pytest.mark.parametrize("text, words", [
    (ENGINE + TWO + "[[rule]]\noutput = \"via 10.0.0.2 dev r7\"\n", ["line 7, column 10", "r7", "r0, r1"]),
    (ENGINE + TWO + "[fib]\nmemory = 8\n[workers]\nbudget = 9\n", ["fib.memory", "restart"]),
    (TWO, ["path cannot be changed", "restart"]),
    (ENGINE + TWO + "[workers]\ncores = [0, 4095]\n", ["no CPU 4095"]),
    (ENGINE + TWO + "[linux]\npunt_budget = 9\n", ["linux.punt_budget", "restart"]),
    (ENGINE + TWO + PORT.format("r9") + "[workers]\nbudget = 9\n", ["r9 does not exist", "r0, r1, r2"]),
    (ENGINE + TWO + PORT.format("lo"), ["lo is not an Ethernet interface"]),
    ("nonsense", ["line 1"]),
])
def test_a_bad_file_changes_nothing(start, tmp_path, text, words):
    """A file that is wrong, or that needs a restart, is refused with the reason, and nothing changes."""
    net = start(ENGINE + TWO)
    before = saved(net)
    for options in ([], ["--dry-run"]):
        done = apply(net, tmp_path, text, *options, check=False)
        assert done.returncode == 1, done.stdout
        for word in words:
            assert word in done.stderr, f"{word} is missing in {done.stderr}"
    assert saved(net) == before and ports(net) == ["r0", "r1"]
    assert net.probe() and net.probe(6)


def test_all_or_nothing(start, tmp_path):
    """If one interface refuses, everything is undone, including changes that had succeeded."""
    net, compiled = start(ENGINE + PORT.format("r0")), str(tmp_path / "foreign.o")
    source = Path(daemon.__file__).parent / "foreign_xdp.bpf.c"
    net.router.exec("clang", "-O2", "-g", "-target", "bpf", "-c", str(source), "-o", compiled)
    net.router.ip("link", "set", "r2", "xdp", "obj", compiled, "sec", "xdp")
    before = saved(net)
    done = apply(net, tmp_path, ENGINE + THREE + "[workers]\nbudget = 9\n[[rule]]\naction = \"drop\"\n", check=False)
    assert done.returncode == 1 and "r2 already has an XDP program" in done.stderr, done.stderr
    assert saved(net) == before and ports(net) == ["r0"] and net.bora.show("rules") == []
    assert "xdp" not in net.router.ip("link", "show", "r1").stdout, "r1 was left with the program"
    assert net.probe()
    net.bora.check_conservation()


def test_rules_need_the_engine(start, tmp_path):
    """Express has no rules, so a file with rules is refused while express runs."""
    net = start(TWO)
    done = apply(net, tmp_path, TWO + '[[rule]]\naction = "drop"\n', check=False)
    assert done.returncode == 1 and "need the engine" in done.stderr, done.stderr
    assert net.bora.show("rules") == [] and net.probe()


def test_rules_choose_the_engine(start):
    """Without `path`, rules choose the engine."""
    net = start(TWO + '[[rule]]\nprotocol = 200\naction = "drop"\n')
    assert {port["path"] for port in net.bora.show("ports")} == {"engine"} and net.probe()


@pytest.mark.alone
def test_unconfirmed_goes_back(start, tmp_path, say):
    """Without `bora confirm` everything is reverted, including ports, and other flows lose nothing."""
    net = start(ENGINE + TWO)
    before = saved(net)
    changed = ENGINE + THREE + '[workers]\nbudget = 9\n[[rule]]\nprotocol = 200\naction = "drop"\n'
    with load(net, both_families(net), RATE) as traffic:
        assert "bora confirm" in apply(net, tmp_path, changed, "--confirm", "2").stdout
        assert ports(net) == ["r0", "r1", "r2"] and "budget = 9" in saved(net)
        second = apply(net, tmp_path, ENGINE + TWO, check=False)
        assert second.returncode == 1 and "not confirmed" in second.stderr
        deadline = time.monotonic() + 4
        while saved(net) != before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert saved(net) == before and ports(net) == ["r0", "r1"]
        report = traffic.finish()
    say(f"unconfirmed: {report}")
    check_flows(net, report)
    late = net.router.exec(binary(), "confirm", check=False)
    assert late.returncode == 1 and "nothing waits" in late.stderr
    net.bora.check_conservation()


def test_confirmed_stays(start, tmp_path):
    """`bora confirm` in time keeps the change, and another apply is possible."""
    net = start(ENGINE + TWO)
    apply(net, tmp_path, ENGINE + TWO + "[workers]\nbudget = 9\n", "--confirm", "1")
    assert "confirmed" in net.router.exec(binary(), "confirm").stdout
    time.sleep(1.5)
    assert "budget = 9" in saved(net)
    apply(net, tmp_path, ENGINE + TWO)
    assert "budget = 300" in saved(net)


@pytest.mark.slow
@pytest.mark.parametrize("given", ["the new file", "another file"])
def test_a_restart_confirms_nothing(start, tmp_path, given):
    """Killed and restarted with an unconfirmed file, Bora still reverts it in time; another file is not reverted."""
    net = start(ENGINE + TWO)
    before, changed = saved(net), ENGINE + THREE + "[workers]\nbudget = 9\n"
    apply(net, tmp_path, changed, "--confirm", "8")
    deadline = time.monotonic() + 8
    net.bora.kill()
    if given == "another file":
        written(tmp_path, ENGINE + THREE)
    net.bora.start()
    assert ports(net) == ["r0", "r1", "r2"]
    time.sleep(max(0.0, deadline - time.monotonic()) + 0.5)
    if given == "the new file":
        assert saved(net) == before and "was not confirmed, and is taken back" in net.bora.output()
    else:
        assert ports(net) == ["r0", "r1", "r2"] and "budget = 300" in saved(net)
    late = net.router.exec(binary(), "confirm", check=False)
    assert late.returncode == 1 and "nothing waits" in late.stderr
    net.bora.stop()
    net.bora.start()
    assert "taken back" not in net.bora.output()


def test_dry_run_changes_nothing(start, tmp_path):
    """The list of changes is printed, and nothing is changed."""
    net = start(ENGINE + TWO)
    before = saved(net)
    done = apply(net, tmp_path, ENGINE + THREE + "[workers]\nbudget = 9\n", "--dry-run", "--confirm", "9").stdout
    assert "add port r2" in done and "budget 9" in done and "nothing was changed" in done
    assert saved(net) == before and ports(net) == ["r0", "r1"]
    assert json.loads(net.router.exec(binary(), "show", "classes", "--json").stdout)


def test_changes_are_shown_by_their_lines(start, tmp_path):
    """`diff`, `apply --dry-run`, `apply` and `rollback` print the lines that change, not only that some do."""
    rule = '[[rule]]\nprotocol = "udp"\naction = "{}"\n'.format
    net = start(ENGINE + TWO + rule("count"))
    path = tmp_path / "new.toml"
    path.write_text(ENGINE + TWO + rule("drop"))
    lines = '- action = "count"\n+ action = "drop"\n'
    for arguments in (["diff", path], ["apply", "--dry-run", path], ["apply", path]):
        assert lines in net.router.exec(binary(), *map(str, arguments)).stdout, arguments
    assert net.router.exec(binary(), "diff", str(path)).stdout == "no difference\n"
    assert '- action = "drop"\n+ action = "count"\n' in net.router.exec(binary(), "rollback").stdout



@pytest.mark.parametrize("new", ["q2", "r0"])
def test_every_worker_can_send_by_a_new_port(start, tmp_path, new):
    """With two workers, a port with two queues, or with one that they share, is added and removed."""
    two = '[workers]\ncores = [0, 1]\n'
    wide = "".join(PORT.format(f"q{n}") for n in range(2))
    net = start_on_wide_links(start, ENGINE + wide + two)
    assert len(net.bora.show("workers")) == 2
    for _ in range(3):
        apply(net, tmp_path, ENGINE + wide + PORT.format(new) + two)
        assert ports(net) == ["q0", "q1", new]
        apply(net, tmp_path, ENGINE + wide + two)
    assert ports(net) == ["q0", "q1"] and net.bora.alive() and "still send" not in net.bora.output()


def cores(*numbers):
    return f"[workers]\ncores = {list(numbers)}\n"


def widen_links(net):
    """Gives both ends of the first two links two queues."""
    for namespace, device in [(net.router, f"r{n}") for n in range(2)] + [(net.namespaces[1 + n], f"h{n}") for n in range(2)]:
        namespace.exec("ethtool", "-L", device, "rx", "2", "tx", "2")


# without `poll`: on two CPUs it leaves none for the load; router/worker/tests/share.rs tests that mode
@pytest.mark.slow
@pytest.mark.parametrize("mode, queues", [("adaptive", 1), ("adaptive", 2), ("moderated", 1), ("moderated", 2)])
@pytest.mark.alone
def test_workers_come_and_go_under_load(start, tmp_path, say, mode, queues):
    """The number and CPUs of workers change: no packet is lost, no flow reordered, every packet counted."""
    text = ENGINE + TWO
    net = start(text + f'[workers]\nmode = "{mode}"\n', widen_links if queues > 1 else None)
    took = []
    with load(net, both_families(net), RATE) as traffic:
        for wanted in [(0, 1), (1,), (0, 1), (), (1, 0), (0,)]:
            time.sleep(0.4)
            before = time.monotonic()
            done = apply(net, tmp_path, text + cores(*wanted) + f'mode = "{mode}"\n').stdout
            took.append(1000 * (time.monotonic() - before))
            assert f"workers: cores {list(wanted)}" in done, done
            workers = net.bora.show("workers")
            assert [worker["core"] for worker in workers] == (list(wanted) or [None])
            assert all(worker["mode"].startswith(mode) for worker in workers)
            if len(wanted) == 2:  # the owner of a queue counts what comes by it
                time.sleep(0.2)
                receivers = [worker for worker in net.bora.show("workers") if worker["rx_packets"] > 0]
                assert len(receivers) == queues
        time.sleep(0.4)
        report = traffic.finish()
    say(f"workers come and go, {mode}, {queues} queues: {report}; {', '.join(f'{one:.0f} ms' for one in took)}")
    assert report.sent > 2 * RATE, "the test sent too little to prove anything"
    check_flows(net, report)
    assert "stuck" not in net.bora.output() and net.bora.alive()
    now = net.bora.check_conservation()
    assert now["received"] >= report.received, "the counts of earlier workers are lost"
    assert sum(one["sent"] for one in net.bora.show("classes")) >= report.received
    net.bora.stop()


@pytest.mark.alone
def test_new_workers_take_over_held_packets(start, tmp_path, say):
    """New workers send, in order, the packets that their predecessors held back for a rate limit."""
    slow = '[port.queues]\nrate = "1Mbit"\n'
    net = start(ENGINE + THREE + slow)
    packet = packets.udp4(net.host4(0), net.host4(2), size=1000)
    for _ in range(100):  # 100 kB at 1 Mbit/s: 0.8 s
        net.hosts[0].send(net.frame(packet))
    before = time.monotonic()
    for wanted in [(0, 1), (1,), ()]:
        apply(net, tmp_path, ENGINE + THREE + slow + cores(*wanted))
    held = net.bora.totals()["held"]
    say(f"3 changes took {1000 * (time.monotonic() - before):.0f} ms, {held} packets still wait")
    assert arrived(net, 2, net.forwarded(packet, 2), 100, 5) == 100
    net.bora.check_conservation()
    shown = [one for one in net.bora.show("classes") if one["port"] == "r2"]
    assert sum(one["held"] for one in shown) == 0


def test_rule_counts_outlive_workers(start, tmp_path):
    """Counts of rules continue when workers change, and restart when rules change."""
    rule = '[[rule]]\nprotocol = "udp"\n'
    net = start(ENGINE + TWO + rule)
    packet = packets.udp4(net.behind4(0), net.behind4(1))

    def counted(more):
        net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})
        deadline = time.monotonic() + 1
        while (found := net.bora.show("rules")[0]["packets"]) != more and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    assert counted(1) == 1
    apply(net, tmp_path, ENGINE + TWO + rule + cores(0, 1))
    assert counted(2) == 2
    apply(net, tmp_path, ENGINE + TWO + '[[rule]]\nprotocol = 17\nclass = 1\n' + cores(0, 1))
    assert counted(1) == 1


def test_too_many_workers_are_refused(start, tmp_path):
    """More workers than the packet memory allows are refused, and nothing changes."""
    net = start(ENGINE + TWO)
    for options in ([], ["--dry-run"]):
        done = apply(net, tmp_path, ENGINE + TWO + cores(*[0] * 40), *options, check=False)
        assert done.returncode == 1 and "no packet memory for 40 workers" in done.stderr, done.stderr
    assert len(net.bora.show("workers")) == 1 and net.probe()


@pytest.mark.slow
def test_a_shaped_port_may_leave_slowly(start, tmp_path):
    """A removed slow port still sends the packets it holds, and no other port gets its number before."""
    slow = '[port.queues]\nrate = "100Kbit"\n'
    net = start(ENGINE + THREE + slow)
    packet = packets.udp4(net.host4(0), net.host4(2), size=1000)
    for _ in range(60):  # 62 kB at 100 kbit/s: five seconds
        net.hosts[0].send(net.frame(packet))
    apply(net, tmp_path, ENGINE + TWO)
    assert "still send" in net.bora.output()
    assert arrived(net, 2, net.forwarded(packet, 2), 60, 12) == 60
    net.bora.check_conservation()
    deadline = time.monotonic() + 5
    while apply(net, tmp_path, ENGINE + THREE, check=False).returncode and time.monotonic() < deadline:
        time.sleep(0.2)  # the kernel frees the queue when the socket closes
    assert ports(net) == ["r0", "r1", "r2"] and net.probe(to=2)
    assert next(port["index"] for port in net.bora.show("ports") if port["name"] == "r2") == 2


def start_on_wide_links(start, text):
    """The network with three more veths q0, q1, q2 with two queues each, and Bora on it."""
    def widen(net):
        for n in range(3):
            queues = "numtxqueues 2 numrxqueues 2".split()
            net.router.ip("link", "add", f"q{n}", *queues, "type", "veth", "peer", "name", f"p{n}", *queues)
            net.router.ip("link", "set", f"q{n}", "up")
            net.router.ip("link", "set", f"p{n}", "up")
    return start(text, widen)


@pytest.mark.alone
def test_large_rule_sets(start, tmp_path, say):
    """A thousand rules take effect under load, at once, and no packet is lost."""
    net = start(ENGINE + TWO)
    rules = "".join(f'[[rule]]\nsource = "10.{n // 250}.{n % 250}.0/24"\nprotocol = "tcp"\n'
                    f'destination_ports = "{n + 1}-{n + 9}"\naction = "drop"\n' for n in range(1000))
    took = []
    with load(net, both_families(net), RATE) as traffic:
        for text in (rules, "", rules, ""):
            before = time.monotonic()
            apply(net, tmp_path, ENGINE + TWO + text)
            took.append(1000 * (time.monotonic() - before))
            time.sleep(0.3)
        report = traffic.finish()
    say(f"1000 rules, none, 1000, none: {', '.join(f'{one:.0f} ms' for one in took)}; {report}")
    check_flows(net, report)
    net.bora.check_conservation()
