"""Bora in guests: kernels from Debian's archive, emulated cards, both tiers.

    python3 tests/vm/run.py                                    # everything, and docs/machines.md
    python3 tests/vm/run.py --kernel newest --card igb         # one cell: its rows of docs/machines.md are replaced
    python3 tests/vm/run.py --short                            # two kernels, three cards, fewer checks
    python3 tests/vm/run.py --quick                            # what `make test` runs: a card on each of two kernels
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lib.bora import binary  # noqa: E402
from vm import kernels, machine, report  # noqa: E402

TIERS = ("auto", "express", "engine")  # the one that auto chooses is not run again
GUEST = Path(__file__).with_name("guest.py")
FOLDER = machine.RUNS
TIER_SECONDS, VLAN_SECONDS, FLOW_SECONDS = 800, 800, 800  # an idle machine needs a tenth
# One guest each. Auto takes express on virtio, and the engine with zero-copy on igb.
SHORT = {"6.1": {"veth": ("engine",), "virtio": ("auto",)}, "newest": {"igb": ("auto",)}}
QUICK = {"6.1": {"virtio": ("auto",)}, "newest": {"igb": ("auto",)}}
# The cards where VLAN devices are tested.
VLANS = {"6.1": ("veth",), "6.12": ("veth",), "newest": ("veth", "virtio", "igb")}
# The cards where flows are tested, and those of short runs.
FLOWS = {"6.1": ("veth",), "6.12": ("veth",), "newest": ("veth", "igb")}
SHORT_FLOWS = {"6.1": (), "newest": ("igb",)}


def options():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", action="append", choices=kernels.SERIES, help="may be given several times")
    parser.add_argument("--card", action="append", choices=machine.CARDS, help="may be given several times")
    parser.add_argument("--tier", action="append", choices=TIERS, help="may be given several times")
    parser.add_argument("--tcp-minutes", type=float, default=0.05, help="of TCP in each direction (default: 0.05)")
    parser.add_argument("--append", default="", help="more for the kernel's command line, such as apparmor=0")
    parser.add_argument("--refresh", action="store_true", help="ask the archive for newer kernels now")
    parser.add_argument("--vlans", action="store_true", help="only what is about VLAN devices")
    parser.add_argument("--flows", action="store_true", help="only what is about flows of a stateful firewall")
    parser.add_argument("--short", action="store_true", help="few checks, a guest with its cards on each of two kernels")
    parser.add_argument("--quick", action="store_true", help="the same with one card each, without VLAN devices and flows")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/machines.md alone")
    arguments = parser.parse_args()
    arguments.short |= arguments.quick
    if arguments.short and (arguments.kernel or arguments.card or arguments.tier):
        parser.error("--short and --quick have their own kernels, cards and tiers")
    return arguments


def of_vlans(kernel, arguments):
    """The cards where VLAN devices are tested."""
    return () if arguments.flows or arguments.quick else VLANS[kernel.series]


def of_flows(kernel, arguments):
    """The cards where flows are tested."""
    if arguments.vlans or arguments.quick:
        return ()
    return (SHORT_FLOWS if arguments.short else FLOWS)[kernel.series]


def run_guest(kernel, tiers, arguments):
    """Runs one guest with `tiers` by kind of card; returns its results and, if it did not finish, why."""
    kinds = list(tiers)
    shared = FOLDER / f"{kernel.series}-{'+'.join(kinds)}"
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    tcp_seconds = 1 if arguments.short else 60 * arguments.tcp_minutes
    task = {"kinds": kinds, "tiers": tiers, "tcp_seconds": tcp_seconds, "short": arguments.short,
            "vlans": of_vlans(kernel, arguments), "flows": of_flows(kernel, arguments),
            "only": arguments.vlans or arguments.flows, "results": str(shared / "results")}
    subprocess.run(["strip", "-o", shared / "bora", binary()], check=True)
    command = ["env", "PYTHONDONTWRITEBYTECODE=1", f"BORA={shared / 'bora'}", "/usr/bin/python3", str(GUEST), json.dumps(task)]
    limit = sum(map(len, tiers.values())) * (TIER_SECONDS + 4 * tcp_seconds)
    for part, seconds in (("vlans", VLAN_SECONDS), ("flows", FLOW_SECONDS)):
        limit += seconds * sum(1 + len(tiers[kind]) for kind in kinds if kind in task[part])
    _, why = machine.run(kernel, kinds, command, shared, limit, arguments.append)
    lines = read(shared / "results")
    if lines and lines[-1].get("finished"):
        return lines, None
    tail = (shared / "console.txt").read_text(errors="replace").strip()[-1500:]
    return lines, f"{why or 'the guest ended early'}; its console: {tail}"


def read(path):
    """The complete lines of a file."""
    lines = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def cells(kernel, kinds, lines, trouble):
    """The results of a guest as one dictionary for each kind and tier."""
    made = {}
    for line in lines:
        if "kind" in line:
            cell = made.setdefault((line["kind"], line["tier"]), {
                "series": kernel.series, "kernel": kernel.version, "card": line["kind"], "tier": line["tier"],
                "checks": []})
            if "check" in line:
                cell["checks"].append({key: line[key] for key in line if key not in ("kind", "tier")})
            cell.update({key: line[key] for key in ("log", "ports") if key in line})
    if trouble:
        last = list(made.values())[-1] if made else made.setdefault((kinds[0], "linux"), {
            "series": kernel.series, "kernel": kernel.version, "card": kinds[0], "tier": "linux", "checks": []})
        last["checks"].append({"check": "guest", "ok": False, "reason": trouble})
    return list(made.values())


def say(cell):
    """Prints a line for a cell, and one for each failure."""
    failed = [check for check in cell["checks"] if not check["ok"]]
    name = f"{cell['kernel']} {cell['card']} {cell['tier']}"
    print(f"{name}: {len(cell['checks']) - len(failed)} passed, {len(failed)} failed", flush=True)
    for check in failed:
        print(f"FAILED {name}: {check['check']} - {report.short(check['reason'])}", flush=True)
    return len(cell["checks"]) - len(failed), len(failed)


def main():
    """Runs the requested cells; exit code 1 if a check failed."""
    arguments = options()
    if os.geteuid() != 0:
        sys.exit("guests need network namespaces: run this as root")
    started, passed, failed = time.monotonic(), 0, 0
    if arguments.short:
        guests = [(kernels.get(name, arguments.refresh), tiers) for name, tiers in (QUICK if arguments.quick else SHORT).items()]
    else:
        found = [kernels.get(name, arguments.refresh) for name in arguments.kernel or kernels.SERIES]
        guests = [(kernel, {kind: arguments.tier or TIERS}) for kernel in found
                  for kind in arguments.card or (VLANS[kernel.series] if arguments.vlans else
                                                 FLOWS[kernel.series] if arguments.flows else machine.CARDS)]
    # One after the other: two guests of two emulated CPUs each take longer side by side on two CPUs.
    for kernel, tiers in guests:
        results = cells(kernel, list(tiers), *run_guest(kernel, tiers, arguments))
        for cell in results:
            good, bad = say(cell)
            passed, failed = passed + good, failed + bad
        if not arguments.short and not arguments.no_docs and not arguments.flows:
            report.save(results)
            report.update(results, arguments.tier is None, arguments.vlans)
    outcome = f"{failed} failed, {passed} passed" if failed else f"{passed} passed"
    print(f"{outcome} in {time.monotonic() - started:.0f}s")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    try:
        main()
    except (kernels.ArchiveError, machine.GuestError, FileNotFoundError) as error:
        sys.exit(str(error))
