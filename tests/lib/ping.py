"""ICMP echo from a namespace, through Linux's stack, with a check of every payload."""

import os
import select
import socket
import struct
import time

from lib.netns import inside


def _checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def ping(namespace, address, count=1, size=56, interval=0.002, patience=3.0, ttl=64):
    """Sends `count` echo requests with `size` (even) octets of payload and, of IPv4, this `ttl`; returns the numbers of the intact replies."""
    v6 = ":" in address
    family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if v6 else (socket.AF_INET, socket.IPPROTO_ICMP)
    request, reply = (128, 129) if v6 else (8, 0)
    with inside(namespace.name):
        sock = socket.socket(family, socket.SOCK_RAW, protocol)
    if not v6:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
    identifier = os.getpid() & 0xFFFF
    payloads = [os.urandom(size) for _ in range(count)]
    back = set()

    def take(timeout):
        if not select.select([sock], [], [], timeout)[0]:
            return False
        data = sock.recv(65535)
        data = data if v6 else data[(data[0] & 15) * 4:]
        kind, code, _, who, number = struct.unpack("!BBHHH", data[:8])
        if (kind, code, who) == (reply, 0, identifier) and data[8:] == payloads[number]:
            assert number not in back, f"reply {number} came twice"
            back.add(number)
        return True

    with sock:
        for number, payload in enumerate(payloads):
            head = struct.pack("!BBHHH", request, 0, 0, identifier, number)
            check = 0 if v6 else _checksum(head + payload)  # Linux fills in ICMPv6's
            sock.sendto(head[:2] + struct.pack("!H", check) + head[4:] + payload, (address, 0))
            end = time.monotonic() + interval
            while (left := end - time.monotonic()) > 0:
                take(left)
        deadline = time.monotonic() + patience
        while len(back) < count and (left := deadline - time.monotonic()) > 0:
            take(left)
    return back
