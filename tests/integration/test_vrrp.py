"""keepalived (VRRP with virtual MAC addresses) beside Bora: the virtual router's packets are forwarded by Bora, and a router that dies is replaced.

                .-- lan [router 0: Bora] wan --.
    h0 -- LAN --|                              |-- WAN -- h1      virtual routers: 10.0.0.1 and 2001:db8::1 on the LAN,
                '-- lan [router 1: Bora] wan --'                  10.0.1.1 and 2001:db8:1::1 on the WAN
"""

import functools
import signal
import time

import pytest

from lib import packets, required, testbed
from lib.bora import Bora
from lib.load import Load, trailer
from lib.ping import ping
from lib.traffic import FILL
from lib.waiting import until
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

pytestmark = [pytest.mark.bora, pytest.mark.alone]
SECONDS = 30
wait = functools.partial(until, seconds=SECONDS)
ADVERT_SECONDS = 0.1
OUTAGE_MS = 3000  # four advertisements' time and what a busy machine adds; the number is printed
RATE = 2000
COUNT = 100
HOST_MAC = "02:bc:00:00:00:09"
SIDES = {"lan": (0, 51), "wan": (1, 52)}  # device: number of its network, VRID
CONFIG = """
global_defs {{
  vrrp_version 3
  router_id r{number}
}}
vrrp_sync_group both {{
  group {{
    lan4
    lan6
    wan4
    wan6
  }}
}}
"""
INSTANCE = """
vrrp_instance {device}{version} {{
  state BACKUP
  interface {device}
  virtual_router_id {vrid}
  priority {priority}
  advert_int {seconds}
  use_vmac {device}vmac{version}
  virtual_ipaddress {{
    {addresses}
  }}
}}
"""


def vmac(side, version):
    """RFC 5798, 7.3."""
    return f"00:00:5e:00:0{1 if version == 4 else 2}:{SIDES[side][1]:02x}"


class Pair(testbed.Testbed):
    """Two routers as one."""

    def __init__(self, path):
        required.program("keepalived", "keepalived")
        super().__init__()
        self.path = path
        self.boras, self.daemons = [None, None], [None, None]
        try:
            self.hosts = [self._namespace(f"h{side}") for side in range(2)]
            self.switches = [self._namespace(f"s{side}") for side in range(2)]
            self.routers = [self._router(f"r{number}") for number in range(2)]
            for switch in self.switches:
                switch.batch(["link add br0 type bridge", "link set br0 up"])
            for side, (host, device) in enumerate(zip(self.hosts, SIDES)):
                self._connect(side, host, "e0", 9)
                host.batch([f"route add default via 10.0.{side}.1", f"route add default via 2001:db8:{side}::1"])
                for number, router in enumerate(self.routers):
                    self._connect(side, router, device, 2 + number)
        except BaseException:
            self.close()
            raise

    def _connect(self, side, namespace, device, end):
        switch, port = self.switches[side], f"p{end}"
        address = ["address", HOST_MAC] if namespace is self.hosts[0] else []
        namespace.ip("link", "add", device, *address, "type", "veth", "peer", "name", port, "netns", switch.name)
        for one, name in ((switch, port), (namespace, device)):
            one.exec("ethtool", "-K", name, "gro", "on")
        switch.batch([f"link set {port} master br0", f"link set {port} up"])
        namespace.batch([f"link set {device} up", f"address add 10.0.{side}.{end}/24 dev {device}",
                         f"address add 2001:db8:{side}::{end}/64 dev {device} nodad"])

    def start(self, number, folder):
        """Starts Bora and keepalived on a router. Router 0 is preferred."""
        router = self.routers[number]
        self.boras[number] = Bora(router, list(SIDES), self.path)
        self.boras[number].start()
        text = CONFIG.format(number=number)
        for device, (side, vrid) in SIDES.items():
            for version, addresses in ((4, [f"10.0.{side}.1/24"]), (6, [f"fe80::{vrid}", f"2001:db8:{side}::1/64"])):
                text += INSTANCE.format(device=device, version=version, vrid=vrid, priority=150 - 50 * number, seconds=ADVERT_SECONDS,
                                        addresses="\n    ".join(addresses))
        config = folder / f"keepalived{number}.conf"
        config.write_text(text)
        log = open(folder / f"log{number}", "w")
        self.daemons[number] = router.popen("keepalived", "--dont-fork", "--log-console", "--log-detail", "--vrrp", f"--use-file={config}",
                                            f"--pid={folder}/pid{number}", f"--vrrp_pid={folder}/vrrp{number}", stdout=log, stderr=log)

    def is_master(self, number):
        """Whether a router has the addresses."""
        return "10.0.0.1/24" in self.routers[number].ip("address").stdout and "10.0.1.1/24" in self.routers[number].ip("address").stdout

    def die(self, number):
        """Everything of a router ends without a word."""
        self.routers[number].batch([f"link set {device} down" for device in SIDES])
        self.boras[number].kill()
        self.daemons[number].send_signal(signal.SIGKILL)

    def close(self):
        for daemon in self.daemons:
            if daemon is not None:
                daemon.terminate()
                daemon.wait(10)
        for bora in self.boras:
            if bora is not None:
                bora.stop()
        super().close()


@pytest.fixture(params=["engine", "express"])
def pair(request):
    network = Pair(request.param)
    yield network
    network.close()


def check_by_bora(pair, number):
    """All echoes and replies go by the Bora of this router."""
    for address in ("10.0.1.9", "2001:db8:1::9"):
        wait(f"{address} answers", lambda: ping(pair.hosts[0], address, 1))
        before = pair.boras[number].check_conservation()["sent"]
        assert len(ping(pair.hosts[0], address, COUNT)) == COUNT, address
        sent = pair.boras[number].check_conservation()["sent"] - before
        assert sent >= 2 * COUNT, f"{address}: {sent}, {pair.boras[number].show('drops')}"


def test_a_virtual_router(pair, tmp_path, say):
    """Bora forwards what is sent to the virtual addresses, in the router that has them; one that dies is replaced in a few
    advertisements' time."""
    for number in range(2):
        pair.start(number, tmp_path)
    wait("router 0 is master", lambda: pair.is_master(0) and not pair.is_master(1))
    check_by_bora(pair, 0)
    macvlans = {one["name"]: one for one in pair.boras[0].show("macvlans")["macvlans"]}
    assert {name: one["mac"] for name, one in macvlans.items()} == {
        f"{device}vmac{version}": vmac(device, version) for device in SIDES for version in (4, 6)}
    assert sum(one["rx_packets"] for one in macvlans.values()) >= 4 * COUNT, macvlans

    frames = [packets.mac(vmac("lan", 4)) + packets.mac(HOST_MAC) + b"\x08\x00"
              + bytes(IP(src="10.0.0.9", dst="10.0.1.9") / UDP(sport=1024 + flow, dport=9) / Raw(FILL + trailer(flow))) for flow in range(16)]
    with Load((pair.hosts[0].name, "e0"), (pair.hosts[1].name, "e0"), frames, RATE) as traffic:
        time.sleep(1)
        pair.die(0)
        wait("router 1 is master", lambda: pair.is_master(1))
        time.sleep(1)
        report = traffic.finish()
    say(f"a router dies: {report}")
    assert report.longest_silence < OUTAGE_MS and report.duplicated == 0, report
    check_by_bora(pair, 1)
