#!/usr/bin/env python3
"""Generates src/generated.rs, router/xdp/bpf/contract.h and docs/reasons.md from contract.toml.
With --check it writes nothing, and fails if one of them is out of date."""

import json
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONTRACT = tomllib.loads((HERE / "contract.toml").read_text())
CARD = tomllib.loads((ROOT / "hero" / "registers.toml").read_text())
CONSTANTS, PORT, FLAGS = CONTRACT["constant"], CONTRACT["port"], CONTRACT["flags"]
ENUMS = {one["name"]: one for one in CONTRACT["enum"]}
NOTE = "Written by router/contract/generate.py from contract.toml."
FATES = ("passed", "budget", "dropped")
COUNTED = ("program", "engine", "socket", "card")
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}


def all_reasons():
    """The reasons in the order of their numbers: first those of the XDP program, sorted by what becomes of the packet."""
    reasons = [dict(one) for one in CONTRACT["reason"]]
    names = {one["name"]: one for one in reasons}
    assert len(names) == len(reasons), "two reasons have one name"
    for counter in CARD["counter"]:
        if counter["kind"] == "verdict" or counter["name"] == "tx_length":
            known = names.get(counter["driver"])
            if known:
                known["card"] = "dropped"
            else:
                reasons.append({"name": counter["driver"], "card": "dropped", "text": counter["text"], "do": "See hero/README.md."})
    for one in reasons:
        assert any(who in one for who in COUNTED), f"nobody counts {one['name']}"
        assert all(one.get(who, "passed") in FATES for who in COUNTED), one["name"]
    return sorted(reasons, key=lambda one: FATES.index(one["program"]) if "program" in one else len(FATES))


REASONS = all_reasons()
OF_PROGRAM = [one for one in REASONS if "program" in one]


def size(field):
    """Octets of a field of struct bora_port, and its alignment."""
    if "octets" in field:
        return field["octets"], 1
    octets = SIZES.get(field["type"], 1)
    return octets, octets


def layout():
    """(field, offset) of struct bora_port, and its size."""
    fields, offset = [], 0
    for field in PORT:
        octets, align = size(field)
        assert offset % align == 0, f"{field['name']} needs padding"
        fields.append((field, offset))
        offset += octets
    padding = -offset % max(size(field)[1] for field in PORT)
    return fields, offset + padding


def port_flags():
    return next(flags for flags in FLAGS if flags["name"] == "port_flags")


def camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


def lines(*each):
    return "\n".join(each) + "\n"


def c():
    def constant(one):
        suffix = "ull" if one["type"] == "u64" else ""
        value = f"{one['value']:#x}" if one["value"] > 0xFFFFFF and not suffix else str(one["value"])
        return f"#define BORA_{one['name']} {value}{suffix} /* {one['text']} */"

    def values(prefix, entries, value):
        return (f"\tBORA_{prefix}_{one['name'].upper()} = {value(number)}, /* {one['text']} */" for number, one in enumerate(entries))

    def enums():
        for one in ENUMS.values():
            yield from ("", f"/* {one['text']} */", f"enum bora_{one['name']} {{", *values(one["name"].upper(), one["values"], str), "};")
        for one in FLAGS:
            yield from ("", f"enum bora_{one['name']} {{", *values(one["prefix"], one["bits"], lambda bit: f"1 << {bit}"), "};")

    def field(one):
        kind = one.get("type", "u8")
        array = f"[{one['octets']}]" if "octets" in one else ""
        return f"\t__{kind if kind in SIZES else 'u8'} {one['name']}{array}; /* {one['text']} */"

    first = {fate: next(one["name"].upper() for one in OF_PROGRAM if one["program"] == fate) for fate in FATES}
    return lines(
        "/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */",
        f"/* {NOTE} */",
        "#ifndef BORA_CONTRACT_H",
        "#define BORA_CONTRACT_H",
        "",
        *map(constant, CONSTANTS),
        *enums(),
        "",
        "/* One port. Written by the control side. */",
        "struct bora_port {",
        *map(field, PORT),
        "};",
        f'_Static_assert(sizeof(struct bora_port) == {layout()[1]}, "struct bora_port has another layout than in Rust");',
        "",
        "/* Why a packet did not take the fast way: passed to Linux, passed within a budget, dropped. */",
        "enum bora_reason {",
        *(f"\tBORA_{one['name'].upper()}, /* {one['program']}: {one['text']} */" for one in OF_PROGRAM),
        "\tBORA_REASONS,",
        "};",
        f"#define BORA_FIRST_BUDGET BORA_{first['budget']}",
        f"#define BORA_FIRST_DROP BORA_{first['dropped']}",
        "",
        "#endif",
    )


