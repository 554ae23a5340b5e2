"""A memif client by hand, which may do what no honest one does."""

import contextlib
import os
import socket
import struct

LOG2 = 8
COOKIE = 0x3E31F20
HEAD = 6
RING_OCTETS = 128 + (16 << LOG2)
BUFFERS = 2 * RING_OCTETS
SIZE = BUFFERS + 4096 * 64


class Client:
    """One connection; `region` is its memory."""

    def __init__(self, path, flags=os.MFD_ALLOW_SEALING):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(path)
        self.region = os.memfd_create("peer", flags)
        os.ftruncate(self.region, SIZE)
        for ring in range(2):
            os.pwrite(self.region, struct.pack("I", COOKIE), ring * RING_OCTETS)
        self.bells = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2)]

    def send(self, message, fds=()):
        """A message of any octets with any descriptors."""
        socket.send_fds(self.socket, [message], fds)

    def connect(self):
        """The whole handshake; true once the link is up."""
        self.socket.recv(128)
        ring = [struct.pack("=HHHHIBH", 5, s2m, 0, 0, (1 - s2m) * RING_OCTETS, LOG2, 0) for s2m in (1, 0)]
        script = [(struct.pack("=HHIB", 3, 0x200, 0, 0), ()), (struct.pack("=HHQ", 4, 0, SIZE), [self.region]),
                  (ring[0], self.bells[:1]), (ring[1], self.bells[1:]), (struct.pack("=H", 6) + b"peer", ())]
        for message, fds in script:
            self.send(message.ljust(128, b"\0"), fds)
            answer = struct.unpack_from("H", self.socket.recv(128))[0]
            if answer not in (1, 7):
                return False
        return True

    def offer(self, count, flags=0, region=0, length=60, offset=BUFFERS):
        """Puts packets in the ring to Bora, each described like this."""
        for slot in range(count):
            os.pwrite(self.region, struct.pack("=HHIII", flags, region, length, offset, 0), 128 + 16 * slot)
        os.pwrite(self.region, struct.pack("H", count), HEAD)

    def close(self):
        """Goes away."""
        for fd in (self.region, *self.bells):
            os.close(fd)
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.close()
