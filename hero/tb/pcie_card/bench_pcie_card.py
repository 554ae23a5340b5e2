"""Bench of a card with PCI Express as a driver sees it: frames to and from memory, the three vectors, errors, masks, function
level reset, and two cards behind a switch."""

import os
import random
from types import SimpleNamespace

import cocotb
from cocotb.task import bridge, resume
from cocotbext.pcie.core.caps import PciCapId
from golden import registers as reg
from golden.frames import ethernet, ip, ipv4
from hero.model.card import Card, destination, mac
from hero.model.host import RING_OFFSET, RXLO, TX, Rings
from pcie_card.machine import APERTURES, MEMORY, VECTORS, Machine
from system.ends import Line

from bench import MAC_NS, clock, reset

CARDS = int(os.environ["CARDS"])
SYS_NS = 8  # the PCIe core's 125 MHz
RECEIVED, SENT, OTHERS = range(VECTORS)
EVENTS = reg.writable(reg.IRQ_MASK)
NOWHERE = MEMORY + 0x1000  # an address that the root complex has nothing at
SOURCE = bytes.fromhex("02aabbccddee")


class Bench:
    """The machine and the lines. Methods with plain `def` are software of the host and run in its thread."""

    def __init__(self, dut):
        self.dut = dut
        self.slots = [dut.g_slot[k].slot for k in range(CARDS)]
        self.errors, self.sent, self.activity = [], [[] for _ in range(CARDS)], 0
        self.ledger = self  # what a line tells

    async def start(self, busy=0.0):
        dut = self.dut
        clock(dut.sys_clk, SYS_NS)
        clock(dut.rx_clk, MAC_NS)
        clock(dut.tx_clk, MAC_NS)
        for slot in self.slots:
            slot.flr.value = 0
        self.machine = Machine(self.slots)
        await reset(dut.sys_clk, dut.sys_rst, 16)
        self.lines = [Line(self, k, slot.gmii) for k, slot in enumerate(self.slots)]
        for line in self.lines:
            cocotb.start_soon(line.sender())
            cocotb.start_soon(line.receiver())
        await self.machine.boot()
        for core in self.machine.cores:
            core.busy(busy)
        self.cards = [Card(self.machine, k) for k in range(CARDS)]
        return self

    # --- What the lines tell ---
    def entered(self, _card, _frame, _bad):
        return SimpleNamespace()

    def on_wire(self, card, frame):
        self.sent[card].append(frame)

    # --- Software ---
    def up(self, card=0, mask=EVENTS, cmd=reg.CMD_RX | reg.CMD_TX):
        """Resets a card and starts it with empty rings."""
        self.cards[card].reset()
        self.cards[card].start(cmd)
        rings = Rings(self.cards[card], vector=4, buffers=20)
        rings.spare = [rings.free.pop() for _ in range(4)]  # for what is sent
        rings.refill()
        self.cards[card].write(reg.IRQ_MASK, mask)
        self.cards[card].read(reg.IRQ_MASK)  # it is written when this is answered
        return rings

    def come(self, card):
        return [n - VECTORS * card for n in self.machine.messages if n // VECTORS == card]

    def told(self, *vectors, card=0):
        """Just these vectors' messages must come from a card, since the last call."""
        for _ in range(300):
            if len(self.come(card)) >= len(vectors) and all(line.idle.is_set() for line in self.lines):
                break
            self.machine.run(100)
        self.machine.run(1500)
        come = self.come(card)
        assert sorted(come) == sorted(vectors), f"messages of vectors {come}, not {vectors}"
        self.machine.messages = [n for n in self.machine.messages if n // VECTORS != card]

    def events(self, card=0):
        """Reads, and so clears, the events that the mask lets through."""
        return self.cards[card].read(reg.IRQ_MASKED)

    def pending(self, events):
        """Waits until just these events are pending."""
        for _ in range(100):
            if (now := self.cards[0].read(reg.IRQ_UNMASKED)) == events:
                return
        raise AssertionError(f"events {now:#x}, not {events:#x}")

    def receive(self, rings, frame):
        """The completion that is next must be of `frame`."""
        completion = rings.completion(RXLO)
        assert completion, "no completion"
        address, octets, priority, error = completion
        assert (octets, priority, error) == (len(frame), 0, 0), completion
        assert bytes(self.machine.memory[address:address + octets]) == frame
        rings.free.append(address)

    def transmit(self, rings, frame):
        address = rings.spare.pop()
        self.machine.memory[address:address + len(frame)] = frame
        rings.send(address, len(frame))
        rings.flush()

    def on_the_wire(self, *frames):
        """Just these frames must leave card 0; a transmit completion comes before the frame's end."""
        for _ in range(200):
            if len(self.sent[0]) >= len(frames):
                break
            self.machine.run(100)
        assert self.sent[0] == list(frames)
        self.sent[0].clear()

    def sent_all(self, rings):
        rings.spare += rings.reclaim()
        return rings.out[TX] == 0


def software(test):
    """A test whose body is the host's software: `test(bench)` in a thread."""
    async def run(dut):
        bench = await Bench(dut).start(getattr(test, "busy", 0.0))
        await bridge(test)(bench)
        assert not bench.errors, bench.errors

    run.__name__ = run.__qualname__ = test.__name__
    run.__doc__ = test.__doc__
    return cocotb.test()(run)


def frame_to(card, octets, serial=0):
    return ethernet(mac(card), SOURCE, 0x88B5, serial.to_bytes(4, "big") + random.randbytes(octets - 18))


@software
def what_is_there(b):
    """Identity, BARs, registers, and what no register has."""
    device = b.machine.devices[0]
    assert (device.vendor_id, device.device_id, device.class_code) == (0x1234, 0x4845, 0x020000)
    assert [device.bar_size[n] for n in (0, 2, 4)] == [4096, 1 << 20, 4096]
    assert device.bar_addr[2] >= APERTURES
    card = b.cards[0]
    assert card.read(reg.ID) == reg.ID_VALUE
    b.up(mask=0)
    assert card.read(reg.STATUS) & (reg.STATUS_READY | reg.STATUS_LINK) == reg.STATUS_READY | reg.STATUS_LINK
    for n in (reg.MAC_LOW, reg.MAC_HIGH, reg.IRQ_MASK):
        value = random.getrandbits(32) & reg.writable(n)
        card.write(n, value)
        assert card.read(n) == value
    refused = b.machine.cores[0].refused
    card.write(reg.COUNT, 1)
    b.machine.run(1000)
    assert b.machine.cores[0].refused == refused + 1


@software
def receive(b):
    """Frames of several lengths, a message each; and none for an event while one is not read yet."""
    rings = b.up()
    for k, octets in enumerate((60, 61, 300)):
        frame = frame_to(0, octets, k)
        b.lines[0].send(frame)
        b.told(RECEIVED)
        b.receive(rings, frame)
        assert b.events() == reg.IRQ_RXLO
        rings.refill()
    frames = [frame_to(0, 60, k) for k in range(2)]
    for frame, vectors in zip(frames, ([RECEIVED], [])):
        b.lines[0].send(frame)
        b.told(*vectors)
    assert b.events() == reg.IRQ_RXLO
    for frame in frames:
        b.receive(rings, frame)


def burst(b):
    """Frames at wire speed through a core that often pauses. What the card had written when it gave the core a message is in
    memory when the message comes."""
    rings, core = b.up(), b.machine.cores[0]
    places = b.slots[0].card.card.nic.slow.cpl.place_rxlo
    ring, promised, messages = memoryview(b.machine.memory)[RING_OFFSET[RXLO]:], [], []
    core.before_message = lambda: promised.append(int(places.value))

    def message(number):
        written = sum(ring[8 * k + 6] >> 2 & 1 for k in range(64))
        messages.append((number, promised.pop(0), written))

    b.machine.on_message = message
    frames = [frame_to(0, octets, k) for k, octets in enumerate((1514, 60, 61, 200, 600, 60, 60, 61, 300, 60))]
    for frame in frames:
        b.lines[0].send(frame)
    done = 0
    while done < len(frames):
        while not messages:
            b.machine.run(100)
        number, given, written = messages.pop(0)
        assert number == RECEIVED and written >= given > 0, f"{given} completions written, {written} in memory"
        b.events()
        while done < len(frames) and ring[8 * done + 6] >> 2 & 1:
            b.receive(rings, frames[done])
            done += 1
        rings.refill()


burst.busy = 0.5
burst = software(burst)


@software
def transmit(b):
    rings = b.up()
    frames = [bytes(frame_to(7, octets, k)) for k, octets in enumerate((60, 700, 77))]
    for k, frame in enumerate(frames):
        b.transmit(rings, frame)
        b.told(SENT)
        b.on_the_wire(frame)
        assert b.events() == reg.IRQ_TX and b.sent_all(rings)
    b.told()


@software
def bus_error(b):
    """A vector that the root complex refuses to show, and frames that nobody wants."""
    rings = b.up()
    b.cards[0].write(reg.TX_DESC, NOWHERE | 1)
    b.told(OTHERS)
    assert b.events() == reg.IRQ_BUS and b.cards[0].counter("bus_error") == 1
    b.lines[0].send(frame_to(0, 60), bad_fcs=True)
    b.told(OTHERS)
    assert b.events() == reg.IRQ_DROP
    b.transmit(rings, frame_to(1, 60))
    b.told(SENT)


@software
def event_masks(b):
    """IRQ_MASK: what it holds back is told when it lets it through, even if its vector has told another event."""
    rings = b.up(mask=reg.IRQ_RXLO)
    card = b.cards[0]
    b.transmit(rings, frame_to(1, 60))
    b.pending(reg.IRQ_TX)
    b.told()
    card.write(reg.IRQ_MASK, reg.IRQ_RXLO | reg.IRQ_TX)
    b.told(SENT)
    card.write(reg.IRQ_MASK, reg.IRQ_RXLO)
    b.told()
    card.write(reg.IRQ_MASK, reg.IRQ_RXLO | reg.IRQ_TX)
    b.told(SENT)
    assert b.events() == reg.IRQ_TX
    # BUS is told while DROP, of the same vector, is held back; then DROP is let through.
    card.write(reg.IRQ_MASK, reg.IRQ_BUS)
    b.lines[0].send(frame_to(0, 60), bad_fcs=True)
    b.pending(reg.IRQ_DROP)
    b.told()
    card.write(reg.TX_DESC, NOWHERE | 1)
    b.told(OTHERS)
    card.write(reg.IRQ_MASK, reg.IRQ_BUS | reg.IRQ_DROP)
    b.told(OTHERS)
    assert b.events() == reg.IRQ_BUS | reg.IRQ_DROP
    b.told()


@software
def vector_masks(b):
    """A message waits while its vector is masked in the table; if its events are read meanwhile, none is due."""
    rings, table = b.up(), b.machine.devices[0].bar_window[4]

    @resume
    async def mask(vector, on):
        await table.write_dword(16 * vector + 12, on)

    @resume
    async def pending():
        return await table.read_dword(0x800)

    mask(SENT, 1)
    b.transmit(rings, frame_to(1, 60))
    b.lines[0].send(frame_to(0, 60))
    b.told(RECEIVED)
    assert pending() == 1 << SENT
    mask(SENT, 0)
    b.told(SENT)
    assert b.events() == reg.IRQ_RXLO | reg.IRQ_TX
    mask(SENT, 1)
    b.transmit(rings, frame_to(1, 60))
    b.told()
    assert b.events() == reg.IRQ_TX
    assert pending() == 0
    mask(SENT, 0)
    b.told()


@software
def function_level_reset(b):
    """Under traffic both ways and requests of the host. Afterwards all is as after power-on."""
    for trial in range(3):
        b.machine.cores[0].busy(random.choice((0, 0.3)))
        rings = b.up()
        b.cards[0].write(reg.PEER_BASE, 0x12345678)
        for k in range(6):
            b.lines[0].send(frame_to(0, 300, k))
        for k in range(3):
            b.transmit(rings, frame_to(1, 700, k))
        b.machine.run(random.randrange(1000, 4000))
        b.lines[0].cut = True  # a frame that is on its way out
        reset_card(b, trial + 1)
        b.lines[0].cut = False
        assert b.cards[0].read(reg.PEER_BASE) == 0 and b.cards[0].read(reg.IRQ_MASK) == 0
        while not b.cards[0].read(reg.STATUS) & reg.STATUS_READY:
            pass
        b.told()
        b.sent[0].clear()
    rings = b.up()
    frame = frame_to(0, 200)
    b.lines[0].send(frame)
    b.told(RECEIVED)
    assert b.events() == reg.IRQ_RXLO
    b.receive(rings, frame)
    b.transmit(rings, frame)
    b.told(SENT)
    b.on_the_wire(frame)


def reset_card(b, resets):
    """A function level reset, while the host writes registers and the aperture; then the function is set up again."""
    device, core = b.machine.devices[0], b.machine.cores[0]
    bars = [device.bar_addr[n] for n in (0, 2, 4)]

    @resume
    async def initiate():
        before = await device.capability_read_word(PciCapId.EXP, 8)
        for _ in range(4):
            await device.bar_window[0].write(4 * reg.CLASS, random.randbytes(4 * 24))
        await device.capability_write_word(PciCapId.EXP, 8, before | 0x8000)

    @resume
    async def restore():
        for n, address in zip((0, 2, 4), bars):
            await device.config_write_dword(0x10 + 4 * n, address)
        await b.machine.enable(device)

    # The core takes no more writes until the card is within one, which it must finish.
    before, core.wr.stall = core.wr.stall, 1
    for _ in range(120):  # after a reset of hero_pcie its tags rest first
        if int(b.slots[0].tx_wr_req_valid.value):
            break
        b.machine.run(100)
    else:
        raise AssertionError("no write is under way")
    initiate()
    b.machine.run(200)
    assert not int(b.slots[0].flr_done.value)
    core.wr.stall = before
    while core.resets < resets:
        b.machine.run(500)
    b.machine.messages.clear()
    restore()


@cocotb.test(skip=CARDS < 2)
async def fast_path(dut):
    """Two cards behind a switch forward to each other; neither the memory nor the host sees a frame."""
    bench = await Bench(dut).start()

    def run():
        for k in range(CARDS):
            bench.up(k, cmd=reg.CMD_RX | reg.CMD_TX | reg.CMD_FAST)
            to = destination(k, 1 - k)
            bench.cards[k].write(reg.PEER_BASE + to, bench.machine.devices[1 - k].bar_addr[2] & 0xFFFF_FFFF)
            bench.cards[k].route(to, ip(f"10.{1 - k}.0.0"), 16, SOURCE)
            bench.cards[k].commit()
        count = 8
        for n in range(count):
            for k in range(CARDS):
                packet = ipv4(ip(f"10.{1 - k}.0.9"), ip(f"10.{k}.0.9"), random.randbytes(30 + 100 * n))
                bench.lines[k].send(ethernet(mac(k), SOURCE, 0x0800, packet))
        while any(len(sent) < count for sent in bench.sent):
            bench.machine.run(1000)
        for k in range(CARDS):
            assert bench.cards[k].drops() == {}
            assert bench.cards[k].forwarded()[destination(k, 1 - k)] == count
            assert len(bench.sent[k]) == count
            assert {(frame[:6], frame[6:12], frame[22]) for frame in bench.sent[k]} == {(SOURCE, mac(k), 63)}
            bench.told(card=k)

    await bridge(run)()
    assert not bench.errors, bench.errors
