"""`bora prove`: Linux itself says, packet by packet, whether Bora does what it does."""

import json
import random
import subprocess
import time

import pytest

from lib.bora import binary
from lib.topology import Network

ROUTES = """
-4 route add 203.0.113.0/24 via {gateway4_1}
-4 route add 203.0.113.128/25 via {gateway4_2} mtu 1200
-4 route add 203.0.113.64/26 nexthop via {gateway4_1} weight 3 nexthop via {gateway4_2}
-4 route add blackhole 192.0.2.0/26
-4 route add unreachable 192.0.2.64/26
-4 route add prohibit 192.0.2.128/26
-4 route add throw 192.0.2.192/26
-4 route add 192.0.2.192/26 tos 0x10 via {gateway4_1} metric 5
-4 route add default via {gateway4_2} metric 100
-4 route add default via {gateway4_1} metric 50
-6 route add 2001:db8:100::/48 via {gateway6_1}
-6 route add 2001:db8:100:8000::/49 nexthop via {gateway6_1} nexthop via {gateway6_2} weight 2
-6 route add blackhole 2001:db8:101::/48
-6 route add default via {gateway6_2} metric 7
-4 rule add from 198.18.7.0/24 lookup 100 pref 100
-4 rule add ipproto udp dport 4000-4999 lookup 101 pref 101
-4 rule add to 203.0.113.200 unreachable pref 102
-4 route add default via {gateway4_2} table 100
-4 route add 203.0.113.0/25 via {gateway4_2} table 101
-6 rule add from 2001:db8:f0::/64 lookup 100 pref 100
-6 route add default via {gateway6_1} table 100
"""


@pytest.fixture
def net(bora_path):
    network = Network(bora_path)
    yield network
    network.close()


def configure(net):
    """Routes of many kinds, and rules."""
    names = {f"gateway{family}_{link}": (net.host4 if family == 4 else net.host6)(link) for family in (4, 6) for link in (1, 2)}
    for line in ROUTES.format(**names).strip().splitlines():
        net.router.ip(*line.split())


def prove(net, *options, check=True):
    """What `bora prove` says, and its exit code."""
    done = net.router.exec(binary(), "prove", "--json", *options, check=False, timeout=600)
    assert not check or done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout) if done.stdout.startswith("{") else done, done.returncode


def test_nothing_differs(net):
    """Routes of all kinds and rules: every answer is Linux's, and asking counts no packets."""
    configure(net)
    net.bora.wait_in_sync()
    before = net.bora.totals()["received"]
    proof, code = prove(net)
    progress = proof["progress"]
    assert code == 0 and progress["differ"] == 0, json.dumps(proof, indent=1)
    assert progress["compared"] + progress["looked_up"] == progress["total"] > 1000 and progress["same"] > 100, progress
    assert progress["unsettled"] == 0 and proof["state"] == "done", proof
    assert net.bora.totals()["received"] - before < 100, "questions were counted as packets"
    again, _ = prove(net)
    assert again["progress"]["hash"] == progress["hash"], "the same tables have the same hash"
    net.router.ip("route", "add", "198.51.100.0/24", "via", net.host4(1))
    other, _ = prove(net)
    assert other["progress"]["hash"] != progress["hash"]


def test_sources_that_are_no_hosts(net):
    """Linux drops packets whose sources are in routes of type local, broadcast or multicast, in whichever table."""
    net.router.ip("rule", "add", "to", "203.0.113.77", "lookup", "100", "pref", "100")
    net.router.ip("route", "add", "default", "via", net.host4(1))
    for number, kind in enumerate(("local", "broadcast", "multicast")):
        net.router.ip("route", "add", kind, f"192.0.2.{64 * number}/26", "dev", "lo", "table", "main")
    net.bora.wait_in_sync()
    proof, _ = prove(net)
    assert proof["progress"]["differ"] == 0, json.dumps(proof, indent=1)
    net.router.ip("route", "flush", "table", "main", "type", "local")
    net.bora.wait_in_sync()
    proof, _ = prove(net)
    assert proof["progress"]["differ"] == 0, json.dumps(proof, indent=1)


