"""Meta of a received frame: its fields by the offsets of hero_pkg.sv, read from there."""

import re

from run import HERO

WIDTHS = {"LEN": 16, "TTL": 8, "TOS": 8, "PROTO": 8, "SRC": 32, "DST": 32, "DMAC": 48, "DST6": 64}
OFFSETS = {name: int(value) for name, value in
           re.findall(r"META_(\w+) = (\d+);", (HERO / "rtl" / "hero_pkg.sv").read_text()) if name != "W"}


def unpack(value):
    """A meta vector as {name: number}."""
    return {name: value >> at & (1 << WIDTHS.get(name, 1)) - 1 for name, at in OFFSETS.items()}


def pack(**fields):
    """{name: number} as a vector; what is not named is 0. KeyError: no such field."""
    value = 0
    for name, number in fields.items():
        assert 0 <= number < 1 << WIDTHS.get(name, 1), f"{name} = {number}"
        value |= int(number) << OFFSETS[name]
    return value
