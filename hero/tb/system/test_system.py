"""Runs the system's benches: four cards (system_tb) on both buses, and three with a rogue (rogue_tb)."""

from pathlib import Path

import pytest
from run import HERO, run

HERE = Path(__file__).parent
RTL = sorted(p.stem for p in (HERO / "rtl").glob("*.sv") if p.stem != "hero_pkg")
BENCH = [HERE / name for name in ("tb_gmii.sv", "tb_slave.sv", "tb_master.sv")]
BUSES = {"pcix": 0, "xbar": 1}


def system(bus, module, **parameters):
    run("system_tb", RTL + BENCH + [HERE / "system_tb.sv"], module, parameters={"BUS": BUSES[bus], **parameters})


@pytest.mark.parametrize("bus", BUSES)
def test_smoke(bus):
    system(bus, "cases_smoke")
