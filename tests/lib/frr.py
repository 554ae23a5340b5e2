"""FRR in a namespace: zebra and other daemons with their own sockets, as a router of its own."""

import contextlib
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

from lib import required
from lib.netns import run

DAEMONS = Path("/usr/lib/frr")


class Frr:
    """`config` is what /etc/frr/NAME.conf would have, by daemon: {"bgpd": "router bgp ..."}. zebra always runs."""

    def __init__(self, namespace, config):
        if not (DAEMONS / "zebra").exists():
            required.skip("no FRR (Debian: frr)")
        self.namespace = namespace
        self.folder = Path(tempfile.mkdtemp(prefix="bora-frr-"))
        self.daemons = ["zebra", *config]
        for name in self.daemons:
            (self.folder / f"{name}.conf").write_text(config.get(name, ""))
        run("chown", "-R", "frr:frr", str(self.folder))
        for name in self.daemons:
            self._start(name)

    def _start(self, name):
        folder = self.folder
        self.namespace.exec(
            str(DAEMONS / name), "-d", "-i", f"{folder}/{name}.pid", "-z", f"{folder}/zserv.api", "--vty_socket", str(folder),
            "-f", f"{folder}/{name}.conf", "-P", "0", "--log", f"file:{folder}/{name}.log")

    def vtysh(self, *commands):
        """What the daemons say to these commands, one after the other."""
        options = [part for command in commands for part in ("-c", command)]
        return run("vtysh", "--vty_socket", str(self.folder), *options).stdout

    def configure(self, *lines):
        """Changes the configuration."""
        self.vtysh("configure terminal", *lines)

    def logs(self):
        """What the daemons have logged."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def signal(self, number):
        """Sends all daemons a signal; returns their process ids."""
        pids = [int((self.folder / f"{name}.pid").read_text()) for name in self.daemons]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pids

    def kill(self):
        """kill -9 of all daemons: routes stay."""
        for pid in self.signal(signal.SIGKILL):
            deadline = time.monotonic() + 5
            while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
                time.sleep(0.005)

    def close(self):
        """Ends everything and removes the files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
