"""FRR in a namespace: zebra and other daemons with their own sockets, as a router of its own."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from lib import required
from lib.netns import run

DAEMONS = Path("/usr/lib/frr")
RUN = Path("/run/frr")
START_SECONDS = 30


class Frr:
    """`config` is what /etc/frr/NAME.conf would have, by daemon: {"bgpd": "router bgp ..."}. zebra always runs, with the options `zebra`."""

    def __init__(self, namespace, config, zebra=()):
        if not (DAEMONS / "zebra").exists():
            required.skip("no FRR (Debian: frr)")
        self.namespace = namespace
        self.options = {"zebra": zebra}
        self.folder = Path(tempfile.mkdtemp(prefix="bora-frr-"))
        # from FRR 10 on the others are configured by mgmtd, whose sockets are in a folder with a name of its own (-N)
        managed = (DAEMONS / "mgmtd").exists()
        self.sockets = RUN / self.folder.name if managed else None
        self.configured_by_mgmtd = ("mgmtd", "staticd") if managed else ()
        self.daemons = [*(["mgmtd"] if managed else []), "zebra", *config]
        for name in self.daemons:
            (self.folder / f"{name}.conf").write_text(config.get(name, ""))
        if managed:
            self.sockets.mkdir(parents=True)
            run("chown", "frr:frr", str(RUN), str(self.sockets))
        run("chown", "-R", "frr:frr", str(self.folder))
        for name in self.daemons:
            self._start(name)

    def _start(self, name):
        folder = self.folder
        options = ["-d", "-i", f"{folder}/{name}.pid", "--vty_socket", str(folder), "-P", "0", "--log", f"file:{folder}/{name}.log",
                   *self.options.get(name, ())]
        if self.sockets:
            options += ["-N", self.sockets.name]
        if name != "mgmtd":
            options += ["-z", f"{folder}/zserv.api"]
        if name not in self.configured_by_mgmtd:
            options += ["-f", f"{folder}/{name}.conf"]
        # a daemon keeps what it is given for its messages
        quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
        code = self.namespace.popen(str(DAEMONS / name), *options, **quiet).wait(START_SECONDS)
        if code != 0:
            raise RuntimeError(f"{name} does not start: exit {code}; {self.logs()}")

    def vtysh(self, *commands):
        """What the daemons say to these commands, one after the other."""
        options = [part for command in commands for part in ("-c", command)]
        return run("vtysh", "--vty_socket", str(self.folder), *options).stdout

    def load(self, file):
        """Reads what /etc/frr/frr.conf would have: the configuration of all daemons."""
        self._when_unlocked(lambda: run("vtysh", "--vty_socket", str(self.folder), "-f", str(file)))

    def configure(self, *lines):
        """Changes the configuration."""
        self._when_unlocked(lambda: self.vtysh("configure terminal", *lines))

    @staticmethod
    def _when_unlocked(change):
        """Makes a change once mgmtd lets it: it reads its own configuration first."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return change()
            except RuntimeError as error:
                if "could not lock" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

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
        self._end(signal.SIGKILL)

    def restart(self):
        """What `systemctl restart frr` does. The configuration of `load` is gone."""
        self._end(signal.SIGINT)
        for name in self.daemons:
            self._start(name)

    def _end(self, number):
        for pid in self.signal(number):
            deadline = time.monotonic() + 5
            while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
                time.sleep(0.005)

    def close(self):
        """Ends everything and removes the files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.sockets:
            shutil.rmtree(self.sockets, ignore_errors=True)
