"""The bench of the system: clocks, reset, wires, host memory, registers; and the ledger over all of it."""

import copy
import os

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Lock, Timer
from cocotb.utils import get_sim_time
from driver import REGION, Driver
from ends import Line, Slave
from golden import registers as reg
from golden.card import Card, peer
from golden.checker import Ledger
from traffic import network6, own_mac

APERTURE, APERTURE_SIZE = 0x8000_0000, 0x10_0000
# Periods of the line's clocks, ps, by card: the two ends of a cable always differ. 125 ppm, a little more than Ethernet's
# 100.
PERIODS = (8001, 7999, 8000, 7999)
COVERAGE = {"written": set(), "read": set(), "counters": set(), "events": set()}  # what this process has covered, by number or name


def next_hop(card):
    return bytes([2, 0, 0, 0, 0x55, card + 1])


def route6(command, number, address, length, dest, hop):
    """The writes of a route of IPv6, its bank chosen first: (register, value)."""
    bank = reg.ROUTE6_BANK + number
    return [(reg.CMD, command & ~(0x1F << reg.CMD_BANK_SHIFT) | bank << reg.CMD_BANK_SHIFT),
            *((reg.ROUTE6_ADDRESS + word, address >> 96 - 32 * word & 0xFFFFFFFF) for word in range(4)),
            (reg.ROUTE6_RULE, dest << reg.ROUTE6_RULE_DEST_SHIFT | length),
            (reg.ROUTE6_MAC, int.from_bytes(hop[:4], "little")), (reg.ROUTE6_MAC + 1, int.from_bytes(hop[4:], "little"))]


class Bench:
    """`async with Bench(dut) as bench`: reset before, all checks after. `sys_ns` (default HERO_SYS_NS,
    or 10): period of sys_clk; `cards`: with cards of their own (the others' places are Python's)."""

    def __init__(self, dut, sys_ns=None, drivers=True, **driver):
        self.dut = dut
        self.sys_ns = sys_ns or float(os.environ.get("HERO_SYS_NS", "10"))
        self.cards = [k for k in range(4) if hasattr(dut, f"gmii{k}")]
        self.routes = int(os.environ["HERO_ROUTES"])
        self.routes6 = int(os.environ.get("HERO_ROUTES6", "0"))
        self.shared_bus = os.environ["HERO_BUS"] == "0"
        self.timeout_ns = int(os.environ["HERO_TIMEOUT"]) * self.sys_ns
        self.models = [Card(k, self.routes, self.routes6) for k in range(4)]
        self.configured = {}  # card: the model as `configure` left it
        self.variants = {}  # card: models of which any may hold, while rules change
        self.ledger = Ledger(self.models, int(os.environ["HERO_VOQ_WORDS"]), get_sim_time)
        self.activity = 0
        self.ram = bytearray(4 * REGION)
        self.memory = Slave(self, dut.memory, self.ram)
        self.lines = {k: Line(self, k, getattr(dut, f"gmii{k}")) for k in self.cards}
        self.drivers = {k: Driver(self, k, **driver) for k in self.cards} if drivers else {}
        self.bus = Lock()
        self.driver = driver

    async def __aenter__(self):
        dut = self.dut
        self.tasks = [Clock(dut.sys_clk, self.sys_ns, "ns").start()]
        self.receive_clocks = {}
        for card in self.cards:
            self.start_receive_clock(card)
            self.tasks.append(Clock(getattr(dut, f"tx_clk{card}"), PERIODS[card - 1], "ps", period_high=4000).start())
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
        """Stops without checks."""
        for driver in self.drivers.values():
            driver.stop()
        for task in (*self.tasks, *self.receive_clocks.values()):
            task.cancel()

    def start_receive_clock(self, card):
        """The far end's clock, which the PHY of `card` gives it."""
        self.receive_clocks[card] = Clock(getattr(self.dut, f"rx_clk{card}"), PERIODS[card], "ps", period_high=4000).start()

    def stop_receive_clock(self, card):
        self.receive_clocks.pop(card).cancel()

    async def hardware_reset(self):
        dut = self.dut
        self.memory.stall(0)
        dut.sys_rst.value = 1
        await ClockCycles(dut.sys_clk, reg.RESET_CYCLES)
        dut.sys_rst.value = 0
        await ClockCycles(dut.sys_clk, 100)
        for model in self.models:
            model.reset()

    async def reset(self, card):
        """Resets a card by CMD.reset and configures it again. Frames inside it or on their way to it may be lost."""
        if card in self.drivers:
            self.drivers[card].stop()
        self.lines[card].cut = True
        self.variants[card] = [Card(card, self.routes, self.routes6), self.configured[card]]  # a frame may outlast it
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
        """Address, peers, next hops, driver; 10.d.0.0/16 and 2001:db8:d::/48 go to card d by the card's first three routes."""
        address = own_mac(card)
        await self.write(card, reg.MAC_LOW, int.from_bytes(address[:4], "little"))
        await self.write(card, reg.MAC_HIGH, int.from_bytes(address[4:], "little") | card << 16)
        for dest in range(3):
            await self.write(card, reg.PEER_BASE + dest, APERTURE + APERTURE_SIZE * peer(card, dest))
            await self.set_route(card, dest, peer(card, dest) << 16 | 10 << 24, 0xFFFF0000, next_hop(peer(card, dest)))
            if dest < self.routes6:
                await self.set_route6(card, dest, network6(peer(card, dest)), 48, dest, next_hop(peer(card, dest)))
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

    async def set_route6(self, card, number, address, length, dest, hop):
        """Writes a route of IPv6, without commit."""
        for register, value in route6(self.models[card].read(reg.CMD), number, address, length, dest, hop):
            await self.write(card, register, value)

    async def set_class(self, card, dest, dst=(0, 0), src=(0, 0), tos=(0, 0), proto=(0, 0)):
        """Writes a class, pairs of (pattern, mask), without commit."""
        for k in range(2):
            at = reg.CLASS + 6 * dest + 3 * k
            for word, value in enumerate((dst[k], src[k], tos[k] << 8 | proto[k])):
                await self.write(card, at + word, value)

    async def commit(self, card):
        await self.write(card, reg.CMD, self.models[card].read(reg.CMD) | reg.CMD_COMMIT)

    async def access(self, card, register, value=None):
        """A read, or a write of `value`. It is completed even if the waiting task is cancelled."""
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
        """(counters by name, frames enqueued by route, those of IPv6 after the others, and last to the host)."""
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
        for route in range(self.routes6):
            await self.write(card, reg.CMD, command & ~0x1F00 | reg.ROUTE6_BANK + route << reg.CMD_BANK_SHIFT)
            forwarded.append(await self.read(card, reg.FWD_CNT))
        forwarded.append(await self.read(card, reg.FWD_HOST))
        await self.write(card, reg.CMD, command)
        return counters, forwarded

    async def quiet(self, patience_us=40):
        """Waits until all frames have come out, or nothing has moved for a while."""
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
