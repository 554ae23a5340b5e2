"""Linux's tables have more entries than the XDP program's maps: packets go the right way, and Bora reports the limit."""

import ipaddress

import pytest

from lib import packets, routes
from lib.bora import Bora
from lib.routes import RTM_DELROUTE, RTM_NEWROUTE, local_message, message

pytestmark = pytest.mark.bora

FIRST = int(ipaddress.ip_address("20.0.0.0"))
MANY = 70_000  # the program's maps hold 65 536 addresses of the router, and as many routes with an MTU
MTU = 1300
SECONDS = 120  # on a machine that does other things beside it
ADDRESSES = [(FIRST + n).to_bytes(4, "big") for n in range(MANY)]
SOME = [str(ipaddress.ip_address(ADDRESSES[n])) for n in (0, MANY // 2, MANY - 1)]


def start(net, tier):
    """Starts Bora, which must be in sync with Linux."""
    net.bora = Bora(net.router, ["r0", "r1", "r2"], tier)
    net.bora.start()
    net.bora.wait_in_sync(SECONDS)


def write(net, messages):
    """Writes routes into the kernel and waits until Bora is in sync."""
    routes.write(net.router.name, messages)
    net.bora.wait_in_sync(SECONDS)


def by_express(net):
    """Packets that it has forwarded."""
    return sum(port["tx_packets"] for port in net.bora.show("ports"))


def mtus_guarded(net):
    """The IP versions that express leaves to Linux where it asks Linux's FIB."""
    return [line.split(":")[0] for line in net.bora.show("sync")["guard"] if "MTU of their own" in line]


def check_mtus(net, to_linux):
    """Packets that fit are forwarded, by the expected tier; Linux answers those that are too big."""
    before = by_express(net)
    for target in SOME:
        assert net.path_of(packets.udp4(net.behind4(0), target, size=MTU - 28)) == 1
        too_big = packets.udp4(net.behind4(0), target, size=MTU - 27, flags="DF")
        error = packets.icmp4_error(3, 4, net.router4(0), too_big, rest=bytes(2) + MTU.to_bytes(2, "big"))
        net.exchange(net.frame(too_big), {0: [error]})
    assert by_express(net) - before == (0 if to_linux else len(SOME))


def test_more_route_mtus_than_room(kernel_net):
    """Where express asks Linux's FIB, it leaves IPv4 to Linux until the MTUs of all routes fit again. It still forwards IPv6."""
    net = kernel_net
    start(net, "express")
    gateway = ipaddress.ip_address(net.host4(1)).packed

    def with_mtu(kind, addresses):
        return (message(kind, address, 32, gateway, mtu=MTU) for address in addresses)

    write(net, with_mtu(RTM_NEWROUTE, ADDRESSES))
    assert mtus_guarded(net) == ["IPv4"]
    check_mtus(net, to_linux=False)
    net.ip("rule add pref 50 to 192.0.2.77 table 100", undo="rule del pref 50")  # now express asks Linux for each packet
    net.bora.wait_in_sync(SECONDS)
    check_mtus(net, to_linux=True)
    before = by_express(net)
    assert net.path_of(packets.udp6(net.behind6(0), net.behind6(1))) == 1
    assert by_express(net) == before + 1, "IPv6 has room"
    few = [ADDRESSES[0], ADDRESSES[MANY // 2], ADDRESSES[-1]]
    write(net, with_mtu(RTM_DELROUTE, [address for address in ADDRESSES if address not in few]))
    assert mtus_guarded(net) == []
    check_mtus(net, to_linux=False)
    net.bora.check_conservation()


def test_more_addresses_than_room(kernel_net, bora_path):
    """The router answers on all of them."""
    net = kernel_net
    start(net, bora_path)
    write(net, (local_message(RTM_NEWROUTE, address) for address in ADDRESSES))
    assert "reach Linux a longer way" in net.bora.output()
    for target in SOME:
        packet = packets.udp4(net.behind4(0), target)
        net.exchange(net.frame(packet), {0: [packets.icmp4_error(3, 3, target, packet)]})
    write(net, (local_message(RTM_DELROUTE, address) for address in ADDRESSES))
    for target in SOME:
        assert net.path_of(packets.udp4(net.behind4(0), target)) is None
    net.wait_until_forwarding()
    net.bora.check_conservation()
