#!/usr/bin/env python3
"""Generates the register map from registers.toml: for SystemVerilog, C, Rust, Python, and the tables of README.md.
tb/golden/test_map.py fails if one of them is out of date."""

import tomllib
from pathlib import Path

HERO = Path(__file__).resolve().parent
MAP = tomllib.loads((HERO / "registers.toml").read_text())
REGISTERS, EVENTS, COUNTERS = MAP["register"], MAP["event"], MAP["counter"]
ROUTE6 = [{**entry, "name": f"ROUTE6_{entry['name']}"} for entry in MAP["route6"]]  # what registers of some banks mean
ALL = 0xFFFFFFFF
NOTE = "Written by hero/registers.py from hero/registers.toml."


def words():
    """Each register by number: (name, entry, bits that keep what is written, value after reset)."""
    for entry in REGISTERS:
        count = entry.get("words", 1)
        for k in range(count):
            name = entry["name"] + (entry["parts"][k] if "parts" in entry else str(k) if count > 1 else "")
            kept, reset = (value[k % len(value)] if isinstance(value, list) else value
                           for value in (entry.get("bits", ALL), entry.get("reset", 0)))
            yield name, entry, kept if entry["access"] == "rw" else 0, reset


def fields():
    """(name, bit, width) of all fields of registers."""
    for entry in REGISTERS + ROUTE6:
        for name, place in entry.get("fields", {}).items():
            high, low = map(int, place.split(":")) if isinstance(place, str) else (place, place)
            yield f"{entry['name']}_{name}", low, high - low + 1


def constants():
    """(name, value, kind) for languages with plain constants; kind: register, flag, shift, number."""
    yield from ((entry["name"], entry["number"], "register") for entry in REGISTERS + ROUTE6)
    for name, low, width in fields():
        if width == 1:
            yield name, 1 << low, "flag"
        else:
            yield f"{name}_SHIFT", low, "shift"
    yield from ((f"IRQ_{event['name']}", 1 << bit, "flag") for bit, event in enumerate(EVENTS))
    yield from (("ID_VALUE", MAP["id"], "number"), ("VERSION", MAP["version"], "number"), ("ROUTE6_BANK", MAP["route6_bank"], "number"))


def count(*kinds):
    """The number of counters of these kinds."""
    return sum(counter["kind"] in kinds for counter in COUNTERS)


def lines(*each):
    return "\n".join(each) + "\n"


def systemverilog():
    table = list(words())
    rows = ("        " + ", ".join(f"32'h{table[n][2]:08x}" for n in range(first, first - 8, -1)) for first in range(63, 0, -8))
    ones = sum((reset != 0) << n for n, (*_, reset) in enumerate(table))
    return lines(
        "    // Registers by number",
        *(f"    localparam [5:0] REG_{entry['name']} = {entry['number']};" for entry in REGISTERS + ROUTE6),
        f"    localparam [4:0] ROUTE6_BANK = {MAP['route6_bank']};",
        f"    localparam [31:0] ID_VALUE = 32'h{MAP['id']:08x};",
        f"    localparam [15:0] VERSION = {MAP['version']};",
        "",
        "    // Of each register the bits that keep what is written, and whether they are ones after reset",
        "    localparam [64*32-1:0] REG_BITS = {",
        ",\n".join(rows),
        "    };",
        f"    localparam [63:0] REG_ONES = 64'h{ones:016x};",
        "",
        "    // Events, in IRQ_UNMASKED, IRQ_MASK and IRQ_MASKED",
        *(f"    localparam [7:0] IRQ_{event['name']} = 8'h{1 << bit:02x};" for bit, event in enumerate(EVENTS)),
        "",
        "    // Counters of DROP_CNT",
        f"    localparam COUNTERS = {len(COUNTERS)};",
        *(f"    localparam [4:0] COUNT_{counter['name'].upper()} = {number};" for number, counter in enumerate(COUNTERS)),
    )


