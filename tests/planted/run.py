"""Plants faults in Bora's source, one at a time, and looks whether the fuzzer of configurations or `bora prove`, which it calls, finds each.

    python3 tests/planted/run.py [NAME ...]      all faults by default (tests/planted/*.py)
    --seconds S      how long to look for one (600)
    --missing        those only that no run has found yet
    --document       writes the table of docs/reliability.md

A fault is found if a life of the fuzzer differs from Linux alone, differs again, and does not differ with the binary without the
fault. The lives are the same for all, the tiers in turn; the chapter
that is about the fault's matter comes first. Results are kept in target/planted/results.json.
"""

import argparse
import concurrent.futures
import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fuzz-router"), str(HERE.parent)]

import faults  # noqa: E402
import chapters  # noqa: E402
import features  # noqa: E402
import generate  # noqa: E402
import policies  # noqa: E402, F401 (its topics are added by that)
from lib import netns  # noqa: E402
from lives import Finding, Stopped, live  # noqa: E402

ROOT = HERE.parents[1]
TARGET = ROOT / "target/planted"
RESULTS, ORIGINAL, HEALTHY = TARGET / "results.json", TARGET / "original.json", TARGET / "healthy"
DOCUMENT, BEGIN, END = ROOT / "docs/reliability.md", "<!-- planted faults: make planted -->", "<!-- end of planted faults -->"
STOP, STOPPED = TARGET / "stop", "stopped"
TIERS = ("engine", "express")
JOBS = 2  # lives at a time: they mostly wait


def build(binary):
    """Builds Bora, and copies it; returns None or why it cannot be built."""
    done = subprocess.run(["cargo", "build", "-q", "-p", "bora"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        shutil.copy(ROOT / "target/debug/bora", binary)
        return None
    return next((line for line in done.stderr.splitlines() if "error" in line), "cargo failed")


def restore():
    """Undoes a change of the source, also one of a run that was killed."""
    if ORIGINAL.exists():
        name, text = json.loads(ORIGINAL.read_text())
        Path(name).write_text(text)
        ORIGINAL.unlink()


def plant(fault):
    """Builds Bora with a fault; the source is as before when it returns. (binary, None), or (None, why not)."""
    path, binary = faults.ROUTER / fault.file, TARGET / f"bora-{fault.name}"
    if faults.places(fault) != 1:
        return None, f"its text is {faults.places(fault)} times in {fault.file}, not once"
    text = path.read_text()
    try:
        ORIGINAL.write_text(json.dumps((str(path), text)))
        path.write_text(text.replace(fault.old, fault.new))
        why = build(binary)
    finally:
        restore()
    return (None, why) if why else (binary, None)


def lives(fault, known):
    """First the chapters, the fault's own before the others, and then seeds; the tiers in turn, the engine with ports of kind tap, too."""
    order = sorted(range(len(chapters.ALL)), key=lambda number: chapters.ALL[number].__name__ != fault.chapter)
    for number in order:
        for tier, taps in (*((tier, ()) for tier in TIERS), ("engine", (0,))):
            yield chapters.life(number, tier, taps)
    for seed in itertools.count(1):
        yield generate.life(seed, TIERS[seed // 2 % len(TIERS)], known)


def try_one(case, binary, until):
    """What a life with a binary finds, in a process of its own: None, STOPPED, or (step, by, text)."""
    os.environ["BORA"] = str(binary)
    try:
        live(case, lambda: time.monotonic() > until or STOP.exists())
    except Stopped:
        return STOPPED
    except Finding as finding:
        return finding.step, finding.by, str(finding)
    return None


def look(pool, binary, cases, until):
    """Lives until one finds the fault; what found it, or None."""
    running = {}
    while time.monotonic() < until:
        while len(running) < JOBS:
            case = next(cases)
            running[pool.submit(try_one, case, binary, until)] = case
        for one in concurrent.futures.wait(running, None, concurrent.futures.FIRST_COMPLETED).done:
            case = running.pop(one)
            if one.result() in (None, STOPPED):
                continue
            STOP.touch()  # a place for those that confirm it
            stopped = [other for future, other in running.items() if future.result() == STOPPED]
            STOP.unlink()
            running.clear()
            found = confirmed(pool, binary, case, *one.result())
            if found:
                return found
            cases = itertools.chain(stopped, cases)
            break
    concurrent.futures.wait(running)
    return None


def confirmed(pool, binary, case, step, by, text):
    """What was found, if it comes again, and not without the fault; both are tried at the same time."""
    small = {**case, "steps": case["steps"][:step + 1]}
    again, healthy = (pool.submit(try_one, small, one, math.inf) for one in (binary, HEALTHY))
    if again.result() is None or healthy.result() is not None:
        return None
    return {"by": sorted({*by, *again.result()[1]}), "seed": case["seed"], "tier": case["tier"], "shows": text[:600]}


def document(results):
    """Writes the table."""
    rows = ["| fault | file | what it breaks | found by | after, s |", "| --- | --- | --- | --- | --- |"]
    for fault in faults.chosen([]):
        result = results.get(fault.name, {"by": ["not tried"], "seconds": ""})
        rows.append(f"| `{fault.name}` | `{fault.file}` | {fault.breaks} | {', '.join(result['by'])} | {result['seconds']} |")
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(f"{before}{BEGIN}\n" + "\n".join(rows) + f"\n{END}{after}")


def run(chosen, seconds, results):
    """Looks for each fault; while it does, the next one is built."""
    known = features.probe()
    with concurrent.futures.ThreadPoolExecutor(1) as builder, concurrent.futures.ProcessPoolExecutor(JOBS) as pool:
        following = builder.submit(plant, chosen[0])
        for at, fault in enumerate(chosen):
            binary, why = following.result()
            if at + 1 < len(chosen):
                following = builder.submit(plant, chosen[at + 1])
            begin = time.monotonic()
            found = look(pool, binary, lives(fault, known), begin + seconds) if binary else {"by": [f"not built: {why}"]}
            took = round(time.monotonic() - begin)
            results[fault.name] = {**(found or {"by": ["nothing"]}), "seconds": took, "found": bool(found and binary)}
            RESULTS.write_text(json.dumps(results, indent=1))
            print(f"{time.strftime('%H:%M:%S')} {fault.name} ({fault.breaks}): {results[fault.name]}", flush=True)
            if binary:
                binary.unlink()


def is_found(result):
    """Whether a fault was found."""
    return result is not None and result["found"]


def main():
    """Exit code 1 if a fault is not found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--document", action="store_true")
    arguments = parser.parse_args()
    TARGET.mkdir(parents=True, exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if arguments.document:
        return document(results)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    restore()
    STOP.unlink(missing_ok=True)
    netns.remove_leftovers()
    why = build(HEALTHY)
    if why:
        sys.exit(f"Bora without a fault: {why}")
    chosen = [fault for fault in faults.chosen(arguments.name) if not (arguments.missing and is_found(results.get(fault.name)))]
    if chosen:
        run(chosen, arguments.seconds, results)
    missing = [fault.name for fault in chosen if not is_found(results[fault.name])]
    print(f"{len(chosen) - len(missing)} of {len(chosen)} faults were found; not: {', '.join(missing) or 'none'}")
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
