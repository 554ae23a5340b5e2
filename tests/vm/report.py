"""Writes docs/machines.md: tables of what works on which kernel, card and tier, also with VLANs, and of what events cost.

All are keyed by their first three columns; a run replaces the rows of its cells and leaves the others."""

import json
import re
from pathlib import Path

from vm import kernels, machine

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/machines.md"
RESULTS = kernels.CACHE / "results"
KEY = ("kernel", "card", "tier")
WORKS = (*KEY, "program", "sockets", "queues", "to Linux", "TCP", "passed", "what not, and why")
VLANS = (*KEY, "passed", "Bora sent", "to Linux", "TCP", "what not, and why")
COSTS = (*KEY, "start", "kill -9", "restart", "SIGTERM", "`bora stop --detach`")
EVENTS = ("start", "kill -9", "restart", "SIGTERM", "stop")
REASON_CHARACTERS = 200
VLAN_PREFIX = "VLAN: "  # prefix of the names of checks
TEXT = """# Machines

`make test-vm` writes this page. It runs Bora on Debian's kernels in QEMU, with emulated cards and the kernel's own drivers.
There is one row for each kernel, card and tier; `auto` is followed by the tier that `--path auto` chose. `linux` is the kernel
alone, which must pass the same checks. The guests run without hardware virtualisation, so look at behaviour here, not at
speed. [tests/README.md](../tests/README.md) says what the checks are and how to run one of them.

## What works

*program*: XDP in the driver or generic. *sockets*: AF_XDP of the engine. *to Linux*: how many of 60 plain transit packets,
and which part of the TCP packets between two Linux hosts, Bora left to Linux, with the reasons for the latter.
*TCP*: MB that arrived intact, IPv4 / IPv6.

{works}

## VLANs

The cases of `tests/vm/vlan_cases.py`: VLAN devices of Linux on both ports (802.1Q, 802.1ad, QinQ). With Bora, the same frames must come
out as with Linux alone. *Bora sent*, *to Linux*: packets of all cases, many of which are meant for Linux. On ports with generic XDP
all of them are Linux's. *TCP*: MB that arrived intact between Linux hosts with VLAN devices, in four runs.

{vlans}

## What events cost

A stream of 200 packets a second runs during each event. The table has the packets lost, the longest time without a packet,
and for how long a port of the router had no link. The stream also pauses without an event: the longest pause before it is
in brackets.

{costs}
"""


