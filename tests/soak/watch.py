"""Resources that a process and the machine hold, to find leaks."""

import collections
import os
import re
import time
from pathlib import Path

from lib.bora import runtime_folder

# A process may keep some memory, such as caches and tables that were larger. These are the limits of what it may hold more
# after a step than when it was warm.
MORE_MEMORY = 32 << 20
MORE_DESCRIPTORS = 2
WARM_UP_STEPS = 3
PATIENCE = 15.0  # threads for look-ups of users end ten seconds after their last use


def holdings(pid):
    """Memory in octets, threads, and descriptors by kind, BPF objects among them."""
    base = Path(f"/proc/{pid}")
    status = base.joinpath("status").read_text()
    kinds = collections.Counter()
    for entry in os.listdir(base / "fd"):
        try:
            target = os.readlink(base / "fd" / entry)
        except FileNotFoundError:
            continue
        kinds[re.sub(r":?\[\d+\]$|/.*", "", target) or "file"] += 1
    return {
        "memory": int(re.search(r"VmRSS:\s+(\d+)", status)[1]) << 10,
        "threads": int(re.search(r"Threads:\s+(\d+)", status)[1]),
        "descriptors": dict(kinds),
    }


class Watch:
    """One process of Bora: compares what it holds after each step with what it held when it was warm."""

    def __init__(self, pid):
        self.pid = pid
        self.steps = 0
        self.warm = None
        self.most = None

    def check(self):
        """Compares after a step; waits a while for what is still being closed."""
        self.steps += 1
        now = holdings(self.pid)
        if self.warm is None:
            if self.steps >= WARM_UP_STEPS:
                self.warm = now
            return now
        deadline = time.monotonic() + PATIENCE
        while (grown := self._grown(now)) and time.monotonic() < deadline:
            time.sleep(0.1)
            now = holdings(self.pid)
        assert not grown, f"after {self.steps} steps Bora holds more than when it was warm: {', '.join(grown)}"
        return now

    def _grown(self, now):
        grown = []
        if now["memory"] > self.warm["memory"] + MORE_MEMORY:
            grown.append(f"memory {self.warm['memory'] >> 20} -> {now['memory'] >> 20} MiB")
        if now["threads"] > self.warm["threads"]:
            grown.append(f"threads {self.warm['threads']} -> {now['threads']}")
        for kind, count in now["descriptors"].items():
            before = self.warm["descriptors"].get(kind, 0)
            if count > before + MORE_DESCRIPTORS:
                grown.append(f"descriptors {kind!r} {before} -> {count}")
        return grown


def left_behind(namespace):
    """What a stopped and detached Bora has left in its namespace and its folder, as text."""
    left = []
    links = namespace.ip("link", "show").stdout
    if "xdp" in links:
        left.append(f"an XDP program: {links}")
    folder = runtime_folder(namespace)
    # whose the folder is, and configurations to roll back to, are kept
    kept = {"lock", "namespace", "history"}
    left += [str(path) for path in folder.rglob("*") if path.relative_to(folder).parts[0] not in kept]
    return left
