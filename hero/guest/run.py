#!/usr/bin/env python3
"""Boots one of Debian's kernels with four HERO cards and runs a Python script in the guest.

    hero/guest/run.py                                     # without a driver: cards_guest.py
    hero/guest/run.py --kernel 6.12 --driver              # with hero.ko of `make hero-module`: driver_guest.py
    hero/guest/run.py --driver --steps bring_up,pings     # some steps of it
    hero/guest/run.py --driver --script bora_guest.py
    hero/guest/run.py --kernel 6.12 --module hero.ko --script test_guest.py --wires namespaces

The script runs as root with the machine's file system, and gets two arguments: the folder that it shares with the host, and the file
for its results, whose last line must be `done`; what it writes to the second serial port comes after that. Wires: `echo`, the default,
sends frames to each card and notes what comes back (shared/wireN, a line of hexadecimal digits a frame); `namespaces`: the cable of
card N is the TAP interface `wire` in the namespace heroN, up, where --host COMMAND can use it; `guest`: it is a virtio card of the
guest itself; or the ends as hero-device's --wire has them, by commas. --driver stands for the module, namespaces if no other wires are
asked for, driver_host.py, which runs commands for the script, and access to the cards' registers for programs.
"""

import argparse
import contextlib
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
if not __package__:
    sys.path.insert(0, str(ROOT))

from hero.guest import debug_kernel, device  # noqa: E402
from tests.vm import kernels, machine, qemu  # noqa: E402

MEMORY = "2G"
SECONDS = 600  # an idle machine needs a twentieth
APPEND = "no_timer_check"  # on a busy machine Linux finds that the timer does not work, and panics
ECHO_SECONDS = 0.2
SCRIPT, DRIVER_SCRIPT = HERE / "cards_guest.py", HERE / "driver_guest.py"
MODULES = ROOT / "target/hero/linux"
MODEL = ROOT / "target/hero/libhero-xbar.so"
PROGRAM = ROOT / "target/release/hero-device"


def broadcast(card):
    """A frame to all stations that says to which card it was sent."""
    return b"\xff" * 6 + bytes([2, 0, 0, 0, 1, card]) + b"\x88\xb5" + f"to card {card}".encode().ljust(86, b".")


class Echo(threading.Thread):
    """Sends each card a frame now and then once the guest has booted, and writes down what the card sends."""

    def __init__(self, cables, shared):
        super().__init__(daemon=True)
        self.cables, self.shared = cables, shared
        self.ended = threading.Event()

    def run(self):
        """Until `ended`."""
        while not self.ended.wait(ECHO_SECONDS):
            for card, cable in enumerate(self.cables):
                if (self.shared / "booted").exists():
                    cable.send(broadcast(card))
                while (frame := cable.receive(0)) is not None:
                    with open(self.shared / f"wire{card}", "a") as file:
                        file.write(frame.hex() + "\n")
                    if frame[12:14] == b"\x88\xb6":  # what is inside is for another card
                        self.cables[frame[14]].send(frame[15:])


@contextlib.contextmanager
def namespaces(prefix):
    """Network namespaces for the cables' ends, whose names begin with `prefix`; yields their names. Runs with one prefix take turns."""
    names = [f"{prefix}{card}" for card in range(device.CARDS)]
    with open(f"/run/lock/{prefix}-guest", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "netns", "add", name], check=True)
        try:
            yield names
        finally:
            for name in names:
                subprocess.run(["ip", "netns", "delete", name], check=False)


def guest(kernel, running, shared, script, module=None, seconds=SECONDS, append="", devices=()):
    """Boots a guest with the cards of a running device and other devices (options of QEMU), loads `module`, and runs `script`, a list with its
    arguments. QEMU's monitor is at shared/monitor. Returns what the script wrote, and why it failed or None."""
    results = shared / "results"
    load = f"insmod {module} && " if module else ""
    inside = f"{load}exec /usr/bin/python3 {script[0]} {shlex.join(map(str, (shared, results, *script[1:])))}"
    passed = [f"BORA={os.environ['BORA']}"] if "BORA" in os.environ else []
    command = ["env", "PYTHONDONTWRITEBYTECODE=1", *passed, "sh", "-c", inside]
    options = [*device.qemu_options(running.sockets(), MEMORY), *devices, f"-qmp unix:{shared}/monitor,server=on,wait=off",
               f"-chardev file,id=late,path={shared}/late -device isa-serial,chardev=late,index=1"]
    _, why = machine.run(kernel, (), command, shared, seconds, f"{APPEND} {append}", options, qemu=qemu.get(), memory=MEMORY)
    text = "".join(path.read_text(errors="replace") for path in (results, shared / "late") if path.exists())
    return text, None if text.endswith("done\n") else why or "the script did not write `done`"


