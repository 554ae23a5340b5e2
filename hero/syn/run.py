#!/usr/bin/env python3
"""Synthesis of a card (hero_card) and of the buses for a Lattice ECP5: resources by module, Fmax when placed, number of routes,
with and without those of IPv6.

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
ROUTES = ((3, 0), (16, 0), (64, 0), (16, 4), (16, 8))  # numbers of routes of IPv4, of IPv6
PAPERS = ROUTES[0]
DEVICE = ["--85k", "--package", "CABGA756", "--speed", "8"]
CLOCKS = {"rx_clk": 125, "tx_clk": 125, "sys_clk": 100}  # MHz, the least, as in hero.lpf
BUSES = ("axi_xbar", "bus_pcix")
PCIE = ("hero_pcie", "hero_pcie_flr")  # what hero_pcie_card adds to a card
PAPER = {"PCI": 4798, "MAC": 4227, "PHY": 1541, "HERO": 15605}  # logic elements, Table 1
# Cells of the ECP5 in 4-input tables: a carry cell has two, a 16 x 4 memory four and two for control.
TABLES = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}
MUXES = ("PFUMX", "L6MUX21")  # these combine the tables of a slice and need no table


def tool(name, *arguments, log):
    script = VENV / "bin" / f"yowasp-{name}"
    if not script.exists():
        sys.exit(f"{Path(sys.argv[0]).name}: {script} is missing: run scripts/deps-hero, or set HERO_VENV")
    with open(log, "w") as out:
        code = subprocess.run([script, *map(str, arguments)], stdout=out, stderr=subprocess.STDOUT).returncode
    if code:
        sys.exit(f"{Path(sys.argv[0]).name}: {name} fails, see {log}")


def synthesize(top, routes, flatten=True):
    """Synthesises `top` with `routes`, a pair as in ROUTES; returns its netlist, {module: yosys's JSON}."""
    name = f"{top}-{'-'.join(map(str, routes))}" + ("" if flatten else "-modules")
    netlist = TARGET / f"{name}.json"
    sources = [RTL / "hero_pkg.sv", *sorted(p for p in RTL.glob("*.sv") if p.stem != "hero_pkg")]
    parameters = f"-chparam ROUTES {routes[0]} -chparam ROUTES6 {routes[1]}" if top == "hero_card" else ""
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
        found = re.search(r"\\?((?:hero|axi|bus)_\w+)", name)
        return found.group(1) if found else name

    table = defaultdict(Counter)
    parents = [top, *(child for child in cells[top][1] if plain(child) == "hero_nic")]
    for child, count in (pair for parent in parents for pair in cells[parent][1].items()):
        if child in cells:
            for key, value in whole(child).items():
                table[plain(child)][key] += value * count
    table[top] = whole(top)
    return table


def place(netlist, seed):
    """Places and routes; returns nextpnr's report. Only paths between flip-flops count, because a card has no pins here."""
    report = netlist.with_suffix(".report.json")
    tool("nextpnr-ecp5", *DEVICE, "--json", netlist, "--lpf", HERE / "hero.lpf", "--lpf-allow-unconstrained",
         "--out-of-context", "--timing-allow-fail", "--report", report, "--seed", seed,
         log=netlist.with_suffix(".nextpnr.log"))
    return json.loads(report.read_text())


def row(*columns):
    return "| " + " | ".join(str(c) for c in columns) + " |\n"


COLUMNS = ("elements", "tables", "flip-flops", "memories")


def fmax(placed, clock):
    """Fmax of a clock in MHz, whatever name nextpnr gives its net."""
    return next(value["achieved"] for name, value in placed["fmax"].items() if clock in name)


def report(modules, mac, by_routes, placed, buses, placed_buses, pcie):
    whole = by_routes[PAPERS]
    text = "# Synthesis of a card\n\n"
    text += ("Lattice ECP5 (LFE5U-85F, speed grade 8, with 208 block memories), yosys and nextpnr as in `../requirements.txt`; written by `make hero-syn`. "
             "A *table* is a 4-input look-up table, those of carry chains and small memories included; an *element* is a table with the "
             "flip-flop behind it, or either alone, as the paper's logic element; a *memory* has 18 kbit.\n\n")
    text += "## Resources beside the paper's Table 1\n\n"
    text += row("core", "paper, logic elements", "here, elements") + row(*["---"] * 3)
    text += row("HERO and MAC", PAPER["HERO"] + PAPER["MAC"], f"{whole['elements']} (`hero_card`, 3 routes)")
    text += row("HERO", PAPER["HERO"], f"{whole['elements'] - mac['elements']} (without the MAC)")
    text += row("MAC", PAPER["MAC"], f"{mac['elements']} (`hero_mac_rx`, `hero_mac_tx`: GMII only)")
    text += row("PCI", PAPER["PCI"], f"{sum(pcie[m]['elements'] for m in PCIE)} (`hero_pcie`, `hero_pcie_flr`: PCI Express, without its core)") + row("PHY", PAPER["PHY"], "none: GMII") + "\n"
    text += ("The paper's sum of 26171 is its own; HERO is 59.6 % of it, not 56 %. Modules one by one (not optimized across their borders, so their sum is "
             "more than the whole):\n\n")
    text += row("module", *COLUMNS) + row(*["---"] * 5)
    for name in sorted((m for m in modules if m not in ("hero_card", "hero_nic")), key=lambda m: -modules[m]["elements"]):
        text += row(f"`{name}`", *(modules[name][c] for c in COLUMNS))
    text += row("sum, with the wiring of `hero_card`", *(modules["hero_card"][c] for c in COLUMNS))
    text += row("`hero_card` as a whole", *(whole[c] for c in COLUMNS)) + "\n"
    text += (f"The card takes {whole['memories']} of the device's 208 memories: the queues of the paper's size fill it, and a device for four cards is larger.\n\n")
    text += "## Clocks and the number of routes\n\n"
    wanted = ", ".join(f"{mhz} MHz for {clock}" for clock, mhz in CLOCKS.items())
    text += f"`hero_card` placed and routed, MACs included, with the constraints of `hero.lpf`; wanted are {wanted}.\n\n"
    text += row("routes", "of IPv6", *COLUMNS, *(f"{clock}, MHz" for clock in CLOCKS)) + row(*["---"] * 9)
    for routes, resources in by_routes.items():
        text += row(*routes, *(resources[c] for c in COLUMNS), *(f"{fmax(placed[routes], c):.1f}" for c in CLOCKS))
    text += "\n## The buses\n\nEach placed and routed alone, its ports without flip-flops of their own.\n\n"
    text += row("bus", *COLUMNS[:3], "sys_clk, MHz") + row(*["---"] * 5)
    for bus in BUSES:
        text += row(f"`{bus}`", *(buses[bus][c] for c in COLUMNS[:3]), f"{fmax(placed_buses[bus], 'sys_clk'):.1f}")
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

    def placed_of(what, netlist):
        return None if options.no_place else step(f"place and route of {what}", place, netlist, options.seed)

    modules = totals(step("synthesis by module", synthesize, "hero_card", PAPERS, False), "hero_card")
    mac = modules["hero_mac_rx"] + modules["hero_mac_tx"]
    by_routes, placed, buses, placed_buses = {}, {}, {}, {}
    pcie = {name: totals(step(f"synthesis of {name}", synthesize, name, (0, 0)), name)[name] for name in PCIE}
    for routes in ROUTES:
        what = f"{routes[0]} routes, {routes[1]} of IPv6"
        netlist = step(f"synthesis with {what}", synthesize, "hero_card", routes)
        by_routes[routes] = totals(netlist, "hero_card")["hero_card"]
        placed[routes] = placed_of(what, netlist)
    for bus in BUSES:
        netlist = step(f"synthesis of {bus}", synthesize, bus, (0, 0))
        buses[bus] = totals(netlist, bus)[bus]
        placed_buses[bus] = placed_of(bus, netlist)
    if options.no_place:
        return
    (HERE / "REPORT.md").write_text(report(modules, mac, by_routes, placed, buses, placed_buses, pcie))
    slow = [f"{c} with {r[0]} routes, {r[1]} of IPv6" for r in ROUTES for c, mhz in CLOCKS.items() if fmax(placed[r], c) < mhz]
    slow += [bus for bus in BUSES if fmax(placed_buses[bus], "sys_clk") < CLOCKS["sys_clk"]]
    if by_routes[PAPERS]["elements"] - mac["elements"] >= PAPER["HERO"] or slow:
        sys.exit(f"run.py: too slow: {slow}; {by_routes[PAPERS]['elements']} elements")


if __name__ == "__main__":
    main()
