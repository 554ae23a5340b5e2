"""The bench of the system: clocks, reset, wires, host memory, registers; and the ledger over all of it."""

import copy
import os

import cocotb
from cocotb.clock import Clock
from cocotb.queue import Queue
from cocotb.triggers import ClockCycles, Event, Lock, Timer
from driver import REGION, Driver
from golden import registers as reg
from golden.card import Card, peer
from golden.checker import Ledger
from golden.frames import PREAMBLE, fcs, wire
from traffic import own_mac

APERTURE, APERTURE_SIZE = 0x8000_0000, 0x10_0000
COVERAGE = {"written": set(), "read": set(), "counters": set(), "events": set()}  # of this process, by number or name


def next_hop(card):
    return bytes([2, 0, 0, 0, 0x55, card + 1])


class Line:
    """The far end of a card's Ethernet."""

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
        """So many of 256 cycles are not ready, on every channel."""
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


class Bench:
    """`async with Bench(dut) as bench`: reset before, all checks after. `sys_ns` (default HERO_SYS_NS,
    or 10), `mac_ns`: clock periods;
    `cards`: with cards of their own (the others' places are Python's)."""

    def __init__(self, dut, sys_ns=None, mac_ns=8.0, drivers=True, **driver):
        self.dut, self.mac_ns = dut, mac_ns
        self.sys_ns = sys_ns or float(os.environ.get("HERO_SYS_NS", "10"))
        self.cards = [k for k in range(4) if hasattr(dut, f"gmii{k}")]
        self.routes = int(os.environ["HERO_ROUTES"])
        self.shared_bus = os.environ["HERO_BUS"] == "0"
        self.timeout_ns = int(os.environ["HERO_TIMEOUT"]) * self.sys_ns
        self.models = [Card(k, self.routes) for k in range(4)]
        self.configured = {}  # card: the model as `configure` left it
        self.variants = {}  # card: models of which any may hold, while rules change
        self.ledger = Ledger(self.models)
        self.activity = 0
        self.ram = bytearray(4 * REGION)
        self.memory = Slave(self, dut.memory, self.ram)
        self.lines = {k: Line(self, k, getattr(dut, f"gmii{k}")) for k in self.cards}
        self.drivers = {k: Driver(self, k, **driver) for k in self.cards} if drivers else {}
        self.bus = Lock()
        self.driver = driver

    async def __aenter__(self):
        dut = self.dut
        self.tasks = [Clock(dut.mac_clk, self.mac_ns, "ns").start(), Clock(dut.sys_clk, self.sys_ns, "ns").start()]
        dut.link.value = 15
        await self.hardware_reset()
        ends = [end() for line in self.lines.values() for end in (line.sender, line.receiver)]
        self.tasks += [cocotb.start_soon(task) for task in (*ends, self.memory.writes(), self.memory.reads())]
        for card in self.cards:
            await self.configure(card)
        return self

    async def __aexit__(self, kind, *_):
        if kind is None:
            await self.finish()

    def close(self):
        """Ends it without checks."""
        for driver in self.drivers.values():
            driver.stop()
        for task in self.tasks:
            task.cancel()

    async def hardware_reset(self):
        dut = self.dut
        self.memory.stall(0)
        dut.mac_rst.value = dut.sys_rst.value = 1
        await ClockCycles(dut.sys_clk, 40)
        dut.mac_rst.value = dut.sys_rst.value = 0
        await ClockCycles(dut.sys_clk, 100)
        for model in self.models:
            model.reset()

    async def reset(self, card):
        """CMD.reset of a card, then set up anew. What it had in hand, or is on its way to it, may be lost."""
        if card in self.drivers:
            self.drivers[card].stop()
        self.lines[card].cut = True
        self.variants[card] = [Card(card, self.routes), self.configured[card]]  # a frame may outlast it
        await self.access(card, reg.CMD, reg.CMD_RESET)
        while await self.read(card, reg.CMD) & reg.CMD_RESET:
            pass
        self.models[card].reset()
        self.lines[card].cut = False
        self.ledger.forgive(card)
        if card in self.drivers:
            self.drivers[card] = Driver(self, card, **self.driver)
        await self.configure(card)
        self.ledger.forgive(card)
        del self.variants[card]

    async def configure(self, card, command=reg.CMD_RX | reg.CMD_TX | reg.CMD_FAST):
        """Address, peers, next hops, driver; 10.d.0.0/16 goes to card d by the card's first three routes."""
        address = own_mac(card)
        await self.write(card, reg.MAC_LOW, int.from_bytes(address[:4], "little"))
        await self.write(card, reg.MAC_HIGH, int.from_bytes(address[4:], "little") | card << 16)
        for dest in range(3):
            await self.write(card, reg.PEER_BASE + dest, APERTURE + APERTURE_SIZE * peer(card, dest))
            await self.set_route(card, dest, peer(card, dest) << 16 | 10 << 24, 0xFFFF0000, next_hop(peer(card, dest)))
        if card in self.drivers:
            await self.drivers[card].start()
        await self.write(card, reg.CMD, command | reg.CMD_COMMIT)
        self.configured[card] = copy.deepcopy(self.models[card])

    async def set_route(self, card, number, pattern, mask, hop):
        """Writes a route, without commit. `hop`: MAC."""
        bank, dest = divmod(number, 3)
        command = self.models[card].read(reg.CMD) & ~(0x1F << reg.CMD_BANK_SHIFT)
        await self.write(card, reg.CMD, command | bank << reg.CMD_BANK_SHIFT)
        await self.write(card, reg.ROUTE + 2 * dest, pattern)
        await self.write(card, reg.ROUTE + 2 * dest + 1, mask)
        await self.write(card, reg.NEXTHOP_MAC + 2 * dest, int.from_bytes(hop[:4], "little"))
        await self.write(card, reg.NEXTHOP_MAC + 2 * dest + 1, int.from_bytes(hop[4:], "little"))

    async def set_class(self, card, dest, dst=(0, 0), src=(0, 0), tos=(0, 0), proto=(0, 0)):
        """Writes a class, pairs of (pattern, mask), without commit."""
        for k in range(2):
            at = reg.CLASS + 6 * dest + 3 * k
            for word, value in enumerate((dst[k], src[k], tos[k] << 8 | proto[k])):
                await self.write(card, at + word, value)

    async def commit(self, card):
        await self.write(card, reg.CMD, self.models[card].read(reg.CMD) | reg.CMD_COMMIT)

    async def access(self, card, register, value=None):
        """A read, or a write of `value`. It goes on to its end even when who waits for it is cancelled."""
        return await cocotb.start_soon(self._access(card, register, value))

    async def _access(self, card, register, value):
        async with self.bus:
            handle = self.dut.registers
            handle.write.value = value is not None
            handle.card.value = card
            handle.addr.value = 4 * register
            handle.data.value = value or 0
            handle.put.value = 1 - int(handle.done.value)
            await handle.done.value_change
            if int(handle.resp.value):
                self.ledger.errors.append(f"card {card}: register {register} answers {int(handle.resp.value)}")
            return int(handle.value.value)

    async def write(self, card, register, value):
        COVERAGE["written"].add(register)
        await self.access(card, register, value)
        self.models[card].write(register, value)

    async def read(self, card, register):
        value = await self.access(card, register)
        COVERAGE["read"].add(register)
        if register in (reg.IRQ_UNMASKED, reg.IRQ_MASKED):
            COVERAGE["events"].update(bit for bit in range(8) if value >> bit & 1)
        return value

    def entered(self, card, frame, bad_fcs):
        """A frame begins on the wire of `card`."""
        self.activity += 1
        models = self.variants.get(card, [self.models[card]])
        return self.ledger.sent(card, frame, *dict.fromkeys(model.verdict(frame, bad_fcs) for model in models))

    async def counters(self, card):
        """(counters by name, frames enqueued by route and last to the host)."""
        counters = {}
        for number, name in enumerate(reg.COUNTERS):
            await self.write(card, reg.DROP_CNT, number)
            counters[name] = await self.read(card, reg.DROP_CNT)
            if counters[name]:
                COVERAGE["counters"].add(name)
        command, forwarded = self.models[card].read(reg.CMD), []
        for route in range(self.routes):
            if route % 3 == 0:
                await self.write(card, reg.CMD, command & ~0x1F00 | route // 3 << reg.CMD_BANK_SHIFT)
            forwarded.append(await self.read(card, reg.FWD_CNT + route % 3))
        forwarded.append(await self.read(card, reg.FWD_HOST))
        await self.write(card, reg.CMD, command)
        return counters, forwarded

    async def quiet(self, patience_us=40):
        """Until all that was sent has come out, or nothing has moved for a while."""
        for line in self.lines.values():
            await line.idle.wait()
        await Timer(3, "us")
        before, still = -1, 0
        while still < patience_us:
            waiting = self.ledger.open() or any(d.to_send for d in self.drivers.values())
            if not waiting:
                break
            await Timer(5, "us")
            still = 0 if self.activity != before else still + 5
            before = self.activity
        await Timer(2, "us")

    async def finish(self):
        """All checks: P2, P3, P4, the counters. Raises AssertionError with what was wrong."""
        await self.quiet()
        complaints = []
        for card in self.cards:
            await self.read(card, reg.IRQ_UNMASKED)
            counters, forwarded = await self.counters(card)
            complaints += self.ledger.check(card, counters, forwarded)
        assert not complaints, "\n".join(dict.fromkeys(complaints))
