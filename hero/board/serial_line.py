"""Registers over the serial line: the requests and answers of rtl/hero_uart_regs.sv."""

import os
import select
import struct
import termios
import time

REQUEST, ANSWER = 0x48, 0x68
WRITE = 0x80
PATIENCE = 0.3  # s until a request is repeated
TRIES = 5


class Refused(Exception):
    """The board answers that it does not do this."""


class Silent(Exception):
    """The board does not answer."""


def crc8(octets):
    crc = 0
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = (crc << 1 ^ (0x07 if crc & 0x80 else 0)) & 0xFF
    return crc


def request(unit, number, value=None):
    octets = struct.pack("<BBBI", REQUEST, unit | (0 if value is None else WRITE), number, value or 0)
    return octets + bytes([crc8(octets)])


def answer(octets, asked):
    """(value, AXI response) if these 8 octets are the answer to the request `asked`, otherwise None."""
    if len(octets) != 8 or octets[0] != ANSWER or crc8(octets[:7]) != octets[7]:
        return None
    if octets[1] & ~0x0C != asked[1] or octets[2] != asked[2]:
        return None
    return struct.unpack("<I", octets[3:7])[0], octets[1] >> 2 & 3


class Serial:
    """A serial device: 8 bits, no parity, no handshake."""

    def __init__(self, path, baud):
        speed = getattr(termios, f"B{baud}")
        self.file = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        attributes = termios.tcgetattr(self.file)
        attributes[0] = attributes[1] = attributes[3] = 0
        attributes[2] = termios.CS8 | termios.CREAD | termios.CLOCAL
        attributes[4] = attributes[5] = speed
        termios.tcsetattr(self.file, termios.TCSANOW, attributes)

    def write(self, octets):
        termios.tcflush(self.file, termios.TCIFLUSH)
        os.write(self.file, octets)

    def read(self, count, patience):
        """To `count` octets; fewer when `patience` seconds are over."""
        octets, end = b"", time.monotonic() + patience
        while len(octets) < count:
            ready, _, _ = select.select([self.file], [], [], max(0, end - time.monotonic()))
            if not ready:
                break
            octets += os.read(self.file, count - len(octets))
        return octets


class Registers:
    """Reads and writes registers over `line`, which has the methods of Serial."""

    def __init__(self, line):
        self.line = line

    def access(self, unit, number, value=None):
        asked = request(unit, number, value)
        for _ in range(TRIES):
            self.line.write(asked)
            result = answer(self.line.read(8, PATIENCE), asked)
            if result is None:
                continue
            if result[1]:
                raise Refused(f"unit {unit} refuses register {number} (AXI response {result[1]})")
            return result[0]
        raise Silent(f"no answer in {TRIES} tries: is it this serial device, and is the bitstream loaded?")

    def read(self, unit, number):
        return self.access(unit, number)

    def write(self, unit, number, value):
        self.access(unit, number, value)