def grouped(number):
    """A number with Rust's digit separators."""
    return f"0x{number >> 16:04X}_{number & 0xFFFF:04X}" if number > 0xFFFFFF else f"{number:_}"


def variants(names):
    """A pattern of variants, for matches!."""
    return "\n                | ".join(f"Self::{camel(name)}" for name in names)


def rust():
    def enum(one):
        yield from ("", f"/// {one['text']}", "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]", "#[repr(u8)]")
        yield f"pub enum {camel(one['name'])} {{"
        for number, value in enumerate(one["values"]):
            yield f"    /// {value['text']}"
            if number == 0:
                yield "    #[default]"
            yield f"    {camel(value['name'])},"
        yield "}"

    def flags(one):
        width = next(width for width, bits in (("u8", 8), ("u16", 16), ("u32", 32)) if len(one["bits"]) <= bits)
        yield ""
        for bit, flag in enumerate(one["bits"]):
            yield f"/// {flag['text']}"
            yield f"pub const {one['prefix']}_{flag['name'].upper()}: {width} = 1 << {bit};"

    def field(one):
        kind = f"[u8; {one['octets']}]" if "octets" in one else one["type"]
        return f"    /// {one['text']}\n    pub {one['name']}: {kind if kind not in ENUMS else camel(kind)},"

    def octets(one, offset):
        name, (length, _) = one["name"], size(one)
        if name == "flags":
            source = "flags.to_ne_bytes()"
        elif "octets" in one:
            source = f"self.{name}"
        elif one["type"] in ENUMS:
            source = f"[self.{name} as u8]"
        else:
            source = f"self.{name}.to_ne_bytes()"
        return f"        bytes[{offset}..{offset + length}].copy_from_slice(&{source});"

    def text_of(function, key, meaning):
        yield f"    /// {meaning}"
        yield f"    pub const fn {function}(self) -> &'static str {{"
        yield "        match self {"
        yield from (f"            Self::{camel(one['name'])} => {json.dumps(one[key], ensure_ascii=False)}," for one in REASONS)
        yield from ("        }", "    }", "")

    def drops(who):
        return variants(one["name"] for one in REASONS if one.get(who) == "dropped")

    def may(name, what, fates):
        names = (one["name"] for one in REASONS if any(one.get(who) in fates for who in COUNTED))
        yield f"    /// Whether packets may {what} for this reason."
        yield f"    pub const fn may_{name}(self) -> bool {{"
        yield from ("        matches!(", "            self,", "            " + variants(names), "        )", "    }", "")

    settings, (fields, length) = port_flags()["bits"], layout()
    width = next(one["type"] for one in PORT if one["name"] == "flags")
    return lines(
        f"//! {NOTE}",
        "",
        *(f"/// {one['text']}\npub const {one['name']}: {one['type']} = {grouped(one['value'])};" for one in CONSTANTS),
        *(line for one in ENUMS.values() for line in enum(one)),
        *(line for one in FLAGS if one is not port_flags() for line in flags(one)),
        "",
        "/// The settings of a port: `struct bora_port` of the XDP program, and what the engine knows of it.",
        "#[derive(Clone, Debug, Default, PartialEq, Eq)]",
        "pub struct PortSettings {",
        *(field(one) for one in PORT if one["name"] != "flags"),
        *(f"    /// {one['text']}\n    pub {one['name']}: bool," for one in settings),
        "}",
        "",
        "impl PortSettings {",
        "    /// Its octets, as the program reads them.",
        f"    pub fn to_bytes(&self) -> [u8; {length}] {{",
        "        let flags = [",
        *(f"            self.{one['name']}," for one in settings),
        "        ];",
        f"        let flags = flags.iter().rev().fold(0, |bits, &flag| bits << 1 | {width}::from(flag));",
        f"        let mut bytes = [0; {length}];",
        *(octets(one, offset) for one, offset in fields),
        "        bytes",
        "    }",
        "}",
        "",
        "/// Why a packet does not simply leave: docs/reasons.md. The first [`Reason::OF_PROGRAM`] are those that the",
        "/// XDP program counts, with the same numbers.",
        "#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]",
        "#[repr(u8)]",
        "pub enum Reason {",
        *(f"    /// {one['text']}\n    {camel(one['name'])}," for one in REASONS),
        "}",
        "",
        "impl Reason {",
        "    /// All of them, by number.",
        f"    pub const ALL: [Self; {len(REASONS)}] = [",
        *(f"        Self::{camel(one['name'])}," for one in REASONS),
        "    ];",
        "    /// How many there are.",
        "    pub const COUNT: usize = Self::ALL.len();",
        "    /// How many the XDP program counts.",
        f"    pub const OF_PROGRAM: usize = {len(OF_PROGRAM)};",
        "",
        "    /// Its name in counters, reports and docs/reasons.md.",
        "    pub const fn name(self) -> &'static str {",
        "        match self {",
        *(f"            Self::{camel(one['name'])} => \"{one['name']}\"," for one in REASONS),
        "        }",
        "    }",
        "",
        *text_of("meaning", "text", "What it means, in a sentence."),
        *text_of("cure", "do", "What an operator does about it."),
        "    /// Whether Linux answers or drops such packets, so that there is a budget for what goes there. The rest is",
        "    /// Linux's own traffic, or traffic that Linux forwards.",
        "    pub const fn has_budget(self) -> bool {",
        "        matches!(",
        "            self,",
        "            " + variants(one["name"] for one in REASONS if "budget" in one.values()),
        "        )",
        "    }",
        "",
        *may("pass", "go to Linux", ("passed", "budget")),
        *may("drop", "be dropped", ("dropped",)),
        "    /// Whether the program drops such packets; it passes the others to Linux.",
        "    pub const fn is_drop_of_program(self) -> bool {",
        "        matches!(",
        "            self,",
        "            " + drops("program"),
        "        )",
        "    }",
        "}",
    )


