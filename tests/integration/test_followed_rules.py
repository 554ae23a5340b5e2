"""Rules of nftables that need no connection: Bora follows them itself, and forwards and drops what Linux would."""

import json
import time

import pytest
from lib.packets import udp4
from lib.topology import BEHIND4, BEHIND6

from test_guard import ALLOWED, FORBIDDEN, guarded, passes, shell  # noqa: F401
from test_prove import prove

FOLLOW_SECONDS = 30  # Bora reads the rules again after ten times what a look took
# An edge of a network: bogons, services that are closed, a chain for what comes from one side, and a rule that only Linux can follow.
EDGE = """nft 'table inet edge {
    set bogons4 { type ipv4_addr; flags interval; elements = { 0.0.0.0/8, 100.64.0.0/10, 192.0.2.0/24, 240.0.0.0/4 }; }
    set bogons6 { type ipv6_addr; flags interval; elements = { 3fff::/20, 5f00::/16 }; }
    chain in { type filter hook input priority 0; policy drop; ct state established,related accept; udp dport 179 accept; }
    chain raw { type filter hook prerouting priority raw; ip saddr @bogons4 counter drop; ip6 saddr @bogons6 counter drop; }
    chain services { udp dport { 4440-4448, 11211 } counter drop; udp dport 6666 limit rate 1000/second accept; }
    chain forward { type filter hook forward priority 0; policy drop; iifname "r0" jump services; oifname { "r0", "r1", "r2" } counter accept; }
}'"""


def wait_for_bora(net):
    """Until Bora itself forwards what is allowed and drops what is not; nothing forbidden passes before."""
    deadline = time.monotonic() + FOLLOW_SECONDS
    for family in (4, 6):
        before, now = 0, 0
        while now - before < 40:
            assert time.monotonic() < deadline, (net.bora.show("drops"), net.bora.show("sync"))
            before = decided(net)
            assert passes(net, family, ALLOWED) == 20
            assert passes(net, family, FORBIDDEN) == 0
            now = decided(net)


def decided(net):
    """Packets that Bora has forwarded, or dropped by rules."""
    totals = net.bora.totals()
    return totals["sent"] + totals["drops"].get("firewall", 0)


@pytest.fixture
def edge(guarded):  # noqa: F811
    shell(guarded, EDGE)
    yield guarded
    shell(guarded, "nft delete table inet edge")


def test_bora_follows_rules_that_need_no_connection(edge):
    """What a change forbids does not pass from then on: Linux decides until Bora has read the rules."""
    wait_for_bora(edge)
    bogons = {4: BEHIND4[0], 6: BEHIND6[0]}
    for add, undo in (
        (["add rule inet edge services udp dport 5555 drop"], ["flush chain inet edge services", "add rule inet edge services udp dport 4444 drop"]),
        ([f"add element inet edge bogons{family} {{ {bogons[family]} }}" for family in (4, 6)],
         [f"delete element inet edge bogons{family} {{ {bogons[family]} }}" for family in (4, 6)]),
        (["add chain inet edge late { type filter hook postrouting priority 0; policy drop; }"], ["delete chain inet edge late"]),
    ):
        shell(edge, f"nft '{'; '.join(add)}'")
        assert passes(edge, 4, ALLOWED) == passes(edge, 6, ALLOWED) == 0, f"at once: {add}"
        time.sleep(1)
        assert passes(edge, 4, ALLOWED) == passes(edge, 6, ALLOWED) == 0, f"later: {add}"
        shell(edge, f"nft '{'; '.join(undo)}'")
        wait_for_bora(edge)


def counted(net):
    """What rules of nftables have counted in Bora and in Linux together, by chain and handle: packets and octets."""
    total = {}
    for rule in net.bora.show("rules"):
        assert rule["of"] == "nftables"
        total[rule["name"].split()[-1], rule["number"]] = [rule["packets"], rule["octets"]]
    text = shell(net, "nft -j list table inet edge").stdout
    for rule in (one["rule"] for one in json.loads(text)["nftables"] if "rule" in one):
        for part in rule["expr"]:
            if "counter" in part:
                both = total.setdefault((rule["chain"], rule["handle"]), [0, 0])
                both[0] += part["counter"]["packets"]
                both[1] += part["counter"]["bytes"]
    return total


def test_no_packet_is_counted_twice_or_not_at_all(edge):
    wait_for_bora(edge)
    before = counted(edge)
    octets = len(udp4(edge.behind4(0), edge.behind4(1), dport=ALLOWED))
    assert passes(edge, 4, ALLOWED) == 20 and passes(edge, 4, FORBIDDEN) == 0
    after = counted(edge)
    more = {place: [now - then for now, then in zip(after[place], before[place])] for place in after}
    grown = {place: (packets, octets) for place, (packets, octets) in more.items() if packets}
    assert sorted(grown.values()) == [(20, 20 * octets)] * 2, (more, edge.bora.show("rules"))


def test_what_bora_follows_is_told(edge):
    wait_for_bora(edge)
    lines = edge.bora.show("sync")["rules"]
    assert any("IPv6: Bora follows nftables' rules itself" in line for line in lines), lines
    assert any("rule 2 of chain inet edge services" in line and "limit" in line for line in lines), lines
    assert edge.bora.show("sync")["flows"]["lines"] == [], "nothing keeps packets with Linux"


def test_rules_are_no_difference_between_bora_and_linuxs_routes(edge):
    """Linux is asked for routes, of which netfilter knows nothing."""
    wait_for_bora(edge)
    proof, code = prove(edge)
    assert code == 0 and proof["progress"]["differ"] == 0, proof
