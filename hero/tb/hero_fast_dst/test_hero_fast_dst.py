from run import run

SOURCES = ["hero_fast_dst", "hero_aperture", "hero_grant", "hero_burst", "hero_ram", "hero_packet_fifo", "hero_rr"]
PARAMETERS = {"DST_WORDS": 512, "MTU_WORDS": 190, "TIMEOUT": 2000}


def test_hero_fast_dst(simulator):
    run("hero_fast_dst", SOURCES, "hero_fast_dst.bench_hero_fast_dst", simulator, PARAMETERS, environment=PARAMETERS)
