"""A computer with the cards behind a PCIe switch: cocotbext-pcie's root complex, and between its links and the cards' streams
the PCIe cores. The host's software (hero/model) runs in a thread of its own; what it does to a card goes through BAR 0."""

import logging

import cocotb
from cocotb.task import resume
from cocotb.triggers import FallingEdge, Timer
from cocotbext.pcie.core import RootComplex, Switch
from cocotbext.pcie.core.caps import MsixCapability
from cocotbext.pcie.core.device import Device
from cocotbext.pcie.core.endpoint import Endpoint
from cocotbext.pcie.core.port import FcStateHeader
from cocotbext.pcie.core.tlp import Tlp
from pcie.root import beats_of, tlp_of

from bench import Sink, Source

VECTORS = 3
APERTURES = 0xE000_0000  # below 4 GiB, as the memory: all addresses of the cards have one upper half
MEMORY = 64 << 20
NP_CREDITS = 8  # what hero_pcie_cpl has room for

logging.getLogger("cocotb.pcie").setLevel(logging.ERROR)


class Function(Endpoint):
    """The configuration space of a card, as in docs/hero-device.md."""

    def __init__(self, core):
        super().__init__()
        self.core = core
        self.vendor_id, self.device_id, self.revision_id, self.class_code = 0x1234, 0x4845, 1, 0x020000
        self.subsystem_vendor_id, self.subsystem_id = 0x1234, 1
        self.configure_bar(0, 4096)
        self.configure_bar(2, 1 << 20, ext=True, prefetch=True)
        self.configure_bar(4, 4096)
        self.msix = MsixCapability()
        self.msix.msix_table_size = VECTORS - 1
        self.msix.msix_table_bar_indicator_register = self.msix.msix_pba_bar_indicator_register = 4
        self.msix.msix_pba_offset = 0x800
        self.register_capability(self.msix)
        self.pcie_cap.function_level_reset_capability = True
        self.pcie_cap.initiate_function_level_reset = self.function_level_reset

    async def write_config_register(self, reg, data, mask):
        await super().write_config_register(reg, data, mask)
        self.core.configure()

    async def function_level_reset(self):
        self.memory_space_enable = self.bus_master_enable = False
        self.msix.msix_enable = self.msix.msix_function_mask = False
        self.bar = [value & 15 if mask else 0 for value, mask in zip(self.bar, self.bar_mask)]
        cocotb.start_soon(self.core.function_level_reset())

    async def handle_tlp(self, tlp):
        if tlp.is_completion():
            self.core.completions.send(beats_of(tlp, 0))
        elif tlp.fmt_type in self.rx_tlp_handler:  # configuration
            await super().handle_tlp(tlp)
            return
        else:
            self.core.requests.send(beats_of(tlp, self.match_bar(tlp.address)[0]))
        self.core.taken.append(tlp)


