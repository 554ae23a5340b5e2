"""Writes many routes fast: netlink messages are made beforehand and written in batches.

`python3 -m lib.routes` is the churning process of integration/test_churn.py."""

import ipaddress
import json
import random
import socket
import struct
import sys
import time

from lib.netns import inside

NETLINK_ROUTE = 0
RTM_NEWROUTE, RTM_DELROUTE = 24, 25
NLM_F_REQUEST, NLM_F_REPLACE, NLM_F_CREATE = 1, 0x100, 0x400
NLMSG_ERROR = 2
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_METRICS, RTA_NH_ID = 1, 4, 5, 6, 8, 30
RTAX_MTU = 2
RT_TABLE_MAIN, RTPROT_STATIC, RT_SCOPE_UNIVERSE, RTN_UNICAST = 254, 4, 0, 1
RT_TABLE_LOCAL, RT_SCOPE_HOST, RTN_LOCAL, LOOPBACK = 255, 254, 2, 1
IPV6_METRIC = 1024
BATCH_BYTES = 30_000

# Number of prefixes of each length in a full table of 2026 (a union of several views).
HISTOGRAM4 = {12: 4543, 16: 14310, 17: 9053, 18: 15072, 19: 27788, 20: 49815, 21: 57824, 22: 122384, 23: 126268,
              24: 741888, 32: 886}
HISTOGRAM6 = {29: 5532, 32: 27182, 36: 10386, 40: 24765, 44: 26975, 46: 8379, 47: 9843, 48: 129950, 56: 30000,
              64: 6843}


def _attribute(kind, data):
    return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def message(kind, prefix, length, gateway, mtu=None):
    """One RTM_NEWROUTE or RTM_DELROUTE. `prefix` and `gateway` are packed addresses of one family."""
    way = _attribute(RTA_GATEWAY, gateway)
    if len(prefix) == 16:
        way += _attribute(RTA_PRIORITY, struct.pack("I", IPV6_METRIC))
    if mtu is not None:
        way += _attribute(RTA_METRICS, _attribute(RTAX_MTU, struct.pack("I", mtu)))
    return _message(kind, prefix, length, (RT_TABLE_MAIN, RT_SCOPE_UNIVERSE, RTN_UNICAST), way)


def group_message(prefix, length, group):
    """A new route by a next hop or group of this number (`ip nexthop`)."""
    what = (RT_TABLE_MAIN, RT_SCOPE_UNIVERSE, RTN_UNICAST)
    return _message(RTM_NEWROUTE, prefix, length, what, _attribute(RTA_NH_ID, struct.pack("I", group)))


def local_message(kind, address):
    """A message for a local route, which makes an address the router's own."""
    way = _attribute(RTA_OIF, struct.pack("I", LOOPBACK))
    return _message(kind, address, 8 * len(address), (RT_TABLE_LOCAL, RT_SCOPE_HOST, RTN_LOCAL), way)


def _message(kind, prefix, length, what, way):
    table, scope, route_type = what
    family = socket.AF_INET if len(prefix) == 4 else socket.AF_INET6
    body = struct.pack("BBBBBBBBI", family, length, 0, 0, table, RTPROT_STATIC, scope, route_type, 0)
    body += _attribute(RTA_DST, prefix) + way
    flags = NLM_F_REQUEST | (NLM_F_CREATE | NLM_F_REPLACE if kind == RTM_NEWROUTE else 0)
    return struct.pack("IHHII", 16 + len(body), kind, flags, 0, 0) + body


def batches(messages):
    """Joins messages to buffers for one send each."""
    buffer, many = bytearray(), []
    for one in messages:
        if len(buffer) + len(one) > BATCH_BYTES:
            many.append(bytes(buffer))
            buffer.clear()
        buffer += one
    return many + [bytes(buffer)] if buffer else many