def many_rules(net, chance):
    """Twenty tables, and two hundred rules of all kinds that lead to them."""
    for table in range(200, 220):
        for _ in range(20):
            prefix = f"203.0.{chance.randrange(256)}.0/{chance.choice((24, 25, 30, 32))}"
            how = chance.choice((f"via {net.host4(1)}", f"via {net.host4(2)}", "unreachable", "throw"))
            yield f"route replace {prefix} {how} table {table}" if how.startswith("via") else f"route replace {how} {prefix} table {table}"
            yield f"route replace 2001:db8:{chance.randrange(16):x}00::/{chance.choice((40, 48, 64))} via {net.host6(1 + table % 2)} table {table}"
    for preference in range(1000, 1200):
        table = chance.randrange(200, 220)
        what = chance.choice((f"from 198.18.{chance.randrange(8)}.0/24", f"to 203.0.{chance.randrange(256)}.0/24", f"iif r{chance.randrange(3)}",
                              f"tos {chance.choice(('0x08', '0x10', '0x04'))}", f"ipproto udp dport {chance.randrange(1, 5000)}",
                              f"ipproto tcp sport {chance.randrange(1, 5000)}-6000", "fwmark 7", f"not from 198.18.{chance.randrange(8)}.0/24"))
        yield f"rule add pref {preference} {what} {'unreachable' if what.startswith('to') and table == 200 else f'lookup {table}'}"


@pytest.mark.slow
def test_many_rules(net, say):
    """Hundreds of rules and twenty tables."""
    lines = list(many_rules(net, random.Random(5)))
    net.router.ip("route", "add", "default", "via", net.host4(1))
    net.router.batch(lines)
    net.bora.wait_in_sync(20)
    proof, _ = prove(net, "--input", "r0")
    progress = proof["progress"]
    say(f"{progress['compared']} answers in {proof['seconds']:.1f} s; left to Linux: {progress['left_to_linux']}")
    assert progress["differ"] == 0 and progress["unsettled"] == 0, json.dumps(proof["differences"][:5], indent=1)
    assert progress["same"] > 1000, progress


@pytest.mark.slow
def test_one_input(net):
    """`--input` asks only about what comes in there; a name that is none is named."""
    proof, code = prove(net, "--input", "r1")
    assert code == 0 and proof["inputs"] == ["r1"]
    done, code = prove(net, "--input", "nothing", check=False)
    text = done.stderr if not isinstance(done, dict) else done["why"]
    assert code == 1 and "nothing is neither a port nor a device" in text, done


@pytest.mark.slow
def test_linux_is_asked_all_the_time(net):
    """`show sync` counts the answers; changes are asked about."""
    deadline = time.monotonic() + 30
    while net.bora.show("sync")["linux"]["compared"] < 50:
        assert time.monotonic() < deadline, net.bora.show("sync")["linux"]
        time.sleep(0.2)
    configure(net)
    before = net.bora.show("sync")["linux"]["compared"]
    while net.bora.show("sync")["linux"]["compared"] < before + 50:
        assert time.monotonic() < deadline, net.bora.show("sync")["linux"]
        time.sleep(0.2)
    told = net.bora.show("sync")["linux"]
    assert told["differ"] == 0 and told["distrusted"] == [], told


@pytest.mark.slow
def test_pause(net):
    """A proof that is paused says so, and goes on."""
    configure(net)
    for _ in range(5):
        with subprocess.Popen(["ip", "netns", "exec", net.router.name, binary(), "prove", "--json", "--anew"],
                              stdout=subprocess.PIPE, text=True) as shown:
            time.sleep(0.05)
            paused = net.router.exec(binary(), "prove", "--pause", check=False)
            proof = json.loads(shown.communicate(timeout=60)[0])
        if paused.returncode == 0:
            assert proof["state"] == "paused", proof
            done, _ = prove(net)
            assert done["state"] == "done" and done["progress"]["differ"] == 0, done
            return
        assert "no proof runs" in paused.stderr, paused.stderr  # it was done already
    pytest.fail("the proof was too fast for this test")


@pytest.mark.slow
def test_show_sync_proves(net):
    """`show sync --prove` waits for a proof, and the report has what it found."""
    configure(net)
    net.bora.wait_in_sync()
    text = net.router.exec(binary(), "show", "sync", "--prove", timeout=120).stdout
    assert "proof for all addresses, " in text and "different: 0" in text, text
    proof = net.bora.show("sync")["linux"]["proof"]
    assert proof["differ"] == 0 and proof["compared"] > 1000, proof
