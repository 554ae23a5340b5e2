"""Ports, devices and the workers' tables follow Linux: after random changes they are what they would be if built anew."""

import random
import time

import pytest

from lib.bora import Bora

pytestmark = [pytest.mark.bora, pytest.mark.slow]

SEEDS = [1, 2]
ROUNDS = 25
KINDS = ["vlans", "macvlans", "bridges", "tunnels"]  # those that this kernel has
CHANGES = 12  # in each round, at most


def change(source):
    """A random command. Many fail, which does no harm."""
    port, vlan, number = source.choice(["r0", "r1"]), source.randrange(10, 12), source.randrange(2)
    device = source.choice([port, f"{port}.{vlan}", f"mac{number}"])
    key = source.choice(["forwarding", "rp_filter", "accept_local", "send_redirects", "ignore_routes_with_linkdown"])
    return source.choice([
        f"ip link add {port}.{vlan} link {port} type vlan id {vlan}",
        f"ip link set {port}.{vlan} up",
        f"ip link del {port}.{vlan}",
        f"ip link add mac{number} link {port} up type macvlan mode {source.choice(['bridge', 'bridge', 'private', 'passthru'])}",
        f"ip link del mac{number}",
        f"ip link set {device} {source.choice(['up', 'down'])}",
        f"ip link set {device} mtu {source.choice([1400, 1500])}",
        f"ip link set {device} promisc {source.choice(['on', 'off'])}",
        f"ip link set {device} address 02:00:00:00:77:0{number}",
        f"ip addr add 10.{100 + number}.{vlan}.1/24 dev {device}",
        f"ip addr flush dev {device} to 10.{100 + number}.0.0/16",
        f"ip link add br{number} up type bridge",
        f"ip link set {port} master br{number}",
        f"ip link del br{number}",
        f"ip link add vx{number} up type vxlan id {number} dstport 4789 remote 10.100.{vlan}.9 local 10.{100 + number}.{vlan}.1",
        f"ip link del vx{number}",
        f"ip link add gre{number} type gre remote 10.100.{vlan}.9 local 10.{100 + number}.{vlan}.1",
        f"ip link set gre{number} up",
        f"ip link del gre{number}",
        f"ip rule add pref {100 + number} iif {device} table {200 + number}",
        f"ip rule del pref {100 + number}",
        f"ip link add vrf{number} type vrf table {300 + number}",
        f"ip link set {device} master vrf{number}",
        f"ip link set {device} nomaster",
        f"ip link del vrf{number}",
        f"sysctl -qw net.ipv4.conf.{device.replace('.', '/')}.{key}={source.randrange(2)}",
        f"sysctl -qw net.ipv6.conf.{source.choice(['all', device.replace('.', '/')])}.{source.choice(['forwarding', 'disable_ipv6'])}={source.randrange(2)}",
        f"tc qdisc replace dev {device} root tbf rate 1gbit burst 32k latency 10ms",
        f"tc qdisc del dev {device} root",
        f"nft add table {source.choice(['ip', 'inet'])} t{number}",
        f"nft add chain inet t{number} c {{ type filter hook forward priority 0; }}",
        f"nft delete table inet t{number}",
    ])


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_followed_is_what_is_there(kernel_net, bora_path, seed, say):
    """`--verify` goes through ports, devices and rules once more, and says if anything was other than it should be."""
    net, source = kernel_net, random.Random(seed)
    net.bora = Bora(net.router, ["r0", "r1", "r2"], bora_path)
    net.bora.start()
    done, devices = [], set()
    for number in range(ROUNDS):
        for _ in range(1 + source.randrange(CHANGES)):
            done.append(change(source))
            net.router.exec(*done[-1].split(), check=False)
        time.sleep(source.choice([0, 0.05, 0.3, 1.2]))
        sync = net.bora.show("sync", "--verify")
        assert sync["differences"] == [] and sync["unverified"] is None, (number, sync, done)
        assert "and are corrected" not in net.bora.output(), (number, done)
        for kind in KINDS:
            report = net.bora.show(kind)
            devices |= {str(device) for device in report.get("devices", report.get(kind))}
    say(f"{len(done)} changes, {len(devices)} states of devices")
    assert len(done) > ROUNDS // 2
