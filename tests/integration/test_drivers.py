"""Interfaces and queues that refuse steps, and that change while Bora runs."""

import pytest

from lib import bora
from lib.udp import UdpNetwork
from lib.xsk import Occupier

pytestmark = pytest.mark.bora


@pytest.fixture
def network(request):
    """A network; r0 has as many queues as the test is parametrised with."""
    network = UdpNetwork(getattr(request, "param", 1))
    yield network
    network.close()


@pytest.mark.parametrize("network", [70], indirect=True)
def test_more_than_64_queues(network):
    """Each queue gets a socket of its own port and forwards."""
    network.start("engine")
    network.wait_until_forwarding()
    assert (network.port(0)["queues"], network.port(0)["sockets"]) == (70, 70)
    assert network.exchange(1000) == 1000
    port = network.port(0)
    assert port["rx_packets"] >= 1000 and "no_socket" not in port["passed_by_reason"], port
    network.bora.check_conservation()


@pytest.mark.parametrize("network", [150], indirect=True)
def test_more_queues_than_sockets(network):
    """Packets of queues that have no socket go to Linux, never to the next port."""
    network.start("engine")
    network.wait_until_forwarding()
    port = network.port(0)
    assert (port["queues"], port["sockets"]) == (150, 128)
    assert any("128 of its 150 receive queues" in text and "ethtool -L r0" in text for text in port["notices"]), port
    assert "128 of its 150 receive queues" in network.bora.output()
    assert network.exchange(1000) == 1000
    assert network.port(0)["passed_by_reason"]["no_socket"] > 50
    network.bora.check_conservation()


@pytest.mark.parametrize("network", [2], indirect=True)
def test_a_queue_that_refuses(network):
    """Another program occupies one of two queues: the other queue gets its socket, and nothing is lost."""
    occupier = Occupier(network.router, "r0", 1)
    try:
        network.start("engine")
        network.wait_until_forwarding()
        port = network.port(0)
        assert (port["path"], port["sockets"], port["af_xdp"]) == ("engine", 1, "copy")
        [refused] = port["refused"]
        assert refused["step"] == "copy on queue 1" and "in use" in refused["reason"], refused
        text = network.router.exec(bora.binary(), "show", "ports").stdout
        assert "r0: copy on queue 1 refused: " in text and "1 of its 2 receive queues" in text, text
        assert network.exchange(200) == 200
        assert network.port(0)["passed_by_reason"]["no_socket"] > 20
        network.bora.check_conservation()
    finally:
        occupier.close()


def test_no_socket_at_all(network):
    """With `--path engine` the error names the refused step; `--path auto` works without AF_XDP."""
    occupier = Occupier(network.router, "r0", 0)
    try:
        arguments = ("run", "--port", "r0", "--port", "r1", "--path")
        done = network.router.exec(bora.binary(), *arguments, "engine", check=False, timeout=20)
        assert done.returncode == 1, done
        assert "the engine cannot have r0: copy refused: queue 0 of r0 is in use" in done.stderr, done.stderr
        assert "xdp" not in network.router.ip("link", "show", "r0").stdout
        network.start("auto")
        network.wait_until_forwarding()
        assert network.port(0)["path"] == "express"
    finally:
        occupier.close()


def set_mtu(network, mtu):
    for link, host in enumerate(network.hosts):
        host.ip("link", "set", "e0", "mtu", str(mtu))
        network.router.ip("link", "set", f"r{link}", "mtu", str(mtu))


def test_mtu_raised_and_lowered(network):
    """While frames may not fit the packet buffers, the port is left to Linux."""
    network.start("engine")
    network.wait_until_forwarding()
    set_mtu(network, 3000)
    for link in (0, 1):
        port = network.wait_for(link, path="kernel", sockets=0)
        assert "MTU 3000" in port["why"], port
    assert network.exchange(50, size=2800) == 50
    assert network.port(0)["passed_by_reason"]["left_to_linux"] >= 50
    set_mtu(network, 1500)
    for link in (0, 1):
        network.wait_for(link, path="engine", sockets=1)
    network.wait_until_forwarding()
    before = network.port(1)["tx_packets"]
    assert network.exchange(50) == 50
    assert network.port(1)["tx_packets"] >= before + 50
    network.bora.check_conservation()


@pytest.mark.parametrize("network", [4], indirect=True)
def test_queues_added_and_removed(network):
    """`ethtool -L` while the engine runs: the new queues get sockets."""
    ethtool = ("ethtool", "-L", "r0", "rx")
    network.hosts[0].exec("ethtool", "-L", "e0", "tx", "2")
    network.router.exec(*ethtool, "2")
    network.start("engine")
    network.wait_until_forwarding()
    assert network.port(0)["sockets"] == 2
    network.router.exec(*ethtool, "4")
    network.hosts[0].exec("ethtool", "-L", "e0", "tx", "4")
    network.wait_for(0, sockets=4, queues=4, path="engine")
    network.wait_until_forwarding()
    before = network.port(0)["passed_by_reason"].get("no_socket", 0)
    assert network.exchange(200) == 200
    assert network.port(0)["passed_by_reason"].get("no_socket", 0) == before
    network.bora.check_conservation()


