"""A card with PCI Express; and that its bench finds faults planted in it. On Icarus alone: Verilator takes minutes to compile
what Python may look into."""

from pathlib import Path

import pytest

from run import HERO, TARGET, run

HERE = Path(__file__).parent
MODULES = sorted(p.stem for p in (HERO / "rtl").glob("*.sv") if p.stem != "hero_pkg")
BENCH = [HERO / "tb" / "system" / "tb_gmii.sv", HERE / "pcie_card_tb.sv"]
QUICK = ["receive", "transmit", "bus_error"]


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
