"""Runs in a guest with hero.ko: all devices go to sleep and come back (pm_test), with the interfaces down, and up under traffic.

    python3 hero/guest/suspend_guest.py SHARED RESULTS

Linux cannot resume a 9p file system over virtio: it resets the device, and nobody sets its queues up again. So after the first test this
program has no files: it is in memory, calls the kernel alone, says what it sees on the second serial port, and turns the machine off.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hero.guest.steps import BAD_LOG, CARDS, GOOD_LOG, SHARED, connect, inside, interfaces, ping, run, start

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
MCL_CURRENT, MCL_FUTURE = 1, 2
POWER_OFF = 0x4321FEDC
PING_SECONDS = 300
LIBC = ctypes.CDLL(None, use_errno=True)


def write(path, text):
    """Writes to a file of the kernel's."""
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


class Echo:
    """ICMP echo without other programs."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self.socket.settimeout(1)
        self.sequence = 0

    def answers(self, address):
        """Whether an address answers within a minute."""
        end = time.monotonic() + PING_SECONDS
        while time.monotonic() < end:
            self.sequence += 1
            said = struct.pack("!HH", 0x4845, self.sequence)
            self.socket.sendto(b"\x08\0" + struct.pack("!H", 0xFFFF & ~sum((0x0800, 0x4845, self.sequence))) + said, (address, 0))
            try:
                while time.monotonic() < end:
                    packet = self.socket.recv(2048)
                    if packet[20] == 0 and packet[24:28] == said:
                        return True
            except TimeoutError:
                pass
        return False


def set_up(names, up):
    """Puts interfaces up or down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for name in names:
            request = struct.pack("16sh22x", name.encode(), 0)
            flags = struct.unpack("16sh22x", fcntl.ioctl(handle, SIOCGIFFLAGS, request))[1]
            fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sh22x", name.encode(), flags | IFF_UP if up else flags & ~IFF_UP))


class Suspend:
    """The tests, and their report."""

    def __init__(self, names):
        self.names = names
        self.out = os.open("/dev/ttyS1", os.O_WRONLY | os.O_NOCTTY)
        self.log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        self.echo = Echo()
        self.good = True

    def say(self, text):
        os.write(self.out, f"{text}\n".encode())

    def bad_lines(self):
        """New lines of the kernel's log that show a defect."""
        lines = []
        try:
            while True:
                lines.append(os.read(self.log, 8192).decode(errors="replace").strip())
        except BlockingIOError:
            return [line for line in lines if BAD_LOG.search(line) and not GOOD_LOG.search(line)]

    def test(self, level, what):
        """One test of the kernel's; then all cards must work."""
        began = time.monotonic()
        try:
            write("/sys/power/pm_test", level)
            write("/sys/power/state", "mem")
        except OSError as error:
            self.good = False
            self.say(f"{level}, {what}: {error}")
            return
        set_up(self.names, True)
        silent = [f"10.0.{card}.2" for card in range(CARDS) if not self.echo.answers(f"10.0.{card}.2")]
        bad = self.bad_lines()
        self.good = self.good and not silent and not bad
        self.say(f"{level}, {what}, {time.monotonic() - began:.1f} s: {f'{silent} do not answer' if silent else 'all cards work'} {bad or ''}")


def main():
    """The tests."""
    connect()
    ping(0, "10.0.1.2")
    suspend = Suspend(interfaces())
    start(inside(0, "timeout 900 ping -q -i 0.05 10.0.1.2"))
    run("dmesg -n 1; pkill -9 udevd")  # it reads files when it hears of devices, and a program that waits for a file cannot be frozen
    assert LIBC.mlockall(MCL_CURRENT | MCL_FUTURE) == 0, os.strerror(ctypes.get_errno())
    suspend.test("freezer", "interfaces up")
    set_up(suspend.names, False)
    suspend.test("devices", "interfaces down")
    for _ in range(3):
        suspend.test("devices", "interfaces up")
    suspend.say("done" if suspend.good else "failed")
    time.sleep(1)
    LIBC.reboot(POWER_OFF)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        (SHARED / "results").write_text(repr(error))
        raise
