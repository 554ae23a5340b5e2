"""Short form of the measurements: wire speed on four ports, and a fair share for long frames."""

import pytest

from hero.bench.system import fast, mesh_of_flows, slow
from hero.bench.traffic import SIZES, Flow
from hero.model import build


@pytest.fixture(scope="module", params=(pytest.param("pcix", marks=pytest.mark.slow), "xbar"))
def bus(request):
    build.build(request.param)
    return request.param


@pytest.mark.parametrize("size", SIZES)
def test_wire_speed(bus, size):
    run = fast(bus, mesh_of_flows(size), 1.0, 400_000)
    assert run.lost == 0, run.counters
    assert run.sink.reordered == run.sink.damaged == 0
    assert run.drops() == {} and run.conserved()
    for card in range(4):
        assert run.rate(card) > 0.97  # from first to last frame; full up to what the ends of a short run cost


def test_two_sources_of_short_frames_do_not_starve_one_of_long_frames(bus):
    run = fast(bus, [Flow(source, source, 3, size) for source, size in enumerate((256, 256, 1518))], 1.0, 3_000_000)
    octets = [run.sink.octets[k] for k in range(3)]
    assert min(octets) > 0.7 * max(octets), octets
    assert run.sink.reordered == run.sink.damaged == 0 and run.conserved()


def test_slow_path_through_a_host(bus):
    run = slow(bus, mesh_of_flows(512), 0.5, 400_000, service=100, interrupt=1000)
    assert run.clean and run.drops() == {} and run.conserved()
    assert run.cpu.errors == 0 and run.cpu.interrupts > 0
