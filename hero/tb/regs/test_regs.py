from pathlib import Path

import pytest
from run import run


@pytest.mark.parametrize(("routes", "routes6"), [(3, 0), (3, 4), pytest.param(64, 0, marks=pytest.mark.slow), pytest.param(56, 8, marks=pytest.mark.slow)])
def test_regs(simulator, routes, routes6):
    modules = ["hero_ram", "hero_counters", "hero_regs", "hero_reset_line", "hero_reset"]
    run("regs_bench", modules + [Path(__file__).parent / "regs_bench.sv"], "regs_tests", simulator, {"ROUTES": routes, "ROUTES6": routes6})