def markdown():
    words = {"passed": "to Linux", "budget": "to Linux, within a budget", "dropped": "dropped"}

    def row(one):
        cells = [words[one[who]] if who in one else "" for who in ("program", "engine")]
        other = " and ".join(who for who in ("socket", "card") if who in one)
        cells.append(f"dropped ({other})" if other else "")
        return f"| `{one['name']}` | {' | '.join(cells)} | {one['text']} | {one['do']} |"

    return lines(
        "# Reasons",
        "",
        f"<!-- {NOTE} -->",
        "",
        "Every packet that comes in leaves by a port, goes to Linux, or is dropped. Those that do not leave have one of these",
        "reasons. `bora show drops` lists them for the whole router; `passed_by_reason` and `dropped_by_reason` in",
        "`bora show ports --json` list them for each port, and a packet is counted at the port it came in by. What waited for an",
        "output, or was lost behind it, is counted at the output. `received = sent + to Linux + dropped + held` holds for the whole",
        "router once nothing moves; `received` counts what Linux sends by the ports' twins too.",
        "",
        "| name | XDP program | engine | behind or in front of the engine | what it means | what to do |",
        "| --- | --- | --- | --- | --- | --- |",
        *map(row, sorted(REASONS, key=lambda one: one["name"])),
        "",
        "A memif peer does not report what it drops for lack of room. What Linux sends by a twin or a TAP port faster than Bora",
        "takes it is counted by Linux: `TX: dropped` in `ip -s link show NAME`.",
    )


def files():
    """{path: text} of all generated files."""
    return {
        HERE / "src" / "generated.rs": rust(),
        ROOT / "router/xdp/bpf/contract.h": c(),
        ROOT / "docs" / "reasons.md": markdown(),
    }


def main():
    if "--check" not in sys.argv:
        for path, text in files().items():
            path.write_text(text)
        return
    stale = [path for path, text in files().items() if not path.exists() or path.read_text() != text]
    if stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"out of date with contract.toml: {names}; run router/contract/generate.py")


if __name__ == "__main__":
    main()
