"""The other end of the PCIe core's streams: a root complex with memory, that looks at every TLP of the card's. Packing and
unpacking of headers is cocotbext-pcie's."""

import random

import cocotb
from cocotb.triggers import FallingEdge
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpType
from cocotbext.pcie.core.utils import PcieId

from bench import Sink, Source

CARD, HOST = PcieId(3, 1, 0), PcieId(0, 2, 0)
BASE, SIZE = 0x1234_0000, 0x1_0000  # memory, below the card's upper half of addresses
MESSAGES = 0xFEE0_0000
RCB = 64


def beats_of(tlp, *sideband):
    """Beats (sop, eop, header, *sideband, data, strb) of a TLP. The header is not there after the first one."""
    header = int.from_bytes(bytes(tlp.pack_header()).ljust(16, b"\0"), "big")
    data = bytes(tlp.data)
    pieces = [data[i:i + 8] for i in range(0, len(data), 8)] or [b""]
    return [(i == 0, i == len(pieces) - 1, header if i == 0 else random.getrandbits(128), *sideband,
             int.from_bytes(piece, "little"), (1 << len(piece) // 4) - 1) for i, piece in enumerate(pieces)]


def tlp_of(beats):
    """The TLP of beats (header, data, strb, sop, eop)."""
    assert [b[3] for b in beats] == [1] + [0] * (len(beats) - 1), "sop is not the first word"
    assert len({b[0] for b in beats}) == 1, "the header changes"
    tlp = Tlp.unpack_header(beats[0][0].to_bytes(16, "big"))
    data = b"".join(b[1].to_bytes(8, "little")[:4 * (b[2] & 1) + 4 * (b[2] >> 1)] for b in beats)
    if tlp.has_data():
        tlp.data = bytearray(data)
    assert tlp.check(), tlp
    return tlp


class Request:
    def __init__(self, tlp, cycle):
        self.tlp, self.cycle = tlp, cycle
        self.next, self.end = tlp.address, tlp.address + 4 * tlp.length


class Root:
    def __init__(self, dut, timeout, tags):
        self.dut, self.clk, self.timeout, self.tags = dut, dut.sys_clk, timeout, tags
        self.memory = bytearray(random.randbytes(SIZE))
        self.max_payload, self.max_request, self.high = 128, 512, 0
        self.haste = 0.5           # probability of a completion in a cycle
        self.fault = None          # what becomes of the next request's completion
        self.open = []             # requests under way
        self.lost = {}             # tag: cycle; what was never answered, or wrongly
        self.messages, self.answers = [], []
        self.cycle = self.reads = self.writes = self.turned = self.most = self.last_write = 0
        self.narrow = self.wide = self.unexpected = self.refused = self.timed_out = 0
        s = dut.rx_req_valid, dut.rx_req_ready
        self.requests = Source(self.clk, *s, [dut.rx_req_sop, dut.rx_req_eop, dut.rx_req_hdr, dut.rx_req_bar,
                                              dut.rx_req_data, dut.rx_req_strb])
        s = dut.rx_cpl_valid, dut.rx_cpl_ready
        self.completions = Source(self.clk, *s, [dut.rx_cpl_sop, dut.rx_cpl_eop, dut.rx_cpl_hdr, dut.rx_cpl_error,
                                                 dut.rx_cpl_data, dut.rx_cpl_strb])
        self.rd = Sink(self.clk, dut.sys_rst, dut.tx_rd_req_valid, dut.tx_rd_req_ready, [dut.tx_rd_req_hdr])
        self.wr, self.cpl = (Sink(self.clk, dut.sys_rst, *(getattr(dut, f"{name}_{s}") for s in ("valid", "ready")),
                                  [getattr(dut, f"{name}_{s}") for s in ("hdr", "data", "strb", "sop", "eop")])
                             for name in ("tx_wr_req", "tx_cpl"))
        cocotb.start_soon(self._run())

    def send(self, tlp, bar):
        self.requests.send(beats_of(tlp, bar))

    async def _run(self):
        while True:
            await FallingEdge(self.clk)
            self.cycle += 1
            for pulse in ("unexpected", "timed_out"):
                setattr(self, pulse, getattr(self, pulse) + int(getattr(self.dut, pulse).value))
            self.refused += int(self.dut.rx_refused.value)
            self.look()
            if self.open and len(self.completions.queue) < 4 and random.random() < self.haste:
                self._complete(random.choice(self.open))

    def look(self):
        """Takes what the card has sent."""
        for (header,) in self.rd.beats:
            tlp = Tlp.unpack_header(header.to_bytes(16, "big"))
            assert tlp.fmt_type in (TlpType.MEM_READ, TlpType.MEM_READ_64) and tlp.check(), tlp
            assert tlp.first_be == 15 and tlp.last_be == (0 if tlp.length == 1 else 15), tlp
            assert 4 * tlp.length <= self.max_request, f"longer than the read request size: {tlp}"
            assert tlp.tag not in [r.tlp.tag for r in self.open], f"the tag is in use: {tlp}"
            if tlp.tag in self.lost:
                assert self.cycle - self.lost.pop(tlp.tag) >= self.timeout, f"the tag is stale: {tlp}"
            self._address(tlp)
            self.open.append(Request(tlp, self.cycle))
            self.reads += 1
            self.most = max(self.most, len(self.open))
        self.rd.beats.clear()
        for beats in self.wr.frames():
            self._write(tlp_of(beats))
        for beats in self.cpl.frames():
            self.answers.append(tlp_of(beats))

    def _address(self, tlp):
        assert tlp.requester_id == CARD, tlp
        wide = tlp.fmt_type in (TlpType.MEM_READ_64, TlpType.MEM_WRITE_64)
        assert wide == (tlp.address >> 32 != 0), f"a header of the wrong size: {tlp}"
        self.wide += wide
        self.narrow += not wide

    def _write(self, tlp):
        assert tlp.fmt_type in (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64), tlp
        assert 4 * tlp.length <= self.max_payload, f"longer than the payload size: {tlp}"
        assert tlp.first_be and bool(tlp.last_be) == (tlp.length > 1), tlp
        assert tlp.length <= 2 or tlp.first_be == tlp.last_be == 15, tlp
        self._address(tlp)
        if tlp.address & 0xFFF0_0000 == MESSAGES:
            self.messages.append((tlp.address, int.from_bytes(tlp.data, "little")))
            assert tlp.length == 1 and tlp.first_be == 15
            return
        assert tlp.address >> 32 == self.high
        self.writes += 1
        self.last_write = self.cycle
        for i, octet in enumerate(tlp.data):
            be = tlp.first_be if i < 4 else tlp.last_be if i >= len(tlp.data) - 4 else 15
            if be >> i % 4 & 1:
                self.memory[(tlp.address + i) % SIZE] = octet

    def _complete(self, request, fault=None):
        """Sends the next piece of a completion, cut at a multiple of the boundary."""
        fault, self.fault = self.fault, None
        if fault == "none":
            return self._lose(request)
        if self.open[0] is not request:
            self.turned += 1
        end = min(request.end, request.next // RCB * RCB + RCB * random.randrange(1, 9))
        tlp = Tlp.create_completion_data_for_tlp(request.tlp, HOST)
        tlp.byte_count = request.end - request.next
        tlp.lower_address = request.next & 0x7F
        at = request.next % SIZE
        tlp.set_data(self.memory[at:at + end - request.next])
        request.next = end
        error = 0
        if fault in ("tag", "requester", "high tag"):  # for somebody else; what was asked for is not answered
            if fault == "requester":
                tlp.requester_id = PcieId(3, 1, 1)
            else:
                tlp.tag = (tlp.tag + self.tags) if fault == "high tag" else self.free_tag()
        elif fault in ("UR", "CA"):
            tlp = Tlp.create_completion_for_tlp(request.tlp, HOST, False, CplStatus[fault])
            tlp.byte_count = request.end - at
        elif fault == "poisoned":
            tlp.ep = True
        elif fault == "core":
            error = 1
        elif fault == "count":
            tlp.byte_count += 64
        elif fault == "address":
            tlp.lower_address ^= 0x40
        elif fault == "long":
            tlp.set_data(bytes(tlp.byte_count + 8))
        elif fault == "no data":
            tlp = Tlp.create_completion_for_tlp(request.tlp, HOST)
        beats = beats_of(tlp, error)
        if fault == "cut":  # the core breaks off
            tlp.set_data(bytes(tlp.byte_count))
            beats = beats_of(tlp, error)[:1]
            beats[0] = (1, 1, *beats[0][2:])
        self.completions.send(beats)
        if fault:
            self._lose(request)
        elif request.next == request.end:
            self.open.remove(request)

    def _lose(self, request):
        self.open.remove(request)
        self.lost[request.tlp.tag] = self.cycle

    def free_tag(self):
        return next(t for t in range(self.tags) if t not in [r.tlp.tag for r in self.open])
