"""Network namespaces: make, enter, configure, and remove them without leaving anything behind."""

import contextlib
import ctypes
import itertools
import os
import re
import subprocess
from pathlib import Path

PREFIX = "bc-"
SECONDS = 120  # a command takes longer only if it hangs; a busy machine needs its time
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def run(*command, check=True, timeout=SECONDS, **more):
    """Runs a command and returns the CompletedProcess; a failure shows what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **more)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def _setns(fd):
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")


@contextlib.contextmanager
def inside(name):
    """Runs the block with the calling thread in the namespace `name`; sockets opened there stay there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        there = os.open(f"/run/netns/{name}", os.O_RDONLY)
        try:
            _setns(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(home)


def queue_options(queues):
    """Options of `ip link add` for an end of a veth with this many queues; None: Linux's default. An end with fewer receive
    queues than its peer has transmit queues cannot do driver XDP."""
    return ["numtxqueues", str(queues), "numrxqueues", str(queues)] if queues else []


def interfaces_of(driver):
    """The interfaces of the namespace of /sys that have a driver, in the order of their places on the bus."""
    folders = [folder for folder in Path("/sys/class/net").iterdir() if (folder / "device/driver").exists()]
    found = [(str((folder / "device").resolve()), folder.name) for folder in folders if (folder / "device/driver").resolve().name == driver]
    return [name for _, name in sorted(found)]


class Namespace:
    """One network namespace; `close()` removes it. Its name has our process id and a number."""

    _numbers = itertools.count()

    def __init__(self, role):
        self.name = f"{PREFIX}{os.getpid()}-{next(self._numbers)}-{role}"
        run("ip", "netns", "add", self.name)
        self.ip("link", "set", "lo", "up")

    def ip(self, *arguments, check=True):
        """`ip -n NAME ...`."""
        return run("ip", "-n", self.name, *arguments, check=check)

    def batch(self, lines, timeout=60):
        """Many `ip` commands in one process."""
        text = "".join(f"{line}\n" for line in lines)
        run("ip", "-n", self.name, "-batch", "-", input=text, timeout=timeout)

    def exec(self, *command, check=True, timeout=SECONDS, **more):
        """`ip netns exec NAME command ...`."""
        return run("ip", "netns", "exec", self.name, *command, check=check, timeout=timeout, **more)

    def popen(self, *command, **more):
        """Starts a command in the namespace; the caller ends it."""
        return subprocess.Popen(["ip", "netns", "exec", self.name, *command], **more)

    def get_sysctl(self, key):
        """Reads a net sysctl given as `net/ipv4/ip_forward`."""
        with inside(self.name), open(f"/proc/sys/{key}") as file:
            return file.read().strip()

    def set_sysctl(self, key, value):
        """Writes a net sysctl."""
        with inside(self.name), open(f"/proc/sys/{key}", "w") as file:
            file.write(str(value))

    def snmp(self):
        """The kernel's IP counters of this namespace as {"IpInHdrErrors": 3, ...}, IPv6 included."""
        counters = {}
        with inside(self.name):
            for path in ("snmp", "netstat"):
                with open(f"/proc/thread-self/net/{path}") as file:
                    lines = file.read().splitlines()
                for names, values in zip(lines[::2], lines[1::2]):
                    group, *keys = names.split()
                    for key, value in zip(keys, values.split()[1:]):
                        counters[group[:-1] + key] = int(value)
            with open("/proc/thread-self/net/snmp6") as file:
                for line in file:
                    key, value = line.split()
                    counters[key] = int(value)
        return counters

    def close(self):
        """Removes the namespace and, with it, its interfaces. Never raises."""
        run("ip", "netns", "del", self.name, check=False)


class Root(Namespace):
    """The namespace that this program runs in; `close()` removes its name."""

    def __init__(self, role="root"):
        self.name = f"{PREFIX}{os.getpid()}-{next(self._numbers)}-{role}"
        run("ip", "netns", "attach", self.name, str(os.getpid()))

    def exec(self, *command, check=True, timeout=SECONDS, **more):
        return run(*command, check=check, timeout=timeout, **more)

    def popen(self, *command, **more):
        return subprocess.Popen(command, **more)


def remove_leftovers():
    """Removes namespaces of test runs that were killed before they could clean up."""
    for line in run("ip", "netns", "list", check=False).stdout.splitlines():
        found = re.match(rf"({PREFIX}(\d+)-[\w-]+)", line)
        if found and not os.path.exists(f"/proc/{found[2]}"):
            run("ip", "netns", "del", found[1], check=False)
