#!/usr/bin/env python3
"""Synthesis of a card (hero_nic) for a Lattice ECP5: resources by module, Fmax of the placed card, number of routes.

    run.py [--no-place]

Writes target/hero/syn/*.json and hero/syn/REPORT.md. yosys and nextpnr are the wheels of hero/requirements.txt.
--no-place: no place and route (which takes the most time, some minutes for each number of routes), and no report."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
RTL = HERE.parent / "rtl"
TARGET = HERE.parent.parent / "target" / "hero" / "syn"
VENV = Path(os.environ.get("HERO_VENV", HERE.parent.parent / "target" / "hero" / "venv"))
ROUTES = (3, 16, 64)
DEVICE = ["--85k", "--package", "CABGA756", "--speed", "8"]
CLOCKS = {"rx_clk": 125, "tx_clk": 125, "sys_clk": 100}  # MHz, the least
PAPER = {"PCI": 4798, "MAC": 4227, "PHY": 1541, "HERO": 15605}  # logic elements, Table 1
# A slice of the ECP5 as 4-input tables: two a carry cell, four and two of control a 16 x 4 memory.
TABLES = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}
MUXES = ("PFUMX", "L6MUX21")  # between the tables of a slice, no table of their own


def tool(name, *arguments, log):
    script = VENV / "bin" / f"yowasp-{name}"
    if not script.exists():
        sys.exit(f"run.py: {script} is missing: run scripts/deps-hero, or set HERO_VENV")
    with open(log, "w") as out:
        code = subprocess.run([script, *map(str, arguments)], stdout=out, stderr=subprocess.STDOUT).returncode
    if code:
        sys.exit(f"run.py: {name} fails, see {log}")


def synthesize(top, routes, flatten=True):
    """A netlist of `top`, {module: yosys's JSON}."""
    name = f"{top}-{routes}" + ("" if flatten else "-modules")
    netlist = TARGET / f"{name}.json"
    sources = [RTL / "hero_pkg.sv", *sorted(p for p in RTL.glob("*.sv") if p.stem != "hero_pkg")]
    parameters = f"-chparam ROUTES {routes}" if top == "hero_nic" else ""
    script = (f"read_verilog -sv {' '.join(map(str, sources))}; hierarchy -check -top {top} {parameters}; "
              f"synth_ecp5 -top {top} {'' if flatten else '-noflatten'} -json {netlist}")
    tool("yosys", "-q", "-p", script, log=TARGET / f"{name}.yosys.log")
    return netlist


def used(module):
    """Cells of one module: tables, flip-flops, logic elements, block memories of 18 kbit; Counter of instances.

    A logic element of the paper's Stratix is a 4-input table with a flip-flop behind it, so a flip-flop that takes
    another signal than a table's output counts for one of its own."""
    drivers = {}
    for cell in module["cells"].values():
        for port, bits in cell["connections"].items():
            if cell["port_directions"].get(port) == "output":
                drivers.update(dict.fromkeys(bits, cell["type"]))
    resources, instances, taken = Counter(), Counter(), set()
    for cell in module["cells"].values():
        kind = cell["type"]
        resources["tables"] += TABLES.get(kind, 0)
        if kind == "DP16KD":
            resources["memories"] += 1
        elif kind == "TRELLIS_FF":
            resources["flip-flops"] += 1
            bit = cell["connections"].get("DI", [None])[0]
            if drivers.get(bit) not in (*TABLES, *MUXES) or drivers[bit] == "TRELLIS_DPR16X4" or bit in taken:
                resources["alone"] += 1
            taken.add(bit)
        elif kind not in (*TABLES, *MUXES, "$scopeinfo"):
            instances[kind] += 1
    resources["elements"] = resources["tables"] + resources["alone"]
    return resources, instances


def totals(netlist, top):
    """Resources of `top` with all below it: {module: Counter of resources, all its instances together}."""
    modules = json.loads(netlist.read_text())["modules"]
    cells = {name: used(m) for name, m in modules.items() if not m["attributes"].get("blackbox")}

    def whole(name):
        result = Counter(cells[name][0])
        for child, count in cells[name][1].items():
            if child in cells:
                for key, value in whole(child).items():
                    result[key] += value * count
        return result

    def plain(name):  # $paramod$...\hero_voq\VOQ_WORDS=... -> hero_voq
        return re.search(r"\\?(hero_\w+)", name).group(1)

    table = defaultdict(Counter)
    for child, count in cells[top][1].items():
        if child in cells:
            for key, value in whole(child).items():
                table[plain(child)][key] += value * count
    table[top] = whole(top)
    return table


def place(netlist, seed):
    """Places and routes; nextpnr's report. Only paths between flip-flops count: a card has no pins here."""
    constraints, report = TARGET / "clocks.lpf", netlist.with_suffix(".report.json")
    constraints.write_text("".join(f'FREQUENCY PORT "{clock}" {mhz} MHZ;\n' for clock, mhz in CLOCKS.items()))
    tool("nextpnr-ecp5", *DEVICE, "--json", netlist, "--lpf", constraints, "--lpf-allow-unconstrained",
         "--out-of-context", "--timing-allow-fail", "--report", report, "--seed", seed,
         log=netlist.with_suffix(".nextpnr.log"))
    return json.loads(report.read_text())


def row(*columns):
    return "| " + " | ".join(str(c) for c in columns) + " |\n"


COLUMNS = ("elements", "tables", "flip-flops", "memories")


def report(modules, ethernet, by_routes, placed):
    whole = by_routes[3]
    text = "# Synthesis of a card\n\n"
    text += ("Lattice ECP5 (LFE5U-85F, speed grade 8), yosys and nextpnr as in `../requirements.txt`; written by `make hero-syn`. "
             "A *table* is a 4-input look-up table, those of carry chains and small memories included; an *element* is a table with the "
             "flip-flop behind it, or either alone, as the paper's logic element; a *memory* has 18 kbit.\n\n")
    text += "## Resources beside the paper's Table 1\n\n"
    text += row("core", "paper, logic elements", "here, elements") + row(*["---"] * 3)
    text += row("HERO", PAPER["HERO"], f"{whole['elements']} (`hero_nic`, 3 routes)")
    text += row("MAC", PAPER["MAC"], f"{ethernet['elements']} (`hero_mac_rx`, `hero_mac_tx`: GMII only)")
    text += row("PCI", PAPER["PCI"], "none: AXI4") + row("PHY", PAPER["PHY"], "none: GMII") + "\n"
    text += ("The paper's sum of 26171 is its own; HERO is 59.6 % of it, not 56 %. Modules one by one (not optimized across their borders, so their sum is "
             "more than the whole):\n\n")
    text += row("module", *COLUMNS) + row(*["---"] * 5)
    for name in sorted((m for m in modules if m != "hero_nic"), key=lambda m: -modules[m]["elements"]):
        text += row(f"`{name}`", *(modules[name][c] for c in COLUMNS))
    text += row("sum, with the wiring of `hero_nic`", *(modules["hero_nic"][c] for c in COLUMNS))
    text += row("`hero_nic` as a whole", *(whole[c] for c in COLUMNS)) + "\n"
    text += "## Clocks and the number of routes\n\n"
    text += (f"Placed and routed; wanted are {CLOCKS['mac_clk']} MHz for mac_clk and {CLOCKS['sys_clk']} MHz for sys_clk.\n\n")
    text += row("routes", *COLUMNS, "mac_clk, MHz", "sys_clk, MHz") + row(*["---"] * 7)
    for routes, resources in by_routes.items():
        fmax = placed[routes]["fmax"]
        text += row(routes, *(resources[c] for c in COLUMNS), *(f"{fmax[c]['achieved']:.1f}" for c in CLOCKS))
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-place", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    TARGET.mkdir(parents=True, exist_ok=True)

    def step(what, function, *arguments):
        begin = time.monotonic()
        result = function(*arguments)
        print(f"{what}: {time.monotonic() - begin:.0f} s", flush=True)
        return result

    modules = totals(step("synthesis by module", synthesize, "hero_nic", 3, False), "hero_nic")
    ethernet = Counter()
    for top in ("hero_mac_rx", "hero_mac_tx"):
        ethernet += totals(step(f"synthesis of {top}", synthesize, top, 0), top)[top]
    by_routes, placed = {}, {}
    for routes in ROUTES:
        netlist = step(f"synthesis with {routes} routes", synthesize, "hero_nic", routes)
        by_routes[routes] = totals(netlist, "hero_nic")["hero_nic"]
        print(f"  {dict(by_routes[routes])}", flush=True)
        if not options.no_place:
            placed[routes] = step(f"place and route with {routes} routes", place, netlist, options.seed)
            print("  " + ", ".join(f"{c} {placed[routes]['fmax'][c]['achieved']:.1f} MHz" for c in CLOCKS), flush=True)
    if options.no_place:
        return
    (HERE / "REPORT.md").write_text(report(modules, ethernet, by_routes, placed))
    slow = [f"{c} with {r} routes" for r in ROUTES for c, mhz in CLOCKS.items() if placed[r]["fmax"][c]["achieved"] < mhz]
    if by_routes[3]["elements"] >= PAPER["HERO"] or slow:
        sys.exit(f"run.py: too slow: {slow}; {by_routes[3]['elements']} elements")


main()
