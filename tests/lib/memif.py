"""Two routers joined by a memif, each with a host on a veth:

    h0 -- r0 [router 0] m0 == memif == m1 [router 1] r1 -- h1

10.0.N.0/24 and 2001:db8:N::/64 are host N's, 10.0.9.0/24 and 2001:db8:9::/64 the memif's. With only one router,
the test is the other end of the memif.
"""

import os
import shutil
import subprocess
import tempfile
import time

from lib.bora import Bora
from lib.testbed import Testbed


class MemifNetwork(Testbed):
    """The routers' Boras are `boras`; `options` are further options of their memif ports, `more` of `bora run`.
    A port that is DPDK's has `dpdk:DEVICE` there, with `{folder}` and `{socket}` in it, and `program` is the binary for it."""

    def __init__(self, options=(",role=server", ",role=client"), more=(), program=None):
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="bora-memif-")
        self.socket = os.path.join(self.folder, "memif.sock")
        self.boras, self.routers, self.hosts = [], [], []
        try:
            for number, option in enumerate(options):
                self._router_with_host(number)
                names = f"name=m{number},mac={self.mac(number)}"
                if option.startswith("dpdk:"):
                    port = f"{option.format(folder=self.folder, socket=self.socket)},{names}"
                    bora = Bora(self.routers[number], [f"r{number}", port], "engine", more, program)
                else:
                    port = f"memif:{self.socket},{names}{option}"
                    bora = Bora(self.routers[number], [f"r{number}", port], "engine", more)
                self.boras.append(bora)
                bora.start()
                self.configure_twin(number)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def mac(number):
        return f"02:bc:00:00:09:0{number + 1}"

    def _router_with_host(self, number):
        router, host = self._router(f"r{number}"), self._namespace(f"h{number}")
        two = "numtxqueues 2 numrxqueues 2".split()
        router.ip("link", "add", f"r{number}", *two, "type", "veth",
                  "peer", "name", f"h{number}", *two, "netns", host.name)
        for namespace, device, end in ((router, f"r{number}", 1), (host, f"h{number}", 2)):
            namespace.batch([
                f"link set {device} up",
                f"address add 10.0.{number}.{end}/24 dev {device}",
                f"address add 2001:db8:{number}::{end}/64 dev {device} nodad",
            ])
        host.batch([f"route add default via 10.0.{number}.1", f"route add default via 2001:db8:{number}::1"])
        self.routers.append(router)
        self.hosts.append(host)

    def configure_twin(self, number):
        """Configures the twin as an operator does: addresses, and a route through it."""
        other = 1 - number
        self.routers[number].batch([
            f"link set m{number} up",
            f"address replace 10.0.9.{number + 1}/24 dev m{number}",
            f"address replace 2001:db8:9::{number + 1}/64 dev m{number} nodad",
            f"route replace 10.0.{other}.0/24 via 10.0.9.{other + 1}",
            f"route replace 2001:db8:{other}::/64 via 2001:db8:9::{other + 1}",
        ])

    def has_carrier(self, number):
        return "LOWER_UP" in self.routers[number].ip("link", "show", f"m{number}").stdout

    def wait_for_carrier(self, number, wanted=True, seconds=10):
        """Waits until the twin's carrier is as wanted."""
        deadline = time.monotonic() + seconds
        while self.has_carrier(number) != wanted:
            assert time.monotonic() < deadline, self.boras[number].show("ports")
            time.sleep(0.02)

    def port(self, number):
        """The memif port as Bora shows it."""
        return next(port for port in self.boras[number].show("ports") if port["kind"] in ("memif", "dpdk"))

    def close(self):
        """Stops everything and removes it."""
        try:
            for bora in self.boras:
                bora.stop()
        finally:
            super().close()
            shutil.rmtree(self.folder, ignore_errors=True)


class Echo:
    """dpdk-testpmd in mode `icmpecho`: answers every ARP request and every ping on its memif, or on another `device`."""

    def __init__(self, socket, role, device=None):
        self.socket, self.server = socket, role == "server"
        self.log = tempfile.NamedTemporaryFile("w+", prefix="testpmd-")
        self.process = subprocess.Popen(
            ["dpdk-testpmd", "--no-huge", "-m", "128", "--no-pci", "--no-shconf", "--no-telemetry", "-l", "0,1",
             f"--vdev={device or f'net_memif0,role={role},id=0,socket={socket},socket-abstract=no'}",
             "--", "--forward-mode=icmpecho", "--total-num-mbufs=8192", "--disable-link-check", "--no-flush-rx"],
            stdin=subprocess.PIPE, stdout=self.log, stderr=self.log,
        )

    def close(self):
        """Kills it, and removes its socket, which would block the next server."""
        self.process.kill()
        self.process.wait()
        self.log.close()
        if self.server and os.path.exists(self.socket):
            os.unlink(self.socket)
