"""Runs the system's benches: four cards (system_tb) on both buses, and three with a rogue (rogue_tb).

Long runs (marker `long`) take HERO_SEEDS seeds (default 10)."""

import os
from pathlib import Path

import pytest
from run import HERO, TARGET, run

HERE = Path(__file__).parent
RTL = sorted(p.stem for p in (HERO / "rtl").glob("*.sv") if p.stem != "hero_pkg")
BENCH = [HERE / name for name in ("tb_gmii.sv", "tb_slave.sv", "tb_master.sv")]
BUSES = {"pcix": 0, "xbar": 1}
SEEDS = range(2, 2 + int(os.environ.get("HERO_SEEDS", "10")))
QUEUES = {"VOQ_WORDS": 1024, "DST_WORDS": 1024}  # small ones: full more often
SMALL = {**QUEUES, "TIMEOUT": 4096}  # and faults of the fast path are over sooner
DIRECTED = "cases_registers,cases_input,cases_faults"


CLOCKS = (10, 7.5, 8, 9.7)  # ns of sys_clk: 100 MHz, that of the paper's bus, the line's, none of them


def bench(top, bus, modules, testcase=None, environment=None, **parameters):
    """Runs the cases of `modules` (with commas) on a bench; one build serves all with the same parameters."""
    sources = RTL + BENCH + [HERE / f"{top}.sv"]
    parameters = {"BUS": BUSES[bus], "ROUTES": 3, "TIMEOUT": 65536, "VOQ_WORDS": 4096, "DST_WORDS": 8192, **parameters}
    told = {f"HERO_{name}": value for name, value in parameters.items()}
    told["HERO_COVERAGE"] = TARGET / f"coverage-{bus}.txt"
    run(top, sources, modules, parameters=parameters, testcase=testcase, environment={**told, **(environment or {})}, public=False)


@pytest.mark.parametrize("bus", (pytest.param("pcix", marks=pytest.mark.slow), "xbar"))
def test_four_cards(bus):
    bench("system_tb", bus, "cases_smoke,cases_random,cases_routes,cases_reset")


@pytest.mark.slow
def test_ip6():
    bench("system_tb", "xbar", "cases_smoke,cases_registers,cases_random,cases_routes6,cases_reset", ROUTES6=4)


@pytest.mark.slow
def test_three_cards_and_a_rogue():
    """All directed cases; the last one fails when a register, event or counter was never seen."""
    bench("rogue_tb", "xbar", f"cases_rogue,{DIRECTED},cases_coverage", **SMALL)


@pytest.mark.long
def test_rogue_on_the_shared_bus():
    bench("rogue_tb", "pcix", f"cases_rogue,{DIRECTED},cases_coverage", **SMALL)


@pytest.mark.long
@pytest.mark.parametrize("bus", BUSES)
def test_directed_with_four_cards(bus):
    bench("system_tb", bus, DIRECTED)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bus", BUSES)
def test_seeds(bus, seed):
    told = {"HERO_SEED": seed, "HERO_FRAMES": 600, "HERO_RESETS": 20, "HERO_CHANGES": 40, "HERO_SYS_NS": CLOCKS[seed % 4]}
    bench("system_tb", bus, "cases_random,cases_routes,cases_reset", environment=told)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_seeds_with_small_queues(seed):
    told = {"HERO_SEED": seed, "HERO_FRAMES": 400, "HERO_RESETS": 20, "HERO_SYS_NS": CLOCKS[seed % 4]}
    bench("system_tb", "xbar", "cases_random,cases_reset", environment=told, **QUEUES)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_seeds_of_ip6(seed):
    told = {"HERO_SEED": seed, "HERO_FRAMES": 600, "HERO_RESETS": 20, "HERO_CHANGES": 40, "HERO_SYS_NS": CLOCKS[seed % 4]}
    bench("system_tb", "xbar", "cases_random,cases_routes,cases_routes6,cases_reset", environment=told, ROUTES=16, ROUTES6=8)


@pytest.mark.long
@pytest.mark.parametrize("routes", (16, 64))
def test_many_routes(routes):
    bench("system_tb", "xbar", "cases_registers,cases_routes", environment={"HERO_CHANGES": 40}, ROUTES=routes)
