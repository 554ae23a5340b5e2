"""A card with PCI Express; and that its bench finds faults planted in it. On Icarus alone: Verilator takes minutes to compile
what Python may look into."""

from pathlib import Path

import pytest

from run import HERO, plant, run

HERE = Path(__file__).parent
MODULES = sorted(p.stem for p in (HERO / "rtl").glob("*.sv") if p.stem != "hero_pkg")
BENCH = [HERO / "tb" / "system" / "tb_gmii.sv", HERE / "pcie_card_tb.sv"]
QUICK = ["receive", "transmit", "bus_error"]

# What stands for a fault: module, text, what takes its place, and the test that must fail
FAULTS = {
    "vectors_swapped": ("hero_vectors", "up = {(now & OTHERS) != 8'd0, (now & SENT) != 8'd0,",
                        "up = {(now & SENT) != 8'd0, (now & OTHERS) != 8'd0,", "transmit"),
    "let_through_untold": ("hero_vectors", "up & ~again", "up", "event_masks"),
    "mask_unread": ("hero_vectors", "now = pending & mask;", "now = pending;", "event_masks"),
    "forgets_what_waits": ("hero_pcie_msix", "(pending | irq & ~was_up)", "(irq & ~was_up)", "vector_masks"),
    "message_before_data": ("hero_pcie_wr", "FINISH: if (ended)", "FINISH: if (1'b1)", "burst"),
    "one_line_for_all": ("hero_pcie_card", ".irq(vectors)", ".irq({irq, 2'd0})", "receive"),
    "card_not_reset": ("hero_pcie_card", ".sys_rst(card_rst), .gmii_rxd", ".sys_rst(sys_rst), .gmii_rxd", "function_level_reset"),
    "table_not_reset": ("hero_pcie_card", ".sys_rst(card_rst), .cfg_id", ".sys_rst(sys_rst), .cfg_id", "function_level_reset"),
    "cuts_what_is_sent": ("hero_pcie_flr", "STOP: if (open == 3'd0)", "STOP: if (1'b1)", "function_level_reset"),
}


def bench(sources=MODULES, cards=1, testcase=None):
    run("pcie_card_tb", [*sources, *BENCH], "pcie_card.bench_pcie_card", "icarus", {"CARDS": cards}, testcase=testcase,
        environment={"CARDS": cards})


def test_frames_and_vectors():
    bench(testcase=QUICK)


@pytest.mark.slow
def test_card():
    bench()


@pytest.mark.slow
def test_two_cards():
    bench(cards=2, testcase="fast_path")


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name):
    module, old, new, testcase = FAULTS[name]
    faulty = plant(f"pcie_card/{name}", HERO / "rtl" / f"{module}.sv", old, new)
    with pytest.raises(AssertionError, match="pcie_card.bench_pcie_card on icarus"):
        bench([faulty if m == module else m for m in MODULES], testcase=testcase)
