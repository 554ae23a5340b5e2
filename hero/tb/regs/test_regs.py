from pathlib import Path

import pytest
from run import run


@pytest.mark.parametrize("routes", [3, pytest.param(64, marks=pytest.mark.slow)])
def test_regs(simulator, routes):
    modules = ["hero_ram", "hero_counters", "hero_regs", "hero_reset_line", "hero_reset"]
    run("regs_bench", modules + [Path(__file__).parent / "regs_bench.sv"], "regs_tests", simulator, {"ROUTES": routes})
