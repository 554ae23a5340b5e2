"""The ends that the cards are connected to: the far ends of their Ethernet links, and slaves on the bus."""

from cocotb.queue import Queue
from cocotb.triggers import Event, Timer
from golden.frames import PREAMBLE, fcs, wire


class Line:
    """The far end of a card's Ethernet link."""

    def __init__(self, bench, card, handle):
        self.bench, self.card, self.handle = bench, card, handle
        self.queue = Queue()
        self.idle = Event()
        self.idle.set()
        self.cut = False  # one frame may be

    def send(self, frame, bad_fcs=False, error_at=None, gap=12, raw=None, optional=False):
        """Queues a frame; the ledger learns of it when it begins. `error_at`: octet with rx_er, counted from the
        preamble; `raw`: what is on the wire instead, of which the card sees no frame when `frame` is None;
        `optional`: it may be lost."""
        self.idle.clear()
        self.queue.put_nowait((frame, bad_fcs, error_at, gap, raw, optional))

    async def sender(self):
        handle, toggle = self.handle, int(self.handle.got.value)
        while True:
            if self.queue.empty():
                self.idle.set()
            frame, bad_fcs, error_at, gap, raw, optional = await self.queue.get()
            octets = raw or wire(frame, bad_fcs)
            handle.frame.value = int.from_bytes(octets[:2048], "little")
            handle.octets.value = len(octets)
            handle.gap.value = gap
            handle.error_at.value = 0xFFFFFFFF if error_at is None else error_at
            toggle ^= 1
            handle.put.value = toggle
            if frame is not None:
                self.bench.entered(self.card, frame, bad_fcs or error_at is not None).optional = optional
            await handle.got.value_change

    async def receiver(self):
        handle = self.handle
        while True:
            await handle.seen.value_change
            count = int(handle.seen_octets.value)
            octets = int(handle.seen_frame.value).to_bytes(2048, "little")[:count]
            self.bench.activity += 1
            frame, check = octets[8:-4], octets[-4:]
            faults = [
                text
                for wrong, text in (
                    (octets[:8] != PREAMBLE, "preamble"),
                    (check != fcs(frame), "FCS"),
                    (len(frame) < 60, "runt"),
                    (int(handle.seen_gap.value) < 12, "gap"),
                    (int(handle.seen_error.value), "tx_er"),
                )
                if wrong
            ]
            if faults and self.cut:  # by the card's reset
                self.cut = False
                continue
            if faults:
                self.bench.ledger.errors.append(f"card {self.card} sent a frame of {count} octets with bad {faults}")
            self.bench.ledger.on_wire(self.card, frame)


class Slave:
    """The host's memory, or an aperture that is ours: `ram` is written and read, `on_write` sees each write.
    `response`: function of an address; `delay`: ns before each answer; `stalled`: event to wait for, or None."""

    def __init__(self, bench, handle, ram):
        self.bench, self.handle, self.ram = bench, handle, ram
        self.delay = 0
        self.stalled = None
        self.response = lambda address: 0 if address + 2048 <= len(ram) else 3
        self.on_write = None

    def stall(self, of_256):
        """On every channel, `of_256` of 256 cycles are not ready."""
        for channel in ("aw", "w", "ar", "r"):
            getattr(self.handle, f"stall_{channel}").value = of_256

    async def wait(self):
        if self.stalled:
            await self.stalled.wait()
        if self.delay:
            await Timer(self.delay, "ns")

    async def writes(self):
        handle = self.handle
        while True:
            await handle.wr_put.value_change
            address, beats = int(handle.wr_addr.value), int(handle.wr_beats.value)
            data = int(handle.wr_data.value).to_bytes(2048, "little")[: 8 * beats]
            if not int(handle.wr_whole.value):
                self.bench.ledger.errors.append(f"write to {address:#x}: strobes or last are wrong")
            if (address & 0xFFF) + 8 * beats > 4096 or address & 7:
                self.bench.ledger.errors.append(f"write to {address:#x} of {beats} beats crosses 4 KiB or is misaligned")
            await self.wait()
            response = self.response(address)
            if not response and address < len(self.ram):
                self.ram[address : address + len(data)] = data
            if self.on_write:
                self.on_write(address, data)
            handle.wr_resp.value = response
            handle.wr_ack.value = int(handle.wr_put.value)

    async def reads(self):
        handle = self.handle
        while True:
            await handle.rd_put.value_change
            address, beats = int(handle.rd_addr.value), int(handle.rd_beats.value)
            await self.wait()
            handle.rd_data.value = int.from_bytes(self.ram[address : address + 8 * beats], "little")
            handle.rd_resp.value = self.response(address)
            handle.rd_ack.value = int(handle.rd_put.value)
