from pathlib import Path

import pytest
from run import run


@pytest.mark.slow
@pytest.mark.parametrize("mtu", (1500, 2022))
def test_slow(simulator, mtu):
    modules = ["hero_rr", "hero_skid", "hero_ram", "hero_packet_fifo", "hero_ring", "hero_cpl", "hero_slow_rx", "hero_slow_tx",
               "hero_slow", "hero_dma_wr", "hero_dma_rd"]
    run("slow_bench", modules + [Path(__file__).parent / "slow_bench.sv"], "slow_tests", simulator, {"MTU": mtu})
