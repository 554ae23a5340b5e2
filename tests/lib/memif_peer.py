"""A memif client that can violate the protocol, and one that sends and captures frames."""

import contextlib
import os
import socket
import struct
import subprocess
import time

LOG2 = 8
COOKIE = 0x3E31F20
FLAGS, HEAD, TAIL = 4, 6, 64
RING_OCTETS = 128 + (16 << LOG2)
BUFFERS = 2 * RING_OCTETS
SIZE = BUFFERS + 4096 * 64


class Client:
    """One connection; `region` is its memory."""

    def __init__(self, path, flags=os.MFD_ALLOW_SEALING, size=SIZE):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(path)
        self.region = os.memfd_create("peer", flags)
        self.size = size
        os.ftruncate(self.region, size)
        for ring in range(2):
            os.pwrite(self.region, struct.pack("I", COOKIE), ring * RING_OCTETS)
        self.bells = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2)]

    def send(self, message, fds=()):
        """Sends a message of any octets with any descriptors."""
        socket.send_fds(self.socket, [message], fds)

    def connect(self):
        """The whole handshake; true once the link is up."""
        self.socket.recv(128)
        ring = [struct.pack("=HHHHIBH", 5, s2m, 0, 0, (1 - s2m) * RING_OCTETS, LOG2, 0) for s2m in (1, 0)]
        script = [(struct.pack("=HHIB", 3, 0x200, 0, 0), ()), (struct.pack("=HHQ", 4, 0, self.size), [self.region]),
                  (ring[0], self.bells[:1]), (ring[1], self.bells[1:]), (struct.pack("=H", 6) + b"peer", ())]
        for message, fds in script:
            self.send(message.ljust(128, b"\0"), fds)
            answer = struct.unpack_from("H", self.socket.recv(128))[0]
            if answer not in (1, 7):
                return False
        return True

    def offer(self, count, flags=0, region=0, length=60, offset=BUFFERS):
        """Puts packets into the ring to Bora, each with these descriptors."""
        for slot in range(count):
            os.pwrite(self.region, struct.pack("=HHIII", flags, region, length, offset, 0), 128 + 16 * slot)
        os.pwrite(self.region, struct.pack("H", count), HEAD)

    def close(self):
        """Closes the connection."""
        for fd in (self.region, *self.bells):
            os.close(fd)
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.close()


class MemifPort:
    """A memif client with the interface of lib.port.Port: sends and captures whole frames."""

    SLOTS, ROOM = 1 << LOG2, 4096
    TO_BORA, FROM_BORA = 0, RING_OCTETS  # offsets of the rings

    def __init__(self, path):
        self.client = Client(path, size=BUFFERS + 2 * self.SLOTS * self.ROOM)
        assert self.client.connect(), "Bora refuses the link"
        self.sent = self.received = 0
        self._put(self.TO_BORA + FLAGS, 1)  # Bora need not say that it has taken something
        for slot in range(self.SLOTS):
            self._give(slot)

    def _field(self, at):
        return struct.unpack("H", os.pread(self.client.region, 2, at))[0]

    def _put(self, at, value):
        os.pwrite(self.client.region, struct.pack("H", value & 0xFFFF), at)

    def _buffer(self, number):
        return BUFFERS + number * self.ROOM

    def _describe(self, ring, slot, length, buffer):
        os.pwrite(self.client.region, struct.pack("=HHIII", 0, 0, length, self._buffer(buffer), 0), ring + 128 + 16 * slot)

    def _give(self, number):
        """Gives Bora room for one more frame."""
        slot = number % self.SLOTS
        self._describe(self.FROM_BORA, slot, self.ROOM, self.SLOTS + slot)
        self._put(self.FROM_BORA + HEAD, number + 1)

    def fileno(self):
        """For select()."""
        return self.client.bells[1]

    def send(self, frame):
        """Sends one frame as it is; waits at most a second for room in the ring."""
        deadline = time.monotonic() + 1
        while (self.sent - self._field(self.TO_BORA + TAIL)) & 0xFFFF >= self.SLOTS:
            if time.monotonic() > deadline:
                raise TimeoutError("Bora takes no frame")
            time.sleep(0.001)
        slot = self.sent % self.SLOTS
        os.pwrite(self.client.region, frame, self._buffer(slot))
        self._describe(self.TO_BORA, slot, len(frame), slot)
        self.sent += 1
        self._put(self.TO_BORA + HEAD, self.sent)
        os.eventfd_write(self.client.bells[0], 1)

    def send_with_checksum_left(self, frame, start, place):
        """Sends a frame whose sender computes the checksum itself: a memif says nothing of those that are left to others."""
        total = sum(struct.unpack(f"!{(len(frame) - start + 1) // 2}H", (frame + b"\0")[start:start + (len(frame) - start + 1) // 2 * 2]))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        at = start + place
        self.send(frame[:at] + struct.pack("!H", ~total & 0xFFFF or 0xFFFF) + frame[at + 2:])

    def receive_now(self):
        """The next captured frame, or None."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.client.bells[1])
        tail = self._field(self.FROM_BORA + TAIL)
        if self.received & 0xFFFF == tail:
            return None
        slot = self.received % self.SLOTS
        _, _, length, offset, _ = struct.unpack("=HHIII", os.pread(self.client.region, 16, self.FROM_BORA + 128 + 16 * slot))
        frame = os.pread(self.client.region, length, offset)
        self._give(self.received + self.SLOTS)
        self.received += 1
        if self.received & 0xFFFF != tail:
            os.eventfd_write(self.client.bells[1], 1)  # select() must say that there is more
        return frame

    def drain(self):
        """Discards the frames captured so far."""
        while self.receive_now() is not None:
            pass

    def close(self):
        """Closes the connection."""
        self.client.close()


def shrink(client):
    """Truncates all of its memory."""
    client.offer(200)
    os.ftruncate(client.region, 0)


def punch(client):
    """Punches a hole into all of its memory."""
    client.offer(200)
    done = subprocess.run(["fallocate", "-p", "-o", "0", "-l", str(SIZE), f"/proc/self/fd/{client.region}"],
                          pass_fds=[client.region], check=False)
    assert done.returncode == 0


# (flags of the memory, what the client does, what Bora then reports)
DEEDS = [
    (0, shrink, "took away memory of region 0"),
    (os.MFD_ALLOW_SEALING, punch, "took away memory of region 0"),
    (0, lambda client: client.offer(1, offset=2 ** 32 - 1), "is outside region 0"),
    (0, lambda client: client.offer(1, region=9), "is outside region 9"),
    (0, lambda client: client.offer(256, flags=1), "chain of more than 256 buffers"),
    (0, lambda client: os.pwrite(client.region, b"\xff\xff", 6), "not within 256 slots"),
    (0, lambda client: client.send(os.urandom(64)), "message of 64 octets"),
    (0, lambda client: client.send(b"\x08\0" + bytes(4) + b"\x1b[2J\n".ljust(122, b"\0")), "disconnected: \ufffd[2J\ufffd"),
]


def wait_for(bora, words, seconds=10):
    """Waits until the state of the memif port contains these words."""
    deadline = time.monotonic() + seconds
    while True:
        wire = next(port["wire"] for port in bora.show("ports") if port["kind"] == "memif")
        if words in wire:
            return
        assert time.monotonic() < deadline, f"{wire}, not {words!r}"
        time.sleep(0.02)