class Core(Device):
    """A PCIe core. `busy` is the probability that a stream pauses in a cycle."""

    def __init__(self, slot):
        self.function = Function(self)
        super().__init__(self.function)
        self.upstream_port.fc_state[0].nph = FcStateHeader(NP_CREDITS)
        self.slot, clk, rst = slot, slot.sys_clk, slot.sys_rst

        def fields(name, *names):
            return [getattr(slot, f"{name}_{field}") for field in names]

        self.requests = Source(clk, *fields("rx_req", "valid", "ready"), fields("rx_req", "sop", "eop", "hdr", "bar", "data", "strb"))
        self.completions = Source(clk, *fields("rx_cpl", "valid", "ready"), fields("rx_cpl", "sop", "eop", "hdr", "error", "data", "strb"))
        self.rd = Sink(clk, rst, *fields("tx_rd_req", "valid", "ready"), fields("tx_rd_req", "hdr"))
        self.wr, self.cpl = (Sink(clk, rst, *fields(name, "valid", "ready"), fields(name, "hdr", "data", "strb", "sop", "eop"))
                             for name in ("tx_wr_req", "tx_cpl"))
        self.taken = []  # TLPs for the card, which hold their credits
        self.before_message = None  # called when the card has given a message to the core
        self.message_address = None
        self.resets = 0
        self.not_master = 0  # cycles since the function was bus master
        self.refused = 0
        self.configure()
        cocotb.start_soon(self._run())

    def busy(self, often):
        self.requests.gap = self.completions.gap = self.rd.stall = self.wr.stall = self.cpl.stall = often

    def configure(self):
        """What the card is told of the configuration space."""
        function, slot = self.function, self.slot
        slot.cfg_id.value = int(function.pcie_id)
        slot.cfg_bus_master.value = int(function.bus_master_enable)
        slot.cfg_max_payload.value = function.pcie_cap.max_payload_size
        slot.cfg_max_request.value = function.pcie_cap.max_read_request_size
        slot.cfg_msix_enable.value = int(function.msix.msix_enable)
        slot.cfg_msix_mask.value = int(function.msix.msix_function_mask)

    async def function_level_reset(self):
        slot = self.slot
        await FallingEdge(slot.sys_clk)
        slot.flr.value = 1
        while not int(slot.flr_done.value):
            await FallingEdge(slot.sys_clk)
        slot.flr.value = 0
        self.resets += 1

    async def _run(self):
        while True:
            await FallingEdge(self.slot.sys_clk)
            self.not_master = 0 if self.function.bus_master_enable else self.not_master + 1
            self.refused += self.slot.rx_refused.value == 1
            if self.taken and self.requests.idle() and self.completions.idle():
                for tlp in self.taken:
                    tlp.release_fc()
                self.taken.clear()
            tlps = [tlp_of(beats) for beats in self.wr.frames()] if self.wr.beats else []
            for (header,) in self.rd.beats:
                tlps.append(Tlp.unpack_header(header.to_bytes(16, "big")))
            self.rd.beats.clear()
            if self.cpl.beats:
                tlps += [tlp_of(beats) for beats in self.cpl.frames()]
            for tlp in tlps:
                if self.before_message and not tlp.is_completion() and tlp.address == self.message_address:
                    self.before_message()
                # what was offered before may still come
                assert self.not_master < 50 or tlp.is_completion() or self.slot.flr.value, f"not a bus master: {tlp}"
                await self.function.send(tlp)


class Machine:
    """The computer. `memory`, `read`, `write`, `run` are what hero/model's software knows of it."""

    def __init__(self, slots):
        self.rc = RootComplex()
        self.rc.prefetchable_mem_base = self.rc.prefetchable_mem_limit = APERTURES
        switch = Switch()
        self.rc.make_port().connect(switch)
        self.cores = [Core(slot) for slot in slots]
        for core in self.cores:
            switch.make_port().connect(core)
        region = self.rc.mem_pool.alloc_region(MEMORY)
        assert region.get_absolute_address(0) == 0
        self.memory = region.mem
        self.devices = []
        self.messages = []  # numbers of the messages that came, all cards' vectors counted
        self.on_message = None
        write = self.rc.msi_region.write

        async def message(address, data, **more):
            number = int.from_bytes(data, "little")
            self.messages.append(number)
            if self.on_message:
                self.on_message(number)
            await write(address, data, **more)

        self.rc.msi_region.write = message

    async def boot(self):
        await self.rc.enumerate()
        for core in self.cores:
            core.message_address = self.rc.msi_region.get_absolute_address(0)
            device = self.rc.find_device(core.function.pcie_id)
            self.devices.append(device)
            await self.enable(device)

    async def enable(self, device):
        """What a driver does with PCI."""
        device.enable_cnt, device.msix_enabled = 0, False
        await device.enable_device()
        await device.set_master()
        assert await device.alloc_irq_vectors(VECTORS, VECTORS) == VECTORS

    @resume
    async def read(self, card, register):
        return await self.devices[card].bar_window[0].read_dword(4 * register)

    @resume
    async def write(self, card, register, value):
        await self.devices[card].bar_window[0].write_dword(4 * register, value)

    @resume
    async def run(self, ns):
        await Timer(ns, "ns")
