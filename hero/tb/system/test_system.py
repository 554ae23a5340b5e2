"""Runs the system's benches: four cards (system_tb) on both buses, and three with a rogue (rogue_tb)."""

import os
from pathlib import Path

import pytest
from run import HERO, run

HERE = Path(__file__).parent
RTL = sorted(p.stem for p in (HERO / "rtl").glob("*.sv") if p.stem != "hero_pkg")
BENCH = [HERE / name for name in ("tb_gmii.sv", "tb_slave.sv", "tb_master.sv")]
BUSES = {"pcix": 0, "xbar": 1}


def bench(top, bus, module, testcase=None, environment=None, **parameters):
    """Runs the cases of `module` (or several, with commas) on a bench; one build serves all with the same parameters."""
    sources = RTL + BENCH + [HERE / f"{top}.sv"]
    parameters = {"BUS": BUSES[bus], "ROUTES": 3, "TIMEOUT": 65536, "VOQ_WORDS": 4096, "DST_WORDS": 8192, **parameters}
    told = {f"HERO_{name}": value for name, value in parameters.items()}
    run(top, sources, module, parameters=parameters, testcase=testcase, environment={**told, **(environment or {})}, public=False)


@pytest.mark.parametrize("bus", BUSES)
def test_four_cards(bus):
    bench("system_tb", bus, "cases_smoke,cases_random,cases_registers,cases_input,cases_faults,cases_reset,cases_routes")


# Small queues and a short time-out: faults of the fast path come soon.
SMALL = {"TIMEOUT": 4096, "VOQ_WORDS": 1024, "DST_WORDS": 1024}


def test_rogue():
    bench("rogue_tb", "xbar", "cases_rogue", **SMALL)
