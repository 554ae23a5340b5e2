from pathlib import Path

import pytest

from run import run

SOURCES = ["hero_rr", "hero_skid", "hero_ram", "hero_packet_fifo", "hero_voq", "hero_stage", "hero_fast_src", "hero_aperture",
           "hero_grant", "hero_burst", "hero_fast_dst", "hero_dma_wr", "bus_decode", "axi_error", "axi_write_path",
           "axi_read_path", "axi_paths", "bus_pcix", "axi_xbar", Path(__file__).with_name("fast_path_tb.sv")]


@pytest.mark.slow
@pytest.mark.parametrize(("bus", "grant"), [(0, 190), (1, 190), (1, 1)], ids=["pcix", "xbar", "no-mtu-rule"])
def test_fast_path(bus, grant):
    parameters = {"BUS": bus, "GRANT_WORDS": grant, "TIMEOUT": 4096}
    run("fast_path_tb", SOURCES, "fast_path.bench_fast_path", "verilator", parameters, environment=parameters,
        public=False)
