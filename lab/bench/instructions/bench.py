"""Instructions a packet of the kernel, xdp-forward and express in a guest, beside a table that is kept; see docs/bench-instructions.md."""

import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import guest  # noqa: E402

TABLE = Path(__file__).with_name("table.json")
RELEASE, DEBUG = (guest.ROOT / f"target/{profile}/bench-instructions" for profile in ("release", "debug"))
MOST = 1.01  # times what the table says
SECONDS = 1500


def medians(rows):
    """What programs take, by case and subject; the whole way has timers and other work of the guest in it."""
    return {f"{row['case']}; {row['subject']}": round(row["median"]) for row in rows if row["metric"] == "program"}


def compiler():
    """The compiler of the XDP program, which decides how many instructions it has: `clang 19`."""
    text = subprocess.run(["clang", "--version"], capture_output=True, text=True, check=True).stdout
    return "clang " + re.search(r"version (\d+)", text)[1]


def worse(found, table):
    """Lines about what takes more instructions than the table says, or is not in it."""
    lines = []
    for name, count in found.items():
        if name not in table:
            lines.append(f"{name}: {count} instructions, and nothing in the table")
        elif count > MOST * table[name]:
            lines.append(f"{name}: {count} instructions a packet, {table[name]} in the table")
    return lines


def main():
    """Measures in a guest; exit code 1 if express takes 1 % more than the table says."""
    parser = guest.parser(__doc__)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="express alone, as built for tests; and only if it takes no more than the table says")
    how.add_argument("--write", action="store_true", help="write the table anew; the commit says why it is another one")
    parser.set_defaults(kernel="6.12")
    arguments, options = parser.parse_known_args()
    kernel = guest.kernels.get(arguments.kernel)
    options += ["--only-express"] if arguments.check else []
    bench = guest.Bench("instructions", DEBUG if arguments.check else RELEASE, options, clock=0, seconds=SECONDS)
    print(guest.measure(kernel, bench, with_xdp_forward=not arguments.check))
    found = medians(json.loads((guest.ROOT / "target/bench/instructions.json").read_text()))
    tables, name = json.loads(TABLE.read_text()), f"Linux {kernel.series}, {compiler()}"
    if arguments.write:
        TABLE.write_text(json.dumps({**tables, name: found}, indent=1) + "\n")
        return
    if name not in tables:
        print(f"There is no table of {name} to compare with, but of {'; '.join(tables)}.")
        return
    lines = worse(found, tables[name])
    if arguments.check and lines:
        sys.exit("\n".join([*lines, "If that is meant: make bench-instructions ARGS=--write, and say in the commit what it buys."]))
    print("\n".join(lines))


if __name__ == "__main__":
    guest.main(main)
