"""The hosts of a router: they answer ARP and neighbour solicitations, and nothing else."""

import struct
import threading

from lib import packets
from lib.port import Port, wait_readable

ALIVE = range(2, 100)  # last octets of the addresses that answer
BRIDGE, BRIDGED = bytes.fromhex("02bc0000002f"), 2  # the MAC of a bridge, and the link at which its hosts are
_ARP, _IPV6, _TAGS = b"\x08\x06", b"\x86\xdd", (b"\x81\0", b"\x88\xa8")
_SOLICITATION, _ADVERTISEMENT = 135, 136


def mac_of(link, address):
    """The MAC of the host with an address (octets) on a link."""
    return bytes((2, 0xBC, 0, 0, 0x10 + link, address[-1]))


def inner(frame):
    """Where the EtherType behind all tags is."""
    at = 12
    while frame[at:at + 2] in _TAGS:
        at += 4
    return at


def asked(frame):
    """The address that an ARP request or a neighbour solicitation asks for, or None."""
    at = inner(frame)
    kind, packet = frame[at:at + 2], frame[at + 2:]
    if kind == _ARP and packet[6:8] == b"\0\x01":
        return packet[24:28]
    solicits = kind == _IPV6 and packet[6:7] == b"\x3a" and packet[40:41] == bytes([_SOLICITATION])
    return packet[48:64] if solicits else None


def announced(frame):
    """(address, MAC) that a host's own ARP or neighbour discovery tells the router, or None."""
    at = inner(frame)
    kind, packet = frame[at:at + 2], frame[at + 2:]
    if kind == _ARP:
        return packet[14:18], packet[8:14]
    if kind == _IPV6 and packet[40:41] == bytes([_SOLICITATION]):
        return packet[8:24], packet[66:72]
    if kind == _IPV6 and packet[40:41] == bytes([_ADVERTISEMENT]):
        return packet[48:64], packet[66:72]
    return None


def neighbour_message(kind, source, destination, target, mac, flags=0):
    """ICMPv6 neighbour discovery with one option, the link-layer address, as an IPv6 packet."""
    option = 1 if kind == _SOLICITATION else 2
    body = struct.pack("!BBHI", kind, 0, 0, flags) + target + bytes((option, 1)) + mac
    pseudo = source + destination + struct.pack("!II", len(body), 58)
    body = body[:2] + struct.pack("!H", packets.checksum(pseudo + body)) + body[4:]
    return struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + source + destination + body


def solicitation(source, target, mac):
    """A solicitation to the target itself."""
    return neighbour_message(_SOLICITATION, source, target, target, mac)


def arp(operation, source_mac, source, target_mac, target):
    """An ARP packet."""
    return struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation) + source_mac + source + target_mac + target


class Hosts:
    """A thread that answers for the hosts at the far ends of some ports."""

    def __init__(self, namespace, names):
        self.ports = [Port(namespace, name, buffer=4 << 20) for name in names]
        self.moved = {}  # address: MAC, where a host has said another than the usual one
        self.unanswered = 0  # questions for hosts that do not exist
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stopping.is_set():
            for port in wait_readable(self.ports, 0.2):
                while (frame := port.receive_now()) is not None:
                    self._answer(self.ports.index(port), frame)

    def _answer(self, link, frame):
        address = asked(frame)
        if address is None:
            return
        if address[-1] not in ALIVE:
            self.unanswered += 1
            return
        at = inner(frame)
        packet, asker = frame[at + 2:], frame[6:12]
        if asker == BRIDGE and link != BRIDGED:
            return  # a bridge asks on all its ports, and the host is at one of them
        mac = self.moved.get(address) or mac_of(link, address)
        if len(address) == 4:
            if packet[14:18] == address:
                return  # the router looks for a second owner of its own address
            reply = arp(2, mac, address, packet[8:14], packet[14:18])
        elif not any(packet[8:24]):
            return  # likewise for IPv6
        else:
            reply = neighbour_message(_ADVERTISEMENT, address, packet[8:24], address, mac, 0x60000000)
        try:
            self.ports[link].send(asker + mac + frame[12:at + 2] + reply)
        except OSError:
            pass  # the link is down

    def heard(self, frame):
        """A host sends a frame; what it says of its MAC counts from now on."""
        said = announced(frame)
        if said:
            self.moved[said[0]] = said[1]

    def close(self):
        """Ends the thread."""
        self.stopping.set()
        self.thread.join()
        for port in self.ports:
            port.close()
