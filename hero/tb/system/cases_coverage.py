"""The last case of a run: the earlier cases must have exercised every register, event and counter."""

import os

import cocotb
from golden import registers as reg
from system_bench import COVERAGE

READABLE = set(range(reg.COUNT))


def table():
    """Rows of (what, name, seen)."""
    written = reg.READ_WRITE | reg.WRITE_ONLY | {reg.DROP_CNT}
    for kind, numbers in (("written", written), ("read", READABLE)):
        for number in sorted(numbers):
            yield f"register {kind}", reg.NAMES[number], number in COVERAGE[kind]
    for bit in range(8):
        yield "event", f"IRQ_UNMASKED bit {bit}", bit in COVERAGE["events"]
    for name in reg.COUNTERS:
        yield "drop" if name in reg.DROPS else "counter", name, name in COVERAGE["counters"]


@cocotb.test()
async def everything_was_seen(dut):
    rows = list(table())
    lines = [f"{kind:16} {name:20} {'seen' if seen else 'NEVER'}" for kind, name, seen in rows]
    with open(os.environ["HERO_COVERAGE"], "w") as file:
        file.write("\n".join(lines) + "\n")
    never = [f"{kind} {name}" for kind, name, seen in rows if not seen]
    assert not never, f"never seen: {', '.join(never)}"