def test_interface_down_and_up(network, bora_path):
    """After down and up it forwards as before."""
    network.start(bora_path)
    network.wait_until_forwarding()
    network.router.ip("link", "set", "r0", "down")
    network.wait_for(0, state="down")
    network.router.ip("link", "set", "r0", "up")
    network.wait_for(0, state="up")
    network.wait_until_forwarding()
    assert network.exchange(50) == 50
    assert network.port(0)["path"] == bora_path


def test_interface_made_again(network, bora_path):
    """If a port's interface is deleted, a new one of the same name becomes the port."""
    network.start(bora_path)
    network.wait_until_forwarding()
    network.router.ip("link", "del", "r0")
    network.wait_for(0, state="down")
    network.connect(0)
    network.wait_for(0, state="up", path=bora_path)
    network.wait_until_forwarding()
    before = network.port(0)["rx_packets"]
    assert network.exchange(50) == 50
    assert network.port(0)["rx_packets"] >= before + 50
    network.bora.check_conservation()


def has_program(network, link):
    return "xdp" in network.router.ip("link", "show", f"r{link}").stdout


def test_stop_leaves_the_program_and_detach_takes_it_off(network, bora_path):
    """Attaching resets the link of some cards, so Bora attaches only once; `--detach` works without a running Bora, too."""
    network.start(bora_path)
    network.wait_until_forwarding()
    stop = (bora.binary(), "stop")
    network.router.exec(*stop)
    assert network.bora.process.wait(10) == 0, network.bora.output()
    assert has_program(network, 0) and has_program(network, 1)
    assert network.exchange(50) == 50
    assert "stop --detach" in network.router.exec(*stop).stdout
    assert has_program(network, 0)
    network.start(bora_path)
    assert network.bora.output().count("taken over") == 2, network.bora.output()
    network.wait_until_forwarding()
    network.bora.kill()
    assert "2 interfaces" in network.router.exec(*stop, "--detach").stdout
    assert not has_program(network, 0) and not has_program(network, 1)


def test_generic_xdp_is_taken_over_as_such(network):
    """A killed Bora's program on an interface whose driver knows no XDP, here a macvlan on another port, stays where it is."""
    network.router.ip("link", "add", "mv0", "link", "r0", "type", "macvlan", "mode", "bridge")
    network.router.ip("link", "set", "mv0", "up")
    network.bora = bora.Bora(network.router, ["r0", "mv0"], "express")
    network.bora.start()
    modes = lambda: [port["xdp"] for port in network.bora.show("ports")]  # noqa: E731
    assert modes() == ["driver", "generic"]
    network.bora.kill()
    network.bora.start()
    assert modes() == ["driver", "generic"] and network.bora.output().count("taken over") == 2, network.bora.output()
    assert "xdpgeneric" in network.router.ip("link", "show", "mv0").stdout


def test_detach_includes_ports_of_an_earlier_run(network, bora_path):
    """The program is also taken off ports that only a killed Bora had."""
    network.start(bora_path)
    network.bora.kill()
    network.bora = bora.Bora(network.router, ["r1"], bora_path)
    network.bora.start()
    assert has_program(network, 0)
    network.router.exec(bora.binary(), "stop", "--detach")
    assert network.bora.process.wait(10) == 0, network.bora.output()
    assert not has_program(network, 0) and not has_program(network, 1)


def test_check_tries_ports(network):
    """`bora check --port` says how a port would work, leaves nothing behind, and reports every bad name."""
    router = network.router
    check = lambda *names: router.exec(bora.binary(), "check", *(f"--port={name}" for name in names), check=False)
    done = check("r0", "nowhere", "r1")
    assert done.returncode == 1, done.stdout
    lines = {line.split()[1]: line for line in done.stdout.splitlines()}
    assert lines["r0:"].startswith("ok") and "express (driver does no zero-copy), driver XDP" in lines["r0:"], lines
    assert lines["r1:"].startswith("ok"), lines
    assert lines["nowhere:"].startswith("missing") and "does not exist here" in lines["nowhere:"], lines
    assert "xdp" not in router.ip("link", "show").stdout
    assert check("r0").returncode == 0
    network.start("engine")
    done = check("r0")
    assert done.returncode == 1 and "a Bora already runs" in done.stdout, done.stdout
    network.wait_until_forwarding()
    assert network.exchange(200) == 200