def c():
    def number(value, kind):
        return str(value) if kind in ("register", "shift") else f"{value:#x}"

    return lines(
        f"/* {NOTE} */",
        "#ifndef HERO_MAP_H",
        "#define HERO_MAP_H",
        "",
        *(f"#define HERO_{name} {number(value, kind)}u" for name, value, kind in constants()),
        f"#define HERO_RESET_CYCLES {MAP['reset_cycles']}u",
        "",
        "#endif",
    )


def linux():
    """As C, in the style of Linux."""
    def define(name, value):
        tabs = "\t" * max(1, (40 - len(f"#define HERO_{name}") + 7) // 8)
        return f"#define HERO_{name}{tabs}{value}"

    def bits(low, width):
        return f"BIT({low})" if width == 1 else f"GENMASK({low + width - 1}, {low})"

    return lines(
        "/* SPDX-License-Identifier: GPL-2.0 */",
        f"/* {NOTE} */",
        "#ifndef HERO_MAP_H",
        "#define HERO_MAP_H",
        "",
        "#include <linux/bits.h>",
        "",
        "/* Registers by number */",
        *(define(entry["name"], entry["number"]) for entry in REGISTERS + ROUTE6),
        define("REGISTERS", sum(entry.get("words", 1) for entry in REGISTERS)),
        "",
        "/* Their fields */",
        *(define(name, bits(low, width)) for name, low, width in fields()),
        define("ID_VALUE", f"{MAP['id']:#x}"),
        define("VERSION", MAP["version"]),
        define("ROUTE6_BANK", MAP["route6_bank"]),
        "",
        "/* Events, in IRQ_UNMASKED, IRQ_MASK and IRQ_MASKED */",
        *(define(f"IRQ_{event['name']}", bits(bit, 1)) for bit, event in enumerate(EVENTS)),
        "",
        "/* Counters of DROP_CNT, by number */",
        "enum hero_counter {",
        *(f"\tHERO_COUNT_{counter['name'].upper()}," for counter in COUNTERS),
        "\tHERO_COUNTERS",
        "};",
        "",
        "/* Their names, in the same order */",
        "#define HERO_COUNTER_NAMES { \\",
        *(f"\t\"{counter['driver']}\", \\" for counter in COUNTERS),
        "}",
        "",
        "#endif /* HERO_MAP_H */",
    )


def camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


def rust():
    def constant(name, value, kind):
        number = f"0x{value >> 16:04X}_{value & 0xFFFF:04X}" if value > 255 else str(value)
        return f"pub const {name}: {'u8' if kind == 'register' else 'u32'} = {number};"

    drops = [counter for counter in COUNTERS if counter["kind"] == "verdict"]
    return lines(
        f"//! The register map of a card. {NOTE}",
        "",
        "#![allow(missing_docs)] // the constants have the names of the map",
        "",
        *(constant(*each) for each in constants()),
        "",
        "/// A counter that DROP_CNT shows, in the order of their numbers.",
        "#[derive(Clone, Copy, Debug, PartialEq, Eq)]",
        "#[repr(u8)]",
        "pub enum Counter {",
        *(f"    /// {counter['text']}\n    {camel(counter['driver'])}," for counter in COUNTERS),
        "}",
        "",
        "impl Counter {",
        "    /// All of them, by number.",
        f"    pub const ALL: [Self; {len(COUNTERS)}] = [",
        *(f"        Self::{camel(counter['driver'])}," for counter in COUNTERS),
        "    ];",
        "",
        "    /// Its name in reports.",
        "    pub fn name(self) -> &'static str {",
        "        match self {",
        *(f"            Self::{camel(counter['driver'])} => \"{counter['driver']}\"," for counter in COUNTERS),
        "        }",
        "    }",
        "",
        "    /// Whether it counts received frames that went nowhere.",
        "    pub fn is_receive_drop(self) -> bool {",
        f"        (self as u8) <= Self::{camel(drops[-1]['driver'])} as u8",
        "    }",
        "}",
    )


def python():
    table = list(words())
    write_only = ", ".join(str(n) for n, (_, entry, _, _) in enumerate(table) if entry["access"] == "wo")
    return lines(
        f'"""The register map of a card. {NOTE}"""',
        "",
        *(f"{name} = {value if kind in ('register', 'shift') else hex(value)}" for name, value, kind in constants()),
        "",
        f"RESET_CYCLES = {MAP['reset_cycles']}  # cycles of sys_clk",
        "",
        "# By number",
        "NAMES = (",
        *(f'    "{name}",' for name, *_ in table),
        ")",
        f"WRITE_ONLY = {{{write_only}}}",
        "WRITABLE = {  # the bits that keep what is written",
        *(f"    {n}: {kept:#x}," for n, (_, _, kept, _) in enumerate(table) if kept),
        "}",
        "AFTER_RESET = {  # registers that are not 0 then",
        *(f"    {n}: {reset:#x}," for n, (*_, reset) in enumerate(table) if reset),
        "}",
        "",
        "# DROP_CNT by number",
        "COUNTERS = (",
        *(f'    "{counter["name"]}",' for counter in COUNTERS),
        ")",
        f"VERDICTS = COUNTERS[:{count('verdict')}]",
        f"DROPS = COUNTERS[:{count('verdict', 'fault')}]",
    )


def table():
    def numbers(entry):
        first, count = entry["number"], entry.get("words", 1)
        return f"{first}-{first + count - 1}" if count > 1 else str(first)

    return lines(
        "| n | name | access | bits |",
        "| --- | --- | --- | --- |",
        *(f"| {numbers(entry)} | {entry['name']} | {entry['access'].rstrip('*')} | {entry['text']} |" for entry in REGISTERS),
        "",
        f"In the bank of a route of IPv6, {MAP['route6_bank']} and its number:",
        "",
        "| n | name | bits |",
        "| --- | --- | --- |",
        *(f"| {numbers(entry)} | {entry['name']} | {entry['text']} |" for entry in ROUTE6),
    )


def lists():
    verdicts, drops = count("verdict"), count("verdict", "fault")
    events = ", ".join(f"{bit} {event['text']}" for bit, event in enumerate(EVENTS))
    return lines(
        f"Interrupt events: {events}.",
        "",
        "| DROP_CNT | counter | Bora's name | what it counts |",
        "| --- | --- | --- | --- |",
        *(f"| {n} | {c['name']} | {c['driver']} | {c['text']} |" for n, c in enumerate(COUNTERS)),
        "",
        f"0 to {verdicts - 1} are verdicts on received frames, {verdicts} to {drops - 1} faults, the others no drops.",
    )


def between(path, old, what, text):
    """The file's text `old` with what is between its marks for `what` replaced."""
    comment = ("// ", "") if path.suffix == ".sv" else ("<!-- ", " -->")
    begin, end = (f"{comment[0]}{word}: {what}{comment[1]}\n" for word in ("begin", "end"))
    head, rest = old.split(begin)
    inside, tail = rest.split(end)
    return head + begin + text + inside[inside.rfind("\n") + 1:] + end + tail


def files():
    """{path: its text as it must be}."""
    package, readme = HERO / "rtl" / "hero_pkg.sv", HERO / "README.md"
    text = between(readme, readme.read_text(), "registers", table())
    return {
        package: between(package, package.read_text(), "registers", systemverilog()),
        HERO / "model" / "map.h": c(),
        HERO / "linux" / "hero_map.h": linux(),
        HERO / "driver/src/map.rs": rust(),
        HERO / "tb" / "golden" / "map.py": python(),
        readme: between(readme, text, "events", lists()),
    }


def stale():
    """Files that are not as they would be written."""
    return [path for path, text in files().items() if not path.exists() or path.read_text() != text]


def main():
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
