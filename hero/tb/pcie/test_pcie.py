"""The host interface on both simulators; and that its bench finds faults planted in it."""

import pytest

from run import HERO, plant, run

MODULES = ["hero_pcie_rx", "hero_pcie_cpl", "hero_pcie_rd", "hero_pcie_wr", "hero_pcie_msix", "hero_pcie_tx", "hero_pcie"]
TIMEOUT = 600

# What stands for a fault: module, text, what takes its place, and the test that must fail
FAULTS = {
    "write_over_4k": ("hero_pcie_wr", " || next[11:3] == 9'h1ff", "", "dma_writes"),
    "payload_twice": ("hero_pcie_wr", "max_words = PAYLOAD_WORDS[9:0] <<", "max_words = {PAYLOAD_WORDS[8:0], 1'b0} <<", "dma_writes"),
    "enables_lost": ("hero_pcie_wr", "{4'd0, s_axi_wstrb[3:0] | s_axi_wstrb[7:4]}", "8'h0f", "dma_writes"),
    "response_early": ("hero_pcie_wr", "FINISH: if (ended)", "FINISH: if (1'b1)", "dma_writes"),
    "header_always_long": ("hero_pcie_wr", "wire wide = high != 32'd0", "wire wide = 1'b1", "dma_writes"),
    "read_over_4k": ("hero_pcie_rd", "10'd512 - {1'b0, addr[11:3]}", "10'd512", "dma_reads"),
    "tag_in_use": ("hero_pcie_rd", "else if (!used[tag]) begin", "else begin", "dma_reads"),
    "words_out_of_order": ("hero_pcie_rd", "used[head] && !open[head] && out", "used[head] && out", "dma_reads"),
    "status_unread": ("hero_pcie_rd", " && cpl_hdr[79:77] == 3'd0", "", "read_errors"),
    "poison_unread": ("hero_pcie_rd", " && !cpl_hdr[110]", "", "read_errors"),
    "count_unread": ("hero_pcie_rd", "        && cpl_hdr[75:64] == {h_missing, 3'd0}\n", "", "read_errors"),
    "address_unread": ("hero_pcie_rd", "        && cpl_hdr[38:32] == {h_at, 3'd0}\n", "", "read_errors"),
    "requester_unread": ("hero_pcie_rd", "&& cpl_hdr[63:48] == id ", "", "read_errors"),
    "stale_tag_used": ("hero_pcie_rd", "else if (stale[tag])", "else if (1'b0)", "time_outs"),
    "no_time_out": ("hero_pcie_rd", "&& !taking && !sent;", "&& 1'b0;", "time_outs"),
    "completion_in_one": ("hero_pcie_cpl", "6'd32 - {1'b0, dw[4:0]}", "6'd32", "registers"),
    "count_without_skip": ("hero_pcie_cpl", " - {10'd0, skip} - ", " - ", "registers"),
    "flush_reads": ("hero_pcie_cpl", "wire skipped = be == 4'd0", "wire skipped = 1'b0", "registers"),
    "write_waits_for_read": ("hero_pcie_cpl", "assign np_ready = wp - rp != {1'b1, {DEPTH_W{1'b0}}};",
                             "assign np_ready = wp == rp;", "aperture"),
    "half_words_taken": ("hero_pcie_rx", "wire whole = !address[2] && ", "wire whole = ", "aperture"),
    "function_mask_unread": ("hero_pcie_msix", "function_mask || !bus_master ?", "!bus_master ?", "msix"),
    "served_but_pending": ("hero_pcie_msix", " & irq & {N{enable}}", " & {N{enable}}", "msix"),
    "message_into_tlp": ("hero_pcie_tx", "wire message = owner == MSIX;", "wire message = msix_valid;", "msix"),
}


def bench(simulator, sources, tag_w, testcase=None):
    parameters = {"TIMEOUT": TIMEOUT, "TAG_W": tag_w}
    run("hero_pcie", ["hero_ram", *sources], "pcie.bench_pcie", simulator, parameters, testcase=testcase,
        environment=parameters)


def test_pcie(simulator):
    """Too few tags for a long read, and enough."""
    bench(simulator, MODULES, 2 if simulator == "icarus" else 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name):
    module, old, new, testcase = FAULTS[name]
    faulty = plant(f"pcie/{name}", HERO / "rtl" / f"{module}.sv", old, new)
    with pytest.raises(AssertionError, match="pcie.bench_pcie on icarus"):
        bench("icarus", [faulty if m == module else m for m in MODULES], 2, testcase)
