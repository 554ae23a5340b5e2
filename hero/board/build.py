#!/usr/bin/env python3
"""Makes the bitstream of HERO for Lattice's ECP5 Versa board, and fails if it does not meet its timing.

    build.py [--device um5g|um] [--seed N] [--tries N] [--sys-div N]

Writes target/hero/board/hero_board.bit, and what it takes to hero/board/REPORT.md. Several seeds of the placement are tried
until one meets the timing. The tools are the wheels of hero/requirements.txt."""

import argparse
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
HERO = HERE.parent
sys.path.insert(0, str(HERO.parent))
from hero.syn.run import row, tool  # noqa: E402

TARGET = HERO.parent / "target" / "hero" / "board"
DEVICES = {"um5g": "LFE5UM5G-45F", "um": "LFE5UM-45F"}
CLOCKS = {
    "tx_clk": "what is sent", "sys_clk": "the cards, the bus, the registers",
    "eth0_rx_clk": "what is received at socket 0", "eth1_rx_clk": "what is received at socket 1",
}
LINE_MHZ = 125
CROSSING_NS = 8  # as in ../syn/hero.sdc: counters in Gray code, and words in the memories between clocks
RESOURCES = {"TRELLIS_COMB": "tables (4 inputs)", "TRELLIS_FF": "flip-flops", "DP16KD": "memories (18 kbit)", "TRELLIS_IO": "pins",
             "IOLOGIC": "DDR registers and delays", "EHXPLLL": "PLLs"}


def synthesize(netlist, sys_div):
    rtl = [HERO / "rtl" / "hero_pkg.sv", *sorted(p for p in (HERO / "rtl").glob("*.sv") if p.stem != "hero_pkg")]
    sources = " ".join(map(str, [*rtl, *sorted((HERE / "rtl").glob("*.sv"))]))
    tool("yosys", "-q", "-p", f"read_verilog -sv {sources}; chparam -set SYS_DIV {sys_div} hero_board; "
         f"synth_ecp5 -top hero_board -json {netlist}", log=TARGET / "yosys.log")


def place(netlist, device, seed):
    """Places and routes; returns nextpnr's report."""
    report = TARGET / "hero_board.report.json"
    tool("nextpnr-ecp5", f"--{device}-45k", "--package", "CABGA381", "--speed", "8", "--json", netlist, "--lpf", HERE / "versa.lpf",
         "--textcfg", TARGET / "hero_board.config", "--report", report, "--timing-allow-fail", "--seed", seed,
         log=TARGET / "nextpnr.log")
    return json.loads(report.read_text())


def clocks(placed):
    """{clock: (MHz that it reaches, MHz that it must)}"""
    found = {}
    for net, each in placed["fmax"].items():
        # Nets of ports have their names; of the PLL's two nothing is certain but the frequency.
        port = next((name for name in CLOCKS if name.startswith("eth") and name in net), None)
        name = port or ("tx_clk" if abs(each["constraint"] - LINE_MHZ) < 0.1 else "sys_clk")
        if name in found:
            sys.exit(f"build.py: nextpnr reports a clock that nobody knows: {net}")
        found[name] = each["achieved"], each["constraint"]
    if found.keys() != CLOCKS.keys():
        sys.exit(f"build.py: nextpnr reports only the clocks {sorted(found)}")
    return found


def crossing(placed):
    """The longest way, ns, from a register of one clock to one of another."""
    ways = [path for path in placed["critical_paths"] if path["from"] != path["to"] and "<async>" not in path["from"] + path["to"]]
    return max(sum(part["delay"] for part in way["path"]) for way in ways)


def faults(placed):
    slow = [f"{name} reaches {mhz:.1f} MHz of {least:.1f}" for name, (mhz, least) in clocks(placed).items() if mhz < least]
    longest = crossing(placed)
    return slow + ([f"between clocks it takes {longest:.1f} ns, more than {CROSSING_NS}"] if longest > CROSSING_NS else [])


def report(placed, device, seed):
    text = "# The board's bitstream\n\n"
    text += (f"Lattice ECP5 Versa, {DEVICES[device]}, speed grade 8: `hero_board`, two cards, with the queues and routes that are the parameters' "
             f"defaults there. yosys and nextpnr as in `../requirements.txt`; seed {seed}; written by `make hero-board`. Nobody has loaded it.\n\n")
    text += row("what", "used", "of", "%") + row(*["---"] * 4)
    for name, what in RESOURCES.items():
        each = placed["utilization"][name]
        text += row(what, each["used"], each["available"], round(100 * each["used"] / each["available"]))
    text += "\n" + row("clock", "drives", "needs, MHz", "reaches, MHz") + row(*["---"] * 4)
    for name, (mhz, least) in sorted(clocks(placed).items()):
        text += row(name, CLOCKS[name], f"{least:.1f}", f"{mhz:.1f}")
    text += f"\nFrom one clock to another it takes {crossing(placed):.1f} ns at most, and may take {CROSSING_NS}.\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=DEVICES, default="um5g", help="the board exists with two; openFPGALoader --detect tells")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--sys-div", type=int, default=9, help="sys_clk is 750 MHz divided by it")
    options = parser.parse_args()
    TARGET.mkdir(parents=True, exist_ok=True)
    bitstream = TARGET / "hero_board.bit"
    bitstream.unlink(missing_ok=True)
    netlist, begin = TARGET / "hero_board.json", time.monotonic()
    synthesize(netlist, options.sys_div)
    print(f"synthesis: {time.monotonic() - begin:.0f} s", flush=True)
    for seed in range(options.seed, options.seed + options.tries):
        begin = time.monotonic()
        placed = place(netlist, options.device, seed)
        wrong = faults(placed)
        print(f"place and route, seed {seed}: {time.monotonic() - begin:.0f} s; {'; '.join(wrong) or 'meets its timing'}", flush=True)
        if not wrong:
            break
    text = report(placed, options.device, seed)
    print(text)
    if wrong:
        sys.exit("build.py: no seed meets the timing, and there is no bitstream")
    tool("ecppack", "--compress", "--input", TARGET / "hero_board.config", "--bit", bitstream, log=TARGET / "ecppack.log")
    (HERE / "REPORT.md").write_text(text)
    print(f"{bitstream.relative_to(HERO.parent)}: {bitstream.stat().st_size} octets")


main()