def module_of(kernel):
    """The driver for a kernel, as `make hero-module` builds it."""
    return MODULES / kernel.version / "hero.ko"


@contextlib.contextmanager
def wired(program, model, shared, wires, prefix):
    """A running device whose cables have the ends that --wires names. The script finds the namespaces' prefix in shared/namespaces."""
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(namespaces(prefix)) if wires == "namespaces" else []
        known = {"echo": None, "namespaces": [f"tap:wire,netns={name}" for name in names], "guest": device.socket_ends(shared / "device")}
        ends = known[wires] if wires in known else wires.split(",")
        running = stack.enter_context(device.Device(program, model, shared / "device", ends))
        (shared / "namespaces").write_text(prefix)
        for name in names:
            subprocess.run(["ip", "-n", name, "link", "set", "wire", "up"], check=True)
        if wires == "echo":
            echo = Echo(running.cables, shared)
            echo.start()
            stack.callback(echo.join)
            stack.callback(echo.ended.set)
        yield running


@contextlib.contextmanager
def host_command(command, shared):
    """Runs what is to run beside the guest, if anything; it ends with the guest."""
    if not command:
        yield
        return
    beside = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "sh", "-c", command], env=os.environ | {"SHARED": str(shared)})
    try:
        yield
    finally:
        beside.terminate()
        beside.wait()


def main():
    """Exit code 1 if the script did not end well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="newest", choices=[*kernels.SERIES, "debug"], help="debug: that of debug_kernel.py")
    parser.add_argument("--module", type=Path, help="a kernel module to load first")
    parser.add_argument("--driver", action="store_true", help="test the driver; see above")
    parser.add_argument("--script", type=Path, help="what runs in the guest; without a folder, one of this folder")
    parser.add_argument("--steps", default="", help="more arguments for the script, by commas; driver_guest.py: the steps to run")
    parser.add_argument("--wires", help="echo, namespaces, guest, or ends of cables")
    parser.add_argument("--prefix", default="hero", help="what the names of the namespaces begin with, instead of hero")
    parser.add_argument("--host", help="a shell command that runs beside the guest; $SHARED is the shared folder")
    parser.add_argument("--append", default="", help="more for the kernel's command line")
    parser.add_argument("--device", type=Path, default=PROGRAM, help="hero-device")
    parser.add_argument("--model", type=Path, default=MODEL, help="the library with the cards")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="what the script may take")
    arguments = parser.parse_args()
    kernel = debug_kernel.get() if arguments.kernel == "debug" else kernels.get(arguments.kernel)
    if arguments.driver:
        arguments.module = module_of(kernel)
        arguments.host = f"exec {shlex.join([sys.executable, str(HERE / 'driver_host.py')])} $SHARED"
        arguments.append = f"iomem=relaxed {arguments.append}"
    script = arguments.script or (DRIVER_SCRIPT if arguments.driver else SCRIPT)
    script = HERE / script if script.parent == Path() else script.resolve()
    shared = machine.RUNS / f"hero-{arguments.kernel}-{script.stem}"
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    module = arguments.module and arguments.module.resolve()
    wires = arguments.wires or ("namespaces" if arguments.driver else "echo")
    cables = device.cable_options(shared / "device") if wires == "guest" else ()
    with wired(arguments.device, arguments.model, shared, wires, arguments.prefix) as running, host_command(arguments.host, shared):
        program = [script, *filter(None, arguments.steps.split(","))]
        text, why = guest(kernel, running, shared, program, module, arguments.seconds, arguments.append, cables)
        if not running.is_running() and running.pid.exists():
            why = f"hero-device ended: {running.log.read_text()[-2000:]}"
    print(text)
    if why:
        sys.exit(f"{why}; the guest's console: {(shared / 'console.txt').read_text(errors='replace')[-3000:]}")


if __name__ == "__main__":
    try:
        main()
    except kernels.ArchiveError as error:
        sys.exit(str(error))
