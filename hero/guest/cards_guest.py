"""Runs in a guest, without a driver: the cards as the kernel sees them, registers, rings by hand, interrupts, fast path, reset.

    python3 hero/guest/cards_guest.py SHARED RESULTS
"""

import contextlib
import ctypes
import mmap
import os
import struct
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hero.tb.golden import registers as reg  # noqa: E402

PCI = Path("/sys/bus/pci/devices")
HUGE = 2 << 20
BUFFERS, DESCRIPTORS = 0x10000, 0x8000  # in a card's area, which begins with its completion rings
WAIT_SECONDS = 60
MSI_ADDRESS, MSI_VECTOR = 0xFEE00000, 0xE5  # CPU 0, and a vector without a handler: the kernel says so


class Memory:
    """A huge page: memory that stays where it is, at a known address."""

    def __init__(self):
        flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | 0x40000  # MAP_HUGETLB
        self.map = mmap.mmap(-1, HUGE, flags)
        self.map[0:HUGE] = bytes(HUGE)
        where = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        with open("/proc/self/pagemap", "rb") as pages:
            pages.seek(where // 4096 * 8)
            self.address = (struct.unpack("<Q", pages.read(8))[0] & (1 << 55) - 1) * 4096
        assert self.address and self.address + HUGE <= 1 << 31, hex(self.address)


class Card:
    """A card by its files in sysfs."""

    def __init__(self, folder):
        self.folder = folder
        self.name = folder.name
        (folder / "enable").write_text("1")
        self.registers = ctypes_words(folder / "resource0", 4096)
        self.set_command(6)
        resources = (folder / "resource").read_text().splitlines()
        self.aperture = int(resources[2].split()[0], 16)
        self.memory = Memory()
        self.taken = [0, 0, 0]

    def config(self, offset, octets):
        """Reads configuration space."""
        with open(self.folder / "config", "rb", buffering=0) as file:
            return os.pread(file.fileno(), octets, offset)

    def set_config(self, offset, data):
        """Writes configuration space."""
        with open(self.folder / "config", "r+b", buffering=0) as file:
            file.seek(offset)
            file.write(data)

    def set_command(self, value):
        """Memory 2, bus master 4."""
        self.set_config(4, struct.pack("<H", value))

    def give(self, ring, descriptors):
        """Gives a ring (0 RXLO, 2 TX) a vector of (offset of the buffer, octets)."""
        at = DESCRIPTORS + ring * 256
        data = b"".join(struct.pack("<IHH", self.memory.address + offset, octets, 0) for offset, octets in descriptors)
        self.memory.map[at : at + len(data)] = data
        register = (reg.RXLO_DESC, reg.RXHI_DESC, reg.TX_DESC)[ring]
        self.registers[register] = self.memory.address + at | len(descriptors)

    def completion(self, ring):
        """Waits for the next completion of a ring; returns its buffer's offset, octets and error bit."""
        end = time.monotonic() + WAIT_SECONDS
        at = ring * 0x800 + 8 * self.taken[ring]
        while time.monotonic() < end:
            address, octets, flags = struct.unpack_from("<IHH", self.memory.map, at)
            if flags & 4:
                self.taken[ring] += 1
                return address - self.memory.address, octets, flags >> 1 & 1
            time.sleep(0.01)
        raise TimeoutError(f"{self.name}: no completion in ring {ring}")

    def start(self, number, command):
        """Resets the card, gives it an address and buffers, and enables it."""
        self.registers[reg.CMD] = 1
        until(lambda: self.registers[reg.STATUS] & 1, "the card is back from its reset")
        self.memory.map[0:0x2000] = bytes(0x2000)
        self.taken = [0, 0, 0]
        self.registers[reg.MAC_LOW] = 2
        self.registers[reg.MAC_HIGH] = number << 8 | number << 16
        self.registers[reg.CPL_BASE] = self.memory.address
        self.give(0, [(BUFFERS + 2048 * n, 2048) for n in range(32)])
        self.registers[reg.CMD] = command


def ctypes_words(path, octets):
    """A file's memory as 32-bit words, each accessed at once."""
    with open(path, "r+b", buffering=0) as file:
        memory = mmap.mmap(file.fileno(), octets)
    return (ctypes.c_uint32 * (octets // 4)).from_buffer(memory)


def until(is_true, what):
    """Waits for a condition."""
    end = time.monotonic() + WAIT_SECONDS
    while not is_true():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)


def find():
    """The cards, in the order of their ports."""
    def is_card(folder):
        return (folder / "vendor").read_text() == "0x1234\n" and (folder / "device").read_text() == "0x4845\n"
    return sorted(folder for folder in PCI.iterdir() if is_card(folder))


def identity(cards, _shared):
    """Configuration space."""
    for card in cards:
        assert card.config(8, 4) == bytes([1, 0, 0, 2]), "class and revision"
        assert card.config(0x2C, 4) == bytes([0x34, 0x12, 1, 0]), "subsystem"
        at, found = card.config(0x34, 1)[0], {}
        while at:
            found[card.config(at, 1)[0]] = at
            at = card.config(at + 1, 1)[0]
        assert set(found) == {1, 0x10, 0x11}, found
        control, table, pending = struct.unpack("<HII", card.config(found[0x11] + 2, 10))
        assert (control & 0x7FF, table, pending) == (2, 4, 0x804), "three vectors in BAR 4"
        sizes = [int(end, 16) - int(start, 16) + 1 for start, end, _ in
                 (line.split() for line in (card.folder / "resource").read_text().splitlines()[:5])]
        assert (sizes[0], sizes[2], sizes[4]) == (4096, 1 << 20, 4096), sizes
        assert "flr" in (card.folder / "reset_method").read_text()


def registers(cards, _shared):
    """ID, and registers that keep what is written."""
    for number, card in enumerate(cards):
        assert card.registers[reg.ID] == 0x4845524F, hex(card.registers[reg.ID])
        card.registers[reg.MAC_LOW] = 0x11223300 + number
    for number, card in enumerate(cards):
        assert card.registers[reg.MAC_LOW] == 0x11223300 + number
        assert card.registers[64] == 0xFFFFFFFF, "no register"
        octets = ctypes.cast(card.registers, ctypes.POINTER(ctypes.c_uint8))
        octets[4 * reg.MAC_LOW] = 9
        assert octets[4 * reg.MAC_LOW] == 0xFF and card.registers[reg.MAC_LOW] == 0x11223300 + number, "octets"


def receive(cards, _shared):
    """Frames from each cable come into memory."""
    for number, card in enumerate(cards):
        card.start(number, 2 | 4)
    for number, card in enumerate(cards):
        buffer, octets, error = card.completion(0)
        frame = card.memory.map[buffer : buffer + octets]
        assert (buffer, octets, error) == (BUFFERS, 100, 0), (buffer, octets, error)
        assert frame[14:].startswith(f"to card {number}".encode()), frame


def transmit(cards, shared):
    """Frames from memory come out of each cable."""
    for number, card in enumerate(cards):
        frame = b"\xff" * 6 + bytes([2, 0, 0, 0, 0, number]) + b"\x88\xb5" + f"from card {number}".encode().ljust(50, b".")
        card.memory.map[0x4000 : 0x4000 + len(frame)] = frame
        card.give(2, [(0x4000, len(frame))])
        assert card.completion(2)[2] == 0
        seen(shared, number, frame)


def seen(shared, number, frame):
    """Waits until the host has seen a frame on a cable."""
    file = shared / f"wire{number}"
    until(lambda: file.exists() and frame.hex() in file.read_text().split(), f"the host sees the frame of card {number}")


def interrupts(cards, _shared):
    """Messages of all vectors, by table entries written by hand: the kernel has no handlers for them, and says so."""
    card, log = cards[0], Log()
    table = ctypes_words(card.folder / "resource4", 4096)
    card.start(0, 2 | 4)
    control = 0x50 + 2
    card.set_config(control, struct.pack("<H", 0x8000))
    for vector in range(3):
        table[4 * vector], table[4 * vector + 1], table[4 * vector + 2], table[4 * vector + 3] = MSI_ADDRESS, 0, MSI_VECTOR + vector, 0
        assert table[4 * vector + 2] == MSI_VECTOR + vector
    card.registers[reg.IRQ_MASK] = reg.IRQ_RXLO
    log.until_told(0, 1)
    time.sleep(1)
    log.until_told(0, 1)  # no second message while the event is pending
    assert card.registers[reg.IRQ_MASKED] & reg.IRQ_RXLO
    log.until_told(0, 2)  # the next frame sends a message again
    card.registers[reg.IRQ_MASK] = reg.IRQ_TX
    card.give(2, [(0x4000, 60)])
    log.until_told(1, 1)
    card.registers[reg.CMD] = 0  # the next frame is dropped
    card.registers[reg.IRQ_MASK] = reg.IRQ_DROP
    log.until_told(2, 1)
    card.registers[reg.IRQ_MASK] = 0
    assert not card.registers[reg.IRQ_MASKED]
    card.set_config(control, struct.pack("<H", 0))


class Log:
    """The kernel's log."""

    def __init__(self):
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        self.text = ""

    def told(self, vector):
        """How often a vector's interrupt came that has no handler."""
        with contextlib.suppress(BlockingIOError):
            while True:
                with contextlib.suppress(BrokenPipeError):  # lines were lost
                    self.text += os.read(self.file, 8192).decode(errors="replace")
        name = f"0.{MSI_VECTOR + vector}"
        return sum("No irq handler" in line and name in line for line in self.text.splitlines())

    def until_told(self, vector, count):
        """Waits for the message number `count` of a vector; there are no more."""
        until(lambda: self.told(vector) >= count, f"the kernel hears of vector {vector}")
        assert self.told(vector) == count, f"{self.told(vector)} messages of vector {vector}"


def fast_path(cards, shared):
    """A packet for a route of card 0 leaves through card 1 without passing through memory."""
    for number, card in enumerate(cards):
        card.start(number, 2 | 4)
        peers = [peer for peer in range(4) if peer != number]
        for slot, peer in enumerate(peers):
            card.registers[reg.PEER_BASE + slot] = cards[peer].aperture & 0xFFFFFFFF
            assert card.registers[reg.PEER_BASE + slot] == cards[peer].aperture & 0xFFFFFFFF
        card.registers[reg.CMD] = 2 | 4 | 8
    card = cards[0]
    card.registers[reg.ROUTE], card.registers[reg.ROUTE + 1] = 0x0A010200, 0xFFFFFF00
    card.registers[reg.NEXTHOP_MAC], card.registers[reg.NEXTHOP_MAC + 1] = 0x33221106, 0x5544
    card.registers[reg.CMD] = 2 | 4 | 8 | 32
    until(lambda: not card.registers[reg.CMD] & 32, "the rule is committed")
    packet = ip_packet()
    inside = bytes([2, 0, 0, 0, 0, 0]) + bytes([2, 0, 0, 0, 1, 0]) + b"\x08\x00" + packet
    # card 3 sends it in a frame whose contents the host puts on the cable of card 0
    outer = b"\xff" * 6 + bytes([2, 0, 0, 0, 0, 3]) + b"\x88\xb6\x00" + inside
    cards[3].memory.map[0x4000 : 0x4000 + len(outer)] = outer
    cards[3].give(2, [(0x4000, len(outer))])
    cards[3].completion(2)
    until(lambda: card.registers[reg.FWD_CNT] == 1, "the packet is forwarded")
    header = bytearray(packet)
    header[8] -= 1
    header[10:12] = b"\0\0"
    header[10:12] = struct.pack(">H", checksum(header[:20]))
    expected = bytes([6, 0x11, 0x22, 0x33, 0x44, 0x55, 2, 0, 0, 0, 0, 1]) + b"\x08\x00" + bytes(header)
    seen(shared, 1, expected)


def ip_packet():
    """A UDP packet to 10.1.2.3."""
    header = bytearray(struct.pack(">BBHHHBBH4s4s", 0x45, 0, 80, 1, 0, 64, 17, 0, bytes([10, 0, 0, 2]), bytes([10, 1, 2, 3])))
    header[10:12] = struct.pack(">H", checksum(header))
    return bytes(header) + struct.pack(">HHHH", 1000, 2000, 60, 0) + bytes(52)


def checksum(header):
    """The checksum of an IP header."""
    total = sum(struct.unpack(">10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def hostile(cards, shared):
    """Bad addresses and lengths: errors are counted, and the card goes on after a reset."""
    card = cards[2]
    for address in (0x7FFF0000, 0x80000000, 0xFEE00000, 0xFFFFFF00):
        card.start(2, 2 | 4)
        card.registers[reg.TX_DESC] = address | 1
        card.registers[reg.CPL_BASE] = address
        card.registers[reg.RXLO_DESC] = address | 32
        card.registers[reg.TX_DESC] = address | 255
        time.sleep(0.5)
        assert card.registers[reg.ID] == 0x4845524F
    card.start(2, 2 | 4)
    card.set_command(2)  # no bus master
    before = drop_counter(card, 14)
    card.give(2, [(0x4000, 60)])
    until(lambda: drop_counter(card, 14) > before, "a bus error is counted")
    card.set_command(6)
    receive(cards, shared)


def drop_counter(card, number):
    """A counter of DROP_CNT."""
    card.registers[reg.DROP_CNT] = number
    return card.registers[reg.DROP_CNT]


def reset(cards, shared):
    """A function level reset by the kernel, which restores the configuration space."""
    card = cards[1]
    card.registers[reg.CLASS] = 0x12345678
    bar = card.config(0x10, 4)
    (card.folder / "reset").write_text("1")
    assert card.config(0x10, 4) == bar and card.config(4, 2) == bytes([6, 0])
    assert card.registers[reg.ID] == 0x4845524F
    assert card.registers[reg.CLASS] == 0 and card.registers[reg.CMD] == 0, "registers are as after reset"
    receive(cards, shared)


def main():
    """All steps; the first that fails ends it."""
    shared, results = map(Path, sys.argv[1:3])
    Path("/proc/sys/vm/nr_hugepages").write_text("8")
    with open(results, "w", buffering=1) as out:
        try:
            folders = find()
            out.write(f"{len(folders)} cards: {' '.join(folder.name for folder in folders)}\n")
            cards = [Card(folder) for folder in folders]
            out.write(f"apertures: {' '.join(hex(card.aperture) for card in cards)}\n")
            for step in (identity, registers, receive, transmit, interrupts, fast_path, reset, hostile):
                started = time.monotonic()
                step(cards, shared)
                out.write(f"{step.__name__}: good, {time.monotonic() - started:.1f} s\n")
            out.write("done\n")
        except Exception:
            out.write(traceback.format_exc())
            raise


if __name__ == "__main__":
    main()
