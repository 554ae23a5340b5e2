from run import run

SOURCES = ["hero_fast_src", "hero_skid", "hero_ram", "hero_stage", "hero_rr"]
PARAMETERS = {"TIMEOUT": 2000, "TXN_BEATS": 128}


def test_hero_fast_src(simulator):
    run("hero_fast_src", SOURCES, "hero_fast_src.bench_hero_fast_src", simulator, PARAMETERS, environment=PARAMETERS)
