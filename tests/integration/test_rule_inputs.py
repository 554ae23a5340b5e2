"""Rules for what comes in by a device on a port, which may come and go while Bora runs."""

import time

import pytest

from lib import packets
from lib.bora import Bora, binary

pytestmark = pytest.mark.bora
DEVICE, MAC = "mv0", "02:bc:00:00:07:01"
FILE = f"""path = "engine"
[[port]]
name = "r0"
[[port]]
name = "r1"
[[rule]]
in_port = "{DEVICE}"
action = "drop"
[[rule]]
in_port = "r0"
"""
SECONDS = 10


@pytest.fixture
def net(kernel_net, tmp_path):
    """Bora with a rule for a device that does not exist yet."""
    config = tmp_path / "bora.toml"
    config.write_text(FILE)
    checked = kernel_net.router.exec(binary(), "check", str(config)).stdout
    assert checked.splitlines()[1:] == [f"rule 1 matches nothing until there is a device {DEVICE} on the ports"]
    kernel_net.bora = Bora(kernel_net.router, [], None, ["--config", str(config)])
    kernel_net.bora.start()
    kernel_net.bora.wait_in_sync()
    for port in kernel_net.hosts:
        port.drain()
    return kernel_net


def why_nothing(net):
    """Why the rules match nothing, as `bora show rules` says."""
    return [rule["why_nothing"] for rule in net.bora.show("rules")]


def add(net, mode):
    """Makes the device; returns when Bora knows it."""
    net.router.batch([f"link add link r0 name {DEVICE} address {MAC} type macvlan mode {mode}", f"link set {DEVICE} up"])
    left = mode == "source"
    deadline = time.monotonic() + SECONDS
    while (f"{DEVICE} is left to Linux" in str(why_nothing(net)[0])) != left or (not left and why_nothing(net)[0]):
        assert time.monotonic() < deadline, net.bora.show("rules")
        time.sleep(0.02)


def send(net):
    """Sends a packet to the port's address, which goes on, and one to the device's, which does not."""
    packet = packets.udp4(net.behind4(0), net.behind4(1))
    frame = net.frame(packet)
    to_device = packets.mac(MAC) + frame[6:]
    net.exchange([frame, to_device], {1: [net.forwarded(packet, 1)]})


def counts(net):
    return [rule["packets"] for rule in net.bora.show("rules")]


def test_a_device_comes_and_goes(net):
    """The rule matches nothing while the device does not exist, and what comes in by it afterwards. Counts stay."""
    assert why_nothing(net) == [f"{DEVICE} does not exist", None]
    assert f"{DEVICE} does not exist" in net.router.exec(binary(), "show", "rules").stdout
    packet = packets.udp4(net.behind4(0), net.behind4(1))
    net.exchange(net.frame(packet), {1: [net.forwarded(packet, 1)]})
    assert counts(net) == [0, 1]
    for dropped in (1, 2):
        add(net, "bridge")
        send(net)
        assert counts(net) == [dropped, 1 + dropped]
        net.router.ip("link", "del", DEVICE)
        net.bora.wait_in_sync()
        assert why_nothing(net)[0] == f"{DEVICE} does not exist"


def test_a_device_that_is_left_to_linux(net):
    """`bora show rules` says why the rule matches nothing."""
    add(net, "source")
    assert "source" in why_nothing(net)[0]