class Writer:
    """A netlink socket in a namespace that writes batches and counts what the kernel refused."""

    def __init__(self, namespace):
        with inside(namespace):
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.socket.bind((0, 0))
        self.refused = {}

    def write(self, buffer):
        """Writes one batch; when this returns, the kernel has processed it. The kernel answers only errors."""
        self.socket.send(buffer)
        while True:
            try:
                answers = self.socket.recv(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            at = 0
            while at + 20 <= len(answers):
                length, kind = struct.unpack_from("IH", answers, at)
                if kind == NLMSG_ERROR:
                    (error,) = struct.unpack_from("i", answers, at + 16)
                    self.refused[-error] = self.refused.get(-error, 0) + 1
                at += (length + 3) & ~3

    def close(self):
        """Closes the socket."""
        self.socket.close()


def synthetic_table(family, count, seed):
    """`count` distinct (packed prefix, length) with the lengths of a full table, the same for each seed.

    IPv4 lies in 20/8 to 191/8. IPv6 is clustered as in the Internet: allocations of /32 in the registries'
    blocks of /12, and longer prefixes inside of these. Neither overlaps a network that the tests use."""
    source = random.Random(seed)
    histogram = HISTOGRAM4 if family == 4 else HISTOGRAM6
    width = 32 if family == 4 else 128
    allocations = [_allocation(source) for _ in range(count // 6)]
    table = {}
    for length in source.choices(list(histogram), list(histogram.values()), k=count * 2):
        if len(table) == count:
            break
        if family == 4:
            address = source.randrange(20 << 24, 192 << 24)
        else:
            top = source.choice(allocations) if length > 32 else _allocation(source)
            address = top << 96 | source.getrandbits(96)
        prefix = address >> (width - length) << (width - length)
        if family == 6 or prefix >> 24 != 127:
            table[prefix.to_bytes(width // 8, "big"), length] = None
    return list(table)


def _allocation(source):
    """32 leading bits of an IPv6 address: a registry's /12, then any allocation in it."""
    return source.choice([0x240, 0x260, 0x280, 0x2A0, 0x2C0]) << 20 | source.getrandbits(20)


def table_messages(table, gateways, kind=RTM_NEWROUTE):
    """The messages of a table; prefixes get the gateways (text addresses) in turn."""
    packed = [ipaddress.ip_address(gateway).packed for gateway in gateways]
    return (message(kind, prefix, length, packed[i % len(packed)]) for i, (prefix, length) in enumerate(table))


def write(namespace, messages):
    """Writes messages into the kernel, in a namespace; the kernel must accept all of them."""
    writer = Writer(namespace)
    for buffer in batches(messages):
        writer.write(buffer)
    writer.close()
    assert not writer.refused, f"the kernel refused routes, by errno: {writer.refused}"


def churn(task):
    """Adds and deletes routes at `rate` changes a second for `seconds`; leaves the routes in place at the end."""
    writer = Writer(task["namespace"])
    rounds = []
    for kind in (RTM_NEWROUTE, RTM_DELROUTE):
        messages = []
        for family, count in ((4, task["routes4"]), (6, task["routes6"])):
            gateway = ipaddress.ip_address(task["gateways"][str(family)]).packed
            messages += [message(kind, prefix, length, gateway)
                         for prefix, length in synthetic_table(family, count, task["seed"])]
        rounds.append([(buffer, _count(buffer)) for buffer in batches(messages)])
    print("churning", flush=True)
    changes, started = 0, time.monotonic()
    number = 0
    while time.monotonic() - started < task["seconds"] or number % 2 == 0:
        for buffer, count in rounds[number % 2]:
            writer.write(buffer)
            changes += count
            ahead = changes / task["rate"] - (time.monotonic() - started)
            if ahead > 0:
                time.sleep(ahead)
        number += 1
    seconds = time.monotonic() - started
    print(json.dumps({"changes": changes, "seconds": seconds, "refused": writer.refused}), flush=True)


def _count(buffer):
    count = at = 0
    while at < len(buffer):
        at += struct.unpack_from("I", buffer, at)[0]
        count += 1
    return count


if __name__ == "__main__":
    churn(json.loads(sys.stdin.readline()))
