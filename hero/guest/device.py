"""hero-device: four simulated cards, each with a socket for QEMU and a cable whose other end is here."""

import contextlib
import json
import select
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path

CARDS = 4
START_SECONDS = 20
LONGEST = 2048


class DeviceError(Exception):
    """hero-device did not start."""


class Cable:
    """The other end of a card's cable, as a Unix datagram socket: one frame, without FCS, a datagram."""

    def __init__(self, path):
        self.path = Path(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"{path}.peer")

    def send(self, frame):
        """Sends a frame to the card; false if the device is gone or takes no more."""
        try:
            self.socket.sendto(frame, socket.MSG_DONTWAIT, str(self.path))
        except (ConnectionRefusedError, FileNotFoundError, BlockingIOError):
            return False
        return True

    def receive(self, seconds):
        """The next frame of the card, or None after `seconds`."""
        ready, _, _ = select.select([self.socket], [], [], seconds)
        return self.socket.recv(LONGEST) if ready else None

    def close(self):
        """Unplugs it."""
        self.socket.close()
        Path(f"{self.path}.peer").unlink(missing_ok=True)


class Device:
    """A running hero-device with its files in `folder`. `wires`: the end of each cable as for --wire; None: cables that are here."""

    def __init__(self, program, model, folder, wires=None, options=()):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cables = [] if wires else [Cable(path) for path in cable_paths(self.folder)]
        ends = wires or socket_ends(self.folder)
        self.command = [str(program), "--model", str(model), "--socket-dir", str(self.folder), *options,
                        *(f"--wire={card}={end}" for card, end in enumerate(ends))]
        self.log = self.folder / "device.log"
        self.pid = self.folder / "pid"  # who kills it removes this
        self.process = None

    def __enter__(self):
        try:
            self.start()
        except DeviceError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        for cable in self.cables:
            cable.close()

    def sockets(self):
        """Where the cards wait for QEMU."""
        return [self.folder / f"card{card}.sock" for card in range(CARDS)]

    def start(self):
        """Starts it and waits for its sockets."""
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *self.command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid.write_text(str(self.process.pid))
        end = time.monotonic() + START_SECONDS
        while not all(path.exists() for path in self.sockets()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise DeviceError(f"{' '.join(self.command)} did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, how=signal.SIGTERM):
        """Ends it; returns its exit code, negative if by a signal."""
        if self.process is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(how)
        return self.process.wait()

    def is_running(self):
        """Whether it has not ended."""
        return self.process is not None and self.process.poll() is None


def qemu_options(sockets, memory):
    """QEMU's options for cards behind these sockets, each on a port of its own, and for memory that they can reach: below 2 GiB, shared."""
    options = [f"-object memory-backend-memfd,id=guest,size={memory},share=on", "-machine memory-backend=guest,max-ram-below-4g=2G"]
    for card, path in enumerate(sockets):
        chassis = 64 + card
        options.append(f"-device pcie-root-port,id=hero-port{card},chassis={chassis},slot={chassis}")
        card = {"driver": "vfio-user-pci", "id": f"hero{card}", "bus": f"hero-port{card}", "socket": {"type": "unix", "path": str(path)}}
        # vng takes the quotes away
        options.append(f"-device {shlex.quote(json.dumps(card))}")
    return options


def cable_paths(folder):
    """The sockets of cables that end at Unix datagrams; the other end of each is beside it, PATH.peer."""
    return [Path(folder) / f"wire{card}" for card in range(CARDS)]


def socket_ends(folder):
    """These cables' ends, as --wire has them."""
    return [f"socket:{path}" for path in cable_paths(folder)]


def cable_options(folder):
    """QEMU's options for a virtio card at the other end of each of these cables."""
    options = []
    for card, path in enumerate(cable_paths(folder)):
        options.append(f"-netdev dgram,id=cable{card},local.type=unix,local.path={path}.peer,remote.type=unix,remote.path={path}")
        options.append(f"-device virtio-net-pci,netdev=cable{card}")
    return options
