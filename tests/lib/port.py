"""A raw port: sends and captures whole Ethernet frames on one interface of a namespace."""

import errno
import select
import socket
import struct
import time

from lib.netns import inside

SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP = 1
PACKET_AUXDATA = 8
PACKET_VNET_HDR = 15
PACKET_IGNORE_OUTGOING = 23
PACKET_MR_PROMISC = 1
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6
SO_RCVBUFFORCE = 33
ETH_P_ALL = 3
ETH_P_8021Q = 0x8100


class Port:
    """AF_PACKET socket on one interface, promiscuous; it captures only incoming frames, or with `capture=False` nothing."""

    def __init__(self, namespace, interface, buffer=32 << 20, capture=True):
        with inside(namespace):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, buffer)
            self.socket.bind((interface, ETH_P_ALL if capture else 0))
            request = struct.pack("iHH8s", socket.if_nametoindex(interface), PACKET_MR_PROMISC, 0, b"")
            self.socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)
        self.socket.setblocking(False)

    def fileno(self):
        """For select()."""
        return self.socket.fileno()

    def send(self, frame):
        """Sends one frame as it is; waits at most a second for room in the socket's buffer."""
        for _ in range(1000):
            try:
                self.socket.send(frame)
                return
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ENOBUFS):
                    raise
                time.sleep(0.001)
        raise TimeoutError("the interface accepts no frame")

    def send_with_checksum_left(self, frame, start, place):
        """Sends a frame with an incomplete checksum, which covers the frame from `start` on and stands at `start + place`."""
        needs_checksum = struct.pack("=BBHHHH", 1, 0, 0, 0, start, place)  # struct virtio_net_hdr
        self.socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        try:
            self.send(needs_checksum + frame)
        finally:
            self.socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 0)

    def send_tagged(self, frame, kind, tag):
        """Sends a frame whose 802.1Q tag is in the socket buffer, not in the frame (with push_tag.bpf.c on the interface)."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, struct.pack("I", kind << 16 | tag))
        try:
            self.send(frame)
        finally:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 0)

    def receive_now(self):
        """The next captured frame with its VLAN tag put back, or None."""
        try:
            frame, ancillary, _, _ = self.socket.recvmsg(65536, 256)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENETDOWN):  # nothing to read, or the link has just gone down
                return None
            raise
        for level, kind, data in ancillary:
            if level == SOL_PACKET and kind == PACKET_AUXDATA and len(data) >= 20:
                status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data[:20])
                if status & TP_STATUS_VLAN_VALID:
                    tpid = tpid if status & TP_STATUS_VLAN_TPID_VALID else ETH_P_8021Q
                    frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
        return frame

    def drain(self):
        """Discards the frames captured so far; fails if there is no end."""
        for _ in range(1_000_000):
            if self.receive_now() is None:
                return
        raise RuntimeError("frames keep coming faster than they can be read")

    def close(self):
        """Closes the socket."""
        self.socket.close()


def wait_readable(ports, timeout):
    """Waits until one of the ports has a frame; returns those that have."""
    return select.select(ports, [], [], max(0.0, timeout))[0]
