#!/usr/bin/env python3
"""Lints hero/rtl and hero/board/rtl with Verilator (-Wall, any warning is an error): each module alone, and the system with both
buses, 3, 16 and 64 routes, with and without those of IPv6; and elaborates the system with Icarus."""

import os
import subprocess
import sys
from pathlib import Path

HERO = Path(__file__).resolve().parent
RTL = HERO / "rtl"
BOARD = HERO / "board" / "rtl"
CELLS = HERO / "tb" / "board" / "ecp5.sv"  # the FPGA's, which the board's modules have
VENV = Path(os.environ.get("HERO_VENV", HERO.parent / "target" / "hero" / "venv"))


def main():
    roots = sorted(VENV.glob("lib/python3*/site-packages/verilator"))
    if not roots:
        sys.exit(f"lint.py: no Verilator in {VENV}: run scripts/deps-hero, or set HERO_VENV")
    environment = os.environ | {"VERILATOR_ROOT": str(roots[-1])}
    verilator = [roots[-1] / "bin" / "verilator_bin", "--lint-only", "-Wall", "--quiet", "-y", RTL, "+libext+.sv",
                 RTL / "hero_pkg.sv"]
    modules = sorted(p.stem for p in RTL.glob("*.sv") if p.stem != "hero_pkg")
    runs = [[*verilator, "--top-module", m, RTL / f"{m}.sv"] for m in modules]
    board = sorted(p.stem for p in BOARD.glob("*.sv"))
    runs += [[*verilator, "-y", BOARD, CELLS, "--top-module", m, BOARD / f"{m}.sv"] for m in board]
    runs += [[*verilator, f"-GBUS={bus}", f"-GROUTES={routes}", "--top-module", "hero_system", RTL / "hero_system.sv"]
             for bus in (0, 1) for routes in (3, 16, 64)]
    runs += [[*verilator, f"-GROUTES={routes}", f"-GROUTES6={routes6}", "--top-module", "hero_system", RTL / "hero_system.sv"]
             for routes, routes6 in ((3, 4), (56, 8), (3, 1))]
    runs += [["iverilog", "-g2012", "-Wall", "-Wno-timescale", "-t", "null", "-y", RTL, "-Y", ".sv", "-s", "hero_system",
              f"-Phero_system.ROUTES6={routes6}", RTL / "hero_pkg.sv", RTL / "hero_system.sv"] for routes6 in (0, 8)]
    failed = 0
    for run in runs:
        result = subprocess.run(run, env=environment, capture_output=True, text=True)
        said = "\n".join(line for line in (result.stdout + result.stderr).splitlines() if not line.startswith("- "))
        if result.returncode or said:
            failed += 1
            print(said, file=sys.stderr)
    print(f"{len(modules) + len(board)} modules, {failed} of {len(runs)} runs with warnings")
    sys.exit(failed != 0)


main()
