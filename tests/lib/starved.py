"""How long threads waited for a CPU, to tell a machine that is too busy from a fault."""

import functools
from pathlib import Path

NS = 1e9


def _read(path):
    """The text of a file in /proc; nothing if its process or thread has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _waits(pid):
    """Seconds that each thread of a process has waited for a CPU since its start (Linux, sched-stats.rst)."""
    found = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        if text := _read(path):
            found[path.parent.name] = int(text.split()[1]) / NS
    return found


@functools.cache
def _receivers():
    """The kernel's threads that receive packets when a CPU is busy."""
    return [path.parent.name for path in Path("/proc").glob("[0-9]*/comm") if _read(path).startswith("ksoftirqd")]


class Starved:
    """Counts from its making on: the threads of processes, and of the kernel where it receives packets."""

    def __init__(self, *pids):
        self.pids = [*map(str, pids), *_receivers()]
        self.before = self._now()

    def _now(self):
        return {thread: wait for pid in self.pids for thread, wait in _waits(pid).items()}

    def seconds(self):
        """The longest wait of one thread, in all."""
        return max((wait - self.before.get(thread, 0) for thread, wait in self._now().items()), default=0.0)
