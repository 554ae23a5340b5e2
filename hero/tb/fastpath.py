"""Shared by the benches of the fast path: words of the protocol, a bus master, a DMA engine and packet streams, all with
random pauses. Protocol and addresses: ../README.md."""

import random

from cocotb.triggers import RisingEdge

OKAY, SLVERR, DECERR = 0, 2, 3
MASK64 = (1 << 64) - 1


def request(hi, lo):
    return hi << 16 | lo


def packet_word(octets, prio):
    return 1 << 60 | prio << 16 | octets


def end_word(packets, hi=0, lo=0):
    return 2 << 60 | (packets & 0xFF) << 52 | hi << 16 | lo


def words_of(octets):
    return (octets + 7) // 8


def peer(card, dest):
    """The card that is destination (or source slot) `dest` of `card`."""
    return dest if dest < card else dest + 1


def slot_at(card, dest):
    """Slot of `card` at its peer `dest`."""
    return card if card < peer(card, dest) else card - 1


def packet(octets, tag, rng=random):
    """Words of a packet; word 0 is `tag`, so that packets can be told apart. Octets behind the end are random."""
    return [tag] + [rng.getrandbits(64) for _ in range(words_of(octets) - 1)]


def pause(often):
    """True in `often` of a hundred calls."""
    return random.randrange(100) < often


async def edge(clk, signal, value=1, timeout=5000):
    """Waits for a rising edge at which `signal` is `value`."""
    for _ in range(timeout):
        await RisingEdge(clk)
        if signal.value == value:
            return
    raise AssertionError(f"{signal._name} is not {value} within {timeout} cycles")


class WriteMaster:
    """AXI4 write master on `<prefix>_aw*/w*/b*`; `often`: percent of cycles it pauses. It checks that `bid` is the
    transaction's, and that the response is stable until taken."""

    def __init__(self, dut, clk, prefix="s_axi", often=0):
        self.clk, self.often, self.ids = clk, often, 0
        self.s = {n: getattr(dut, f"{prefix}_{n}") for n in
                  ("awid", "awaddr", "awlen", "awvalid", "awready", "wdata", "wlast", "wvalid", "wready", "bid",
                   "bresp", "bvalid", "bready")}
        for n in ("awvalid", "wvalid", "bready"):
            self.s[n].value = 0

    async def write(self, addr, words, order="aw"):
        """Writes `words` from `addr` on in one transaction and returns `bresp`. `order`: "aw": address first, "w": words
        are offered at the same time."""
        import cocotb

        self.ids = (self.ids + 1) & 15
        data = cocotb.start_soon(self._data(words)) if order == "w" else None
        await self._address(addr, len(words))
        await (data if data is not None else self._data(words))
        return await self._response()

    async def _address(self, addr, n):
        s = self.s
        while pause(self.often):
            await RisingEdge(self.clk)
        s["awid"].value, s["awaddr"].value, s["awlen"].value, s["awvalid"].value = self.ids, addr, n - 1, 1
        await edge(self.clk, s["awready"])
        s["awvalid"].value = 0

    async def _data(self, words):
        s = self.s
        for i, w in enumerate(words):
            while pause(self.often):
                await RisingEdge(self.clk)
            s["wdata"].value, s["wlast"].value, s["wvalid"].value = w, i == len(words) - 1, 1
            await edge(self.clk, s["wready"])
            s["wvalid"].value = 0

    async def _response(self):
        s = self.s
        await edge(self.clk, s["bvalid"])
        seen = int(s["bid"].value), int(s["bresp"].value)
        while pause(self.often):
            await RisingEdge(self.clk)
            assert s["bvalid"].value == 1 and (int(s["bid"].value), int(s["bresp"].value)) == seen
        s["bready"].value = 1
        await RisingEdge(self.clk)
        s["bready"].value = 0
        assert seen[0] == self.ids, "bid is another transaction's"
        return seen[1]


class Dma:
    """The write DMA engine as one client sees it. Transactions go to `handle(addr, words)`, which returns whether they
    failed. It checks that the client keeps its request until the grant, and gives its words without a pause of more
    than 8 cycles."""

    def __init__(self, dut, clk, handle, often=0):
        self.dut, self.clk, self.handle, self.often = dut, clk, handle, often
        for n in ("gnt", "wready", "done", "err"):
            getattr(dut, f"dma_{n}").value = 0

    async def run(self):
        d = self.dut
        while True:
            await edge(self.clk, d.dma_req, timeout=10**9)
            addr, beats = int(d.dma_addr.value), int(d.dma_beats.value)
            assert 1 <= beats <= 256 and (addr & 0xFFF) + 8 * beats <= 4096
            while pause(self.often):
                await RisingEdge(self.clk)
                assert d.dma_req.value == 1 and int(d.dma_addr.value) == addr and int(d.dma_beats.value) == beats
            d.dma_gnt.value = 1
            await RisingEdge(self.clk)
            d.dma_gnt.value = 0
            words = await self._words(beats)
            while pause(self.often):
                await RisingEdge(self.clk)
            failed = self.handle(addr, words)
            d.dma_done.value, d.dma_err.value = 1, bool(failed)
            await RisingEdge(self.clk)
            d.dma_done.value, d.dma_err.value = 0, 0

    async def _words(self, beats):
        d, words, idle = self.dut, [], 0
        ready = 0
        while len(words) < beats:
            ready = not pause(self.often)
            d.dma_wready.value = ready
            await RisingEdge(self.clk)
            if d.dma_wvalid.value == 1:
                idle = 0
                if ready:
                    words.append(int(d.dma_wdata.value))
            else:
                idle += 1
                assert idle <= 8, "a granted client makes the bus wait"
        d.dma_wready.value = 0
        return words


class PacketSink:
    """Takes packets from a packet stream `out_*` into `packets`: (octets, words). `often`: percent of cycles without
    ready; 100 stops it. It checks that nothing changes while it waits."""

    def __init__(self, dut, clk, often=0):
        self.dut, self.clk, self.often, self.packets = dut, clk, often, []

    async def run(self):
        d, words, held = self.dut, [], None
        while True:
            ready = not pause(self.often)
            d.out_ready.value = ready
            await RisingEdge(self.clk)
            if d.out_valid.value != 1:
                assert held is None, "out_valid fell without a handshake"
                continue
            now = int(d.out_data.value), int(d.out_last.value), int(d.out_len.value)
            assert held in (None, now), "the stream changed without a handshake"
            held = None if ready else now
            if not ready:
                continue
            words.append(now[0])
            if now[1]:
                assert len(words) == words_of(now[2]), "length and words do not fit"
                self.packets.append((now[2], words))
                words = []
