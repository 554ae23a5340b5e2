"""Runs in the guest of package.py, at each boot: the steps, in order. Each writes a line to the second serial port."""

import array
import contextlib
import ctypes
import grp
import json
import os
import pwd
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

RESULTS = "/dev/ttyS1"
CONFIG = Path("/etc/bora/bora.toml")
SHORT = Path("/root/short").exists()
BEFORE = Path("/root/before.json")
DROP_IN = Path("/run/systemd/system/bora.service.d/test.conf")
OLD, NEW = (f"/root/bora_{version}_amd64.deb" for version in ("0.1.0", "0.1.1"))
PORT, RATE = 9999, 250
CLONE_NEWNET = 0x40000000
SO_NO_CHECK, SO_RCVBUFFORCE = 11, 33
# Folders that any package changes: caches, logs, the package manager's own lists.
UNCOUNTED = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/root", "/var/log", "/var/cache", "/var/lib/apt", "/var/lib/dpkg",
             "/var/lib/systemd", "/var/backups")


def say(text):
    with open(RESULTS, "w") as out:
        out.write(text + "\n")


def run(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600,
                          env=os.environ | {"DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def apt(*arguments):
    return run("apt-get", "-qq", "-y", "--no-install-recommends", "--allow-downgrades", "-o", "Dpkg::Options::=--force-confdef", *arguments)


def property_of(name):
    return run("systemctl", "show", "bora", "-P", name).strip()


def wait_for(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"not within {seconds} s: {what}\n{run('systemctl', 'status', 'bora', check=False)}")
        time.sleep(0.2)


@contextlib.contextmanager
def inside(name):
    """The calling thread is in a network namespace."""
    libc = ctypes.CDLL(None)
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{name}") as there:
        assert libc.setns(there.fileno(), CLONE_NEWNET) == 0
        try:
            yield
        finally:
            libc.setns(home.fileno(), CLONE_NEWNET)


class Stream:
    """Numbered packets from host a to host b, until the end of the block."""

    def __enter__(self):
        self.sent, self.seen, self.silence = 0, array.array("I"), 0.0
        self.end = threading.Event()
        with inside("a"):
            self.source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            # a veth leaves checksums open, and such packets are Linux's
            self.source.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
            self.source.connect(("10.0.1.2", PORT))
        with inside("b"):
            self.sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
            self.sink.bind(("10.0.1.2", PORT))
            self.sink.settimeout(0.5)
        self.threads = [threading.Thread(target=work) for work in (self._receive, self._send)]
        for thread in self.threads:
            thread.start()
        time.sleep(1)
        return self

    def _send(self):
        while not self.end.is_set():
            self.source.send(struct.pack("I", self.sent))
            self.sent += 1
            time.sleep(1 / RATE)

    def _receive(self):
        last = time.monotonic()
        while True:
            try:
                packet = self.sink.recv(100)
            except TimeoutError:
                if self.end.is_set():
                    return
                continue
            self.silence, last = max(self.silence, time.monotonic() - last), time.monotonic()
            self.seen.append(struct.unpack("I", packet)[0])

    def __exit__(self, kind, *_):
        time.sleep(0 if kind else 1)
        self.end.set()
        for thread in reversed(self.threads):
            thread.join()
        self.source.close()
        self.sink.close()
        if kind is None:
            lost = self.sent - len(set(self.seen))
            self.text = f"{self.sent} packets sent, {lost} lost, {len(self.seen) - len(set(self.seen))} twice"
            if lost or len(self.seen) != self.sent:
                raise RuntimeError(self.text)


def ports():
    return json.loads(run("bora", "show", "ports", "--json"))


def forwards(path):
    """A stream goes through Bora, not through Linux."""
    def counts():
        return {port["name"]: port for port in ports()}

    with Stream():
        pass  # the first packets ask for neighbours
    before = counts()
    with Stream() as stream:
        pass
    after = counts()
    assert after["r0"]["path"] == path, after["r0"]
    received, passed = (after["r0"][key] - before["r0"][key] for key in ("rx_packets", "passed"))
    if received < stream.sent or passed > received // 10:
        raise RuntimeError(f"{passed} of {received} packets went to Linux: {after['r0']['passed_by_reason']}\n{run('bora', 'show', 'sync')}")
    return f"{path}: {stream.text}; Linux forwarded {passed} of {received}"


def step(name, long=False):
    """Runs a function as a step: its result is the rest of the line. Steps that are `long` are left out of the short form."""
    def decorate(work):
        if long and SHORT:
            return
        started = time.monotonic()
        try:
            text = work() or ""
        except Exception as error:
            say(f"FAILED {name}: {type(error).__name__}: {error}")
            say(run("journalctl", "-u", "bora", "-n", "25", "--no-pager", check=False))
            run("systemctl", "poweroff", "--force", "--force", check=False)
            sys.exit(1)
        say(f"{name} ({time.monotonic() - started:.0f} s){': ' + text if text else ''}")
    return decorate


def everything():
    """All files with their kinds, users, groups."""
    files = []
    for folder, folders, names in os.walk("/"):
        folders[:] = [one for one in folders if os.path.join(folder, one) not in UNCOUNTED]
        files += [os.path.join(folder, one) for one in (*folders, *names)]
    return {"files": sorted(files), "users": sorted(one.pw_name for one in pwd.getpwall()),
            "groups": sorted(one.gr_name for one in grp.getgrall())}


def new_bora(work):
    """Runs `work` under a stream, which must lose nothing, and lead to another process of Bora's."""
    before, modes = property_of("MainPID"), [port["xdp"] for port in ports()]
    with Stream() as stream:
        work()
        wait_for("another Bora", lambda: property_of("ActiveState") == "active" and property_of("MainPID") not in (before, "0"))
        assert [port["xdp"] for port in ports()] == modes
    return stream.text


def first_boot():
    @step("install")
    def _():
        BEFORE.write_text(json.dumps(everything()))
        apt("install", OLD)
        assert "bora 0." in run("bora", "--version")
        assert run("systemctl", "is-enabled", "bora").strip() == "enabled"
        grp.getgrnam("bora")

    @step("a file without ports: it is not started, and has not failed")
    def _():
        run("systemctl", "start", "bora")
        assert property_of("ActiveState") == "inactive", property_of("ActiveState")

    @step("edit and start")
    def _():
        text = CONFIG.read_text()
        for line in ("[[port]]", 'name = "eth0"', 'name = "eth1"'):
            assert f"#{line}" in text, line
            text = text.replace(f"#{line}", line)
        CONFIG.write_text(text.replace('"eth0"', '"r0"').replace('"eth1"', '"r1"'))
        run("bora", "check", str(CONFIG))
        run("systemctl", "start", "bora")
        assert property_of("ActiveState") == "active"
        assert run("stat", "-c", "%G", *map(str, Path("/run/bora").glob("*/api.sock"))).strip() == "bora"
        return property_of("StatusText")

    @step("what Bora forwards")
    def _():
        said = [line for line in run("journalctl", "-u", "bora", "--no-pager").splitlines() if "ermission" in line]
        assert not said, said
        said = run("journalctl", "-u", "bora", "-q", "-o", "cat", "-p", "warning", "SYSLOG_IDENTIFIER=bora")
        assert not said, said
        return forwards("express")

    @step("the journal's fields")
    def _():
        """Who ordered what can be asked for."""
        run("bora", "apply", str(CONFIG))
        said = run("journalctl", "-q", "-o", "cat", "WHO=root", "SYSLOG_IDENTIFIER=bora").splitlines()
        assert any("/v1/apply" in line for line in said), said
        return said[-1]

    @step("security")
    def _():
        return run("systemd-analyze", "security", "bora", "--no-pager").strip().splitlines()[-1].strip()

    @step("upgrade under traffic")
    def _():
        text = new_bora(lambda: apt("install", NEW))
        assert run("dpkg-query", "-W", "-f", "${Version}", "bora") == "0.1.1"
        assert "taken over" in property_of("StatusText"), property_of("StatusText")
        return text

    @step("upgrade with a canary under traffic", long=True)
    def _():
        said = []
        text = new_bora(lambda: said.append(run("bora", "upgrade", "--canary", "--packets", "1000")))
        assert "bora.service is restarted" in said[0] and " 0 differ," in said[0], said
        return text

    @step("downgrade under traffic", long=True)
    def _():
        text = new_bora(lambda: apt("install", OLD))
        assert "taken over" in property_of("StatusText"), property_of("StatusText")
        return text

    @step("reload under traffic", long=True)
    def _():
        pid = property_of("MainPID")
        CONFIG.write_text(CONFIG.read_text().replace('name = "r1"', 'name = "r1"\nquota = 33'))
        with Stream() as stream:
            run("systemctl", "reload", "bora")
        assert "quota = 33" in run("bora", "save") and property_of("MainPID") == pid
        return stream.text

    @step("kill -9 under traffic", long=True)
    def _():
        return new_bora(lambda: run("systemctl", "kill", "-s", "KILL", "--kill-whom=main", "bora"))

    @step("a hang under traffic, with WatchdogSec=8", long=True)
    def _():
        DROP_IN.parent.mkdir(parents=True)
        DROP_IN.write_text("[Service]\nWatchdogSec=8\n")
        run("systemctl", "daemon-reload")
        run("systemctl", "restart", "bora")
        started = time.monotonic()
        time.sleep(12)  # longer than the watchdog: the signs of life arrive
        assert property_of("NRestarts") in ("0", "1"), property_of("NRestarts")
        restarts = int(property_of("NRestarts"))
        text = new_bora(lambda: run("systemctl", "kill", "-s", "STOP", "bora"))
        assert int(property_of("NRestarts")) == restarts + 1
        assert "Watchdog timeout" in run("journalctl", "-u", "bora", "--no-pager")
        DROP_IN.unlink()
        DROP_IN.parent.rmdir()
        run("systemctl", "daemon-reload")
        return f"{text}; a new Bora after {time.monotonic() - started - 12:.0f} s"

    @step("a port that does not exist: Bora tries again, and comes when it does", long=True)
    def _():
        text = CONFIG.read_text()
        CONFIG.write_text(text + '[[port]]\nname = "r2"\n')
        run("systemctl", "restart", "bora", check=False)
        assert property_of("ActiveState") == "activating", property_of("ActiveState")
        run("ip", "link", "add", "r2", "type", "veth", "peer", "name", "r3")
        wait_for("Bora with r2", lambda: property_of("ActiveState") == "active", 30)
        run("ip", "link", "del", "r2")
        CONFIG.write_text(text)

    @step("the engine, with a TAP")
    def _():
        CONFIG.write_text(CONFIG.read_text() + '[[port]]\nkind = "tap"\nname = "twin0"\ninterface = "tap0"\n')
        run("systemctl", "restart", "bora")
        assert "twin0" in run("ip", "-br", "link")
        said = [line for line in run("journalctl", "-u", "bora", "--no-pager", "--since", "-30s").splitlines() if "no namespace" in line]
        assert not said, said
        return forwards("engine")

    say("rebooting")
    run("systemctl", "reboot")


def second_boot():
    @step("after the reboot")
    def _():
        wait_for("Bora", lambda: property_of("ActiveState") == "active")
        return forwards("engine")

    @step("purge under traffic")
    def _():
        with Stream() as stream:
            apt("purge", "bora")
        links = run("ip", "-d", "link")
        assert "xdp" not in links and "twin0" not in links and "tap0" not in links, links
        assert not Path("/run/bora").exists()
        assert "bora" not in Path("/proc/self/mountinfo").read_text()
        before, after = json.loads(BEFORE.read_text()), everything()
        for kind, names in before.items():
            assert after[kind] == names, f"{kind}: {sorted(set(names) ^ set(after[kind]))[:20]}"
        left = [str(path) for folder in ("/var/lib/systemd", "/etc/systemd", "/run/systemd") for path in Path(folder).rglob("*bora*")]
        left = [path for path in left if not re.search("/run/systemd/(propagate|units|transient|generator)", path)]
        assert not left, left
        units = run("systemctl", "list-units", "--all", "--no-legend", "bora*", "run-bora*")
        assert not units.strip(), units
        return stream.text

    say("done")
    run("systemctl", "poweroff")


if __name__ == "__main__":
    wait = time.monotonic() + 60
    while not Path("/run/netns/b").exists() and time.monotonic() < wait:
        time.sleep(0.2)
    if BEFORE.exists():
        second_boot()
    else:
        first_boot()