def save(cells):
    """Writes one JSON file for each cell, in target/vm/results."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        path = RESULTS / f"{cell['series']}-{cell['card']}-{cell['tier']}.json"
        path.write_text(json.dumps(cell, indent=1) + "\n")


def update(cells, whole, only_vlans=False):
    """Replaces the rows of `cells` in the document; with `whole`, also removes other rows of their cards. `only_vlans`: only in
    the table of VLANs."""
    old = DOCUMENT.read_text() if DOCUMENT.exists() else ""
    works, vlans, costs = _rows(old, WORKS), _rows(old, VLANS), _rows(old, COSTS)
    for cell in cells:
        for rows in (vlans,) if only_vlans else (works, vlans, costs):
            for other in [other for other in rows if whole and _same_card(other, _key(cell))]:
                del rows[other]
    for cell in cells:
        key = _key(cell)
        if any(_of_vlans(check) for check in cell["checks"]):
            vlans[key] = _vlans(cell)
        if only_vlans:
            continue
        works[key] = _works(cell)
        if any(_detail(cell, name) for name in ("start", "restarts")):
            costs[key] = _costs(cell)
    tables = {"works": _table(WORKS, works), "vlans": _table(VLANS, vlans), "costs": _table(COSTS, costs)}
    DOCUMENT.write_text(TEXT.format(**tables))


def _series(version):
    return tuple(int(part) for part in version.split(".")[:2])


def _name(version):
    """The series of a kernel version, whose rows replace each other. Everything from 7 on is one series."""
    number = _series(version)
    return number if number < (7, 0) else (7, 0)


def _same_card(left, right):
    return _name(left[0]) == _name(right[0]) and left[1] == right[1]


def _key(cell):
    tier = cell["tier"]
    if tier == "auto":
        paths = sorted({port["path"] for port in cell.get("ports", {}).values()})
        tier = f"auto: {', '.join(paths)}" if paths else "auto"
    return cell["kernel"], cell["card"], tier


def _check(cell, name):
    return next((check for check in cell["checks"] if check["check"] == name), None)


def _detail(cell, name):
    return (_check(cell, name) or {}).get("detail")


def _works(cell):
    ports = list(cell.get("ports", {}).values())
    each = [", ".join(sorted({str(port[key]) for port in ports})) or "-" for key in ("xdp", "af_xdp", "queues")]
    passed, why = _outcome([check for check in cell["checks"] if not _of_vlans(check)])
    return [*each, _to_linux(cell), _tcp(cell), passed, why]


def _of_vlans(check):
    return check["check"].startswith(VLAN_PREFIX)


def _outcome(checks):
    """How many have passed, and why others have not."""
    reasons = {}
    for check in checks:
        if not check["ok"]:
            reasons.setdefault(short(check["reason"]), []).append(check["check"].removeprefix(VLAN_PREFIX))
    why = "; ".join(f"**{', '.join(names)}**: {reason}" for reason, names in reasons.items())
    return f"{sum(check['ok'] for check in checks)} of {len(checks)}", why or "-"


def _vlans(cell):
    checks = [check for check in cell["checks"] if _of_vlans(check)]
    passed, why = _outcome(checks)
    details = [check.get("detail") for check in checks]
    counted = [detail for detail in details if isinstance(detail, dict) and "sent" in detail]
    sums = [str(sum(detail[key] for detail in counted)) if counted else "-" for key in ("sent", "to_linux")]
    tcp = _detail(cell, VLAN_PREFIX + "TCP") or {}
    octets = sum(one["octets"] for one in tcp.values()) / 1e6
    return [passed, *sums, f"{octets:.0f}" if tcp else "-", why]


def short(reason):
    """A reason, shortened to one line."""
    text = " ".join(reason.split()).replace("|", "/").removeprefix("AssertionError: ")
    return text if len(text) <= REASON_CHARACTERS else text[:REASON_CHARACTERS] + " …"


def _to_linux(cell):
    transit, tcp = _detail(cell, "transit"), _detail(cell, "TCP")
    parts = [str(transit["to_linux"])] if isinstance(transit, dict) else []
    if tcp:
        share = 100 * tcp["to_linux"] / max(1, tcp["received"])
        reasons = ", ".join(sorted(tcp["reasons"], key=tcp["reasons"].get, reverse=True)[:2])
        parts.append(f"TCP {share:.0f} % ({reasons})" if share >= 1 else "TCP 0 %")
    return ", ".join(parts) or "-"


def _tcp(cell):
    tcp = _detail(cell, "TCP")
    return " / ".join(f"{tcp[name]['octets'] / 1e6:.0f}" for name in ("IPv4", "IPv6")) if tcp else "-"


def _costs(cell):
    found = {**(_detail(cell, "start") or {}), **(_detail(cell, "restarts") or {})}
    return [_cost(found.get(name)) for name in EVENTS]


def _cost(outage):
    if outage is None:
        return "-"
    link = f", no link {outage['link_down']} ms" if outage["link_down"] else ""
    return f"{outage['lost']} lost, {outage['silence']} ms ({outage['usual']}){link}"


# Tables in Markdown.


def _rows(text, columns):
    """The rows under the given heading, by key."""
    rows, inside = {}, False
    for line in text.splitlines():
        parts = [part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]]
        if parts == list(columns):
            inside = True
        elif not parts:
            inside = False
        elif inside and not set(parts[0]) <= {"-", " "}:
            rows[tuple(parts[:3])] = parts[3:]
    return rows


def _order(key):
    kinds, tiers = list(machine.CARDS), ["linux", "auto", "express", "engine"]
    tier = next((number for number, name in enumerate(tiers) if key[2].startswith(name)), len(tiers))
    return _series(key[0]), kinds.index(key[1]) if key[1] in kinds else len(kinds), tier


def _table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join([*key, *rows[key]]) + " |" for key in sorted(rows, key=_order)]
    return "\n".join(lines)
