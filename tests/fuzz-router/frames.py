"""What is compared of the frames that come out of two routers."""

import struct

from hosts import asked, inner
from lib import packets

VXLAN = struct.pack("!H", 4789)
REDIRECT = bytes([137])
OWN = (1, 254)  # last octets of the routers' addresses


def is_noise(frame):
    """What a router asks or says by itself, at times of its own: ARP requests, neighbour discovery, group membership."""
    at = inner(frame)
    kind, packet = frame[at:at + 2], frame[at + 2:]
    if kind == b"\x08\x06":
        return packet[6:8] == b"\0\x01"
    if kind == b"\x08\0":
        return packet[9:10] == b"\x02"
    if kind != b"\x86\xdd":
        return False
    if asked(frame) is not None and packet[7] == 255:  # less: it was forwarded
        return True
    report = packet[6:7] == b"\0" and packet[40:41] == b"\x3a"
    return report or (packet[6:7] == b"\x3a" and packet[40] in (131, 132, 133, 134, 143))


def source_of(frame):
    """The source address of a frame's IP packet, if it has one."""
    at = inner(frame)
    kind, packet = frame[at:at + 2], frame[at + 2:]
    return packet[12:16] if kind == b"\x08\0" else packet[8:24] if kind == b"\x86\xdd" else None


def without_identification(packet):
    """An IPv6 packet with 0 as the identification of its fragment header, and of an IPv4 packet in it."""
    kind, at = packet[6], 40
    while kind in (0, 43, 60) and at + 8 <= len(packet):
        kind, at = packet[at], at + 8 * (packet[at + 1] + 1)
    if kind == 44:
        return packet[:at + 4] + bytes(4) + packet[at + 8:]
    return packet[:at + 4] + bytes(2) + packet[at + 6:at + 10] + bytes(2) + packet[at + 12:] if kind == 4 else packet


def is_redirect(frame):
    """A redirect of IPv6: Linux limits them for each target. Here it has no length (`normal`)."""
    at = inner(frame)
    return frame[at:at + 2] == b"\x86\xdd" and frame[at + 6:at + 7] == b"\x3a" and frame[at + 40:at + 41] == REDIRECT


def redirects_vary(got):
    """Whether both routers have sent redirects of IPv6, or each but a few: then their numbers are chance."""
    counts = [sum(count for (_, frame), count in half.items() if is_redirect(frame)) for half in got]
    return min(counts) > 0 or max(counts) < 3


def says_host_is_dead(frame):
    """An ICMP error: the neighbour did not answer. Linux forgets what waits for a neighbour when an error that it sends
    goes to the same one, so the order of packets counts."""
    at = inner(frame)
    kind, packet = frame[at:at + 2], frame[at + 2:]
    if kind == b"\x08\0":
        return packet[9] == 1 and packet[20:22] == b"\3\1"
    return kind == b"\x86\xdd" and packet[6] == 58 and packet[40:42] == b"\1\3"


def normal(frame, sources):
    """A frame without padding and what Linux makes at random: the identification of the router's own packets, which are
    answers and errors of ICMP, and what comes from none of the hosts' `sources`; options of redirects."""
    at = inner(frame)
    kind, packet = frame[at:at + 2], frame[at + 2:]
    own = source_of(frame) not in sources
    if kind == b"\x08\0" and len(packet) >= 20:
        length = struct.unpack("!H", packet[2:4])[0]
        own = own or packet[15] in OWN  # hosts forge them
        if own or (packet[9] == 1 and packet[20] in (0, 3, 5, 11, 12)):
            packet = packet[:4] + b"\0\0" + packet[6:10] + b"\0\0" + packet[12:]
        if own and packet[9] == 17 and packet[22:24] == VXLAN:  # Linux draws the source port by a random key
            packet = packet[:20] + b"\0\0" + packet[22:26] + b"\0\0" + packet[28:36] + normal(packet[36:length], sources)
    elif kind == b"\x86\xdd" and len(packet) >= 40:
        length = 40 + struct.unpack("!H", packet[4:6])[0]
        if own or packet[23] in OWN:
            packet = without_identification(packet)
        if packet[6] == 58 and packet[40:41] == REDIRECT:  # it tells the target's MAC if it is known at this moment
            packet, length = packet[:4] + packet[6:42] + packet[44:80], 76
    else:
        length = len(packet) if kind != b"\x08\x06" else 28
    return frame[:at + 2] + packet[:length] + packet[length:].rstrip(b"\0")


def show_difference(got):
    """Frames of one router only, as text."""
    lines = []
    for which, name in enumerate(("Linux alone", "with Bora")):
        only = got[which] - got[1 - which]
        for (link, frame), count in sorted(only.items())[:6]:
            lines.append(f"  only {name}: h{link} got {count} x {packets.describe(frame)}\n      {frame.hex()[:240]}")
    return "\n".join(lines)
