"""QEMU's monitor; and QEMU without a guest's operating system: the firmware alone gives the cards their addresses, and the monitor reads memory.

    python3 hero/guest/qmp.py SOCKET COMMAND ARGUMENTS     # sends a command of QMP with its arguments in JSON, and prints the answer
"""

import json
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hero.guest import device

MEMORY = "256M"
SECONDS = 60
WORDS = re.compile(r"0x[0-9a-f]{8}\b")


class Monitor:
    """A connection to a monitor."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("r")
        self.lines.readline()
        self.call("qmp_capabilities")

    def call(self, command, **arguments):
        """A command of QMP; events in between are skipped."""
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = json.loads(self.lines.readline())
            if "event" not in answer:
                assert "error" not in answer, answer
                return answer["return"]


class Machine:
    """A running QEMU with cards at these sockets, its files in `folder`."""

    def __init__(self, qemu, sockets, folder):
        path = folder / "qmp"
        path.unlink(missing_ok=True)
        self.log = folder / "qemu.log"
        options = shlex.split(" ".join(device.qemu_options(sockets, MEMORY)))
        command = [str(qemu), "-machine", "q35", "-accel", "tcg", "-m", MEMORY, "-nodefaults", "-display", "none",
                   "-qmp", f"unix:{path},server=on,wait=off", *options]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.connection = None
        until(lambda: self._connect(path), "QEMU's monitor answers")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def _connect(self, path):
        assert self.process.poll() is None, self.log.read_text()
        try:
            self.connection = Monitor(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def kill(self):
        """Ends it as kill -9 does."""
        self.process.kill()
        self.process.wait()
        self.connection.socket.close()

    def call(self, command, **arguments):
        """A command of QMP."""
        return self.connection.call(command, **arguments)

    def monitor(self, line):
        """A command of the human monitor."""
        return self.call("human-monitor-command", **{"command-line": line})

    def bars(self):
        """Addresses of BAR 0 of the cards, once the firmware has given them."""
        return [int(found, 16) for found in re.findall(r"1234:4845\s+PCI subsystem 1234:0001\s+BAR0: 32 bit memory at (0x[0-9a-f]+) \[", self.monitor("info pci"))
                if int(found, 16) != 0xFFFFFFFF]

    def word(self, address):
        """The word at an address of the guest."""
        text = self.monitor(f"xp /1wx {address:#x}")
        return int(WORDS.findall(text.split(":", 1)[1])[0], 16)

    def wait(self):
        """Waits for the firmware; returns the first word of each BAR 0."""
        until(lambda: len(self.bars()) == device.CARDS and all(self.word(bar) != 0xFFFFFFFF for bar in self.bars()), "the firmware is done")
        return [self.word(bar) for bar in self.bars()]


def until(is_true, what):
    """Waits for a condition."""
    end = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.1)


if __name__ == "__main__":
    print(json.dumps(Monitor(sys.argv[1]).call(sys.argv[2], **json.loads(sys.argv[3]))))
