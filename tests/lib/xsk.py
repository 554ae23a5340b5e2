"""An AF_XDP socket on one queue of an interface, so that nobody else can open one there."""

import ctypes
import mmap
import os
import socket
import struct

from lib.netns import inside

AF_XDP, SOL_XDP = 44, 283
RX_RING, UMEM_REG, UMEM_FILL_RING, UMEM_COMPLETION_RING = 2, 4, 5, 6  # linux/if_xdp.h
COPY = 1 << 1
_libc = ctypes.CDLL(None, use_errno=True)


class Occupier:
    """Holds a queue until `close()`."""

    def __init__(self, namespace, interface, queue):
        with inside(namespace.name):
            self.socket = socket.socket(AF_XDP, socket.SOCK_RAW, 0)
            ifindex = socket.if_nametoindex(interface)
        self.memory = mmap.mmap(-1, 16 * 4096)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        option = self.socket.setsockopt
        option(SOL_XDP, UMEM_REG, struct.pack("QQIIII", address, 16 * 4096, 4096, 0, 0, 0))
        for ring in (UMEM_FILL_RING, UMEM_COMPLETION_RING, RX_RING):
            option(SOL_XDP, ring, struct.pack("i", 16))
        where = struct.pack("HHIII", AF_XDP, COPY, ifindex, queue, 0)
        if _libc.bind(self.socket.fileno(), where, len(where)) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"bind to queue {queue} of {interface}: {os.strerror(error)}")

    def close(self):
        """Frees the queue."""
        self.socket.close()
