#!/usr/bin/env python3
"""Measures the four-card model: prints tables, writes target/bench/hero.json and docs/hero-*.svg.

    run.py [--quick] [--only NAME[,NAME...]] [--document FILE]

--quick: one round and shorter ones. --only: some cases; then no plot is written. --document: also put the tables into a page."""

import argparse
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hero.bench import fast_path, slow_path  # noqa: E402
from hero.bench.chart import page  # noqa: E402
from hero.bench.report import Report  # noqa: E402
from hero.model import build  # noqa: E402

BUILDS = ("pcix", "xbar")


def measure(report, quick, wanted):
    """Runs the cases in `wanted`; returns plots, {file: panels}."""
    plots = {}

    def case(name, function, *arguments):
        if name not in wanted:
            return None
        begin = time.monotonic()
        result = function(report, quick, *arguments)
        print(f"\n({name}: {time.monotonic() - begin:.0f} s)", flush=True)
        return result

    def plot(file, *panels):
        plots.setdefault(file, []).extend(panel for panel in panels if panel is not None)

    case("wire-speed", fast_path.wire_speed)
    rate, *delays = case("saturation", slow_path.saturation) or [None]
    plot("throughput", rate)
    plot("latency", *delays)
    without, delay, by_class, delay_by_class = case("overload", slow_path.overload) or [None] * 4
    plot("latency", delay, case("fast-latency", fast_path.latency_by_load))
    plot("priorities", without, by_class, delay_by_class, case("fast-priorities", fast_path.priorities))
    case("starvation", fast_path.starvation)
    case("four-ports", slow_path.four_ports)
    plot("throughput", *case("vectors", slow_path.vectors) or [])
    plot("throughput", case("setup", fast_path.setup_cycles))
    plot("latency", case("routes", fast_path.routes))
    return plots


NAMES = ("wire-speed", "saturation", "overload", "fast-latency", "fast-priorities", "starvation", "four-ports",
         "vectors", "setup", "routes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--document", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else NAMES
    for name in wanted:
        if name not in NAMES:
            parser.error(f"no case {name!r}")
    for name in BUILDS:
        build.build(name)
    report = Report()
    plots = measure(report, arguments.quick, wanted)
    report.save(ROOT / "target" / "bench" / "hero.json")
    if arguments.document:
        report.document(arguments.document)
    if not arguments.only:
        for file, panels in plots.items():
            (ROOT / "docs" / f"hero-{file}.svg").write_text(page(panels))


if __name__ == "__main__":
    main()
