from pathlib import Path

import pytest

from run import run

SOURCES = ["hero_rr", "bus_decode", "axi_error", "axi_write_path", "axi_read_path", "axi_paths", "bus_pcix",
           "axi_xbar", Path(__file__).with_name("bus_tb.sv")]


@pytest.mark.parametrize(("bus", "setup"), [(0, 8), (0, 0), (1, 0)], ids=["pcix", "pcix-0", "xbar"])
def test_bus(simulator, bus, setup):
    parameters = {"BUS": bus, "SETUP": setup}
    run("bus_tb", SOURCES, "bus.bench_bus", simulator, parameters, environment=parameters)
