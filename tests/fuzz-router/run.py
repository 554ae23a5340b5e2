"""Random configurations of Linux, changes of them and packets: what a router with Bora sends must be what Linux alone sends.

    python3 tests/fuzz-router/run.py [--seed N] [--seconds S] [--tier engine|express|auto]
    python3 tests/fuzz-router/run.py --replay FILE
    python3 tests/fuzz-router/run.py --guest 6.12 --seconds 900
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import features  # noqa: E402
import generate  # noqa: E402
import policies  # noqa: E402, F401 (its topics are added by that)
import shrink  # noqa: E402
from lib import netns  # noqa: E402
from lib.bora import binary  # noqa: E402
from lives import Finding, Stopped, live, load, save, script  # noqa: E402

CASES, FOUND = HERE / "cases", HERE.parents[1] / "target/fuzz-router"
TIERS = ("engine", "express", "auto")
AGAIN = 3  # how often a life is tried again to see whether a difference comes again


class Run:
    """Counts of a run, and what it found."""

    def __init__(self):
        self.lives = self.configurations = self.changes = self.packets = self.frames = 0
        self.found, self.once = [], []

    def count(self, case, steps, frames=0):
        """How many steps a life took, and, if it went to its end, how many frames came out."""
        begun = sum(begin < steps for begin in case.get("begins", [0]))
        self.lives += 1
        self.frames += frames
        self.configurations += begun
        self.changes += steps - begun
        self.packets += sum(len(step["packets"]) for step in case["steps"][:steps])

    def __str__(self):
        return f"{self.lives} lives, {self.configurations} configurations, {self.changes} changes, {self.packets} packets in, {self.frames} frames out"


def say(text):
    """Prints at once."""
    print(text, flush=True)


def replay(paths, tiers, run):
    """The cases that were found before; those of each tier that the case does not name itself."""
    for path in paths:
        case = load(path)
        for tier in [case["tier"]] if case.get("only") else tiers:
            try:
                run.count(case, len(case["steps"]), live({**case, "tier": tier}))
            except Finding as finding:
                say(f"{path.name} ({tier}): {finding}\n{script(case)}")
                run.found.append(path.name)


def examine(case, finding, run, shrink_seconds):
    """A difference has come: does it come again? Then makes the case small."""
    say(f"seed {case['seed']}, tier {case['tier']}, step {finding.step}: {finding}")
    FOUND.mkdir(parents=True, exist_ok=True)
    path = FOUND / f"{case['seed']}-{case['tier']}.json"
    save(path, case)
    small = shrink.confirm(case, finding, AGAIN)
    if small is None:
        say(f"it did not come again in {AGAIN} tries: {path}")
        run.once.append(path.name)
        return
    small, finding = shrink.smaller(small, shrink_seconds)
    save(path, small)
    run.found.append(path.name)
    say(f"{path}, shrunk:\n{script(small)}\n{finding}\n")


def fuzz(seed, seconds, tiers, shrink_seconds, keep_going):
    """Lives of seeds from `seed` on, until the time is over."""
    run, known, begin = Run(), features.probe(), time.monotonic()
    say(f"seed {seed}; this kernel lacks: {', '.join(sorted(set(features.PROBES) - known)) or 'nothing'}")
    replay(sorted(CASES.glob("*.json")), tiers, run)
    end = time.monotonic() + seconds
    while time.monotonic() < end and (keep_going or not run.found):
        case = generate.life(seed, tiers[seed % len(tiers)], known)
        try:
            run.count(case, len(case["steps"]), live(case, lambda: time.monotonic() > end))
        except KeyboardInterrupt:
            break
        except Stopped as stopped:
            run.count(case, stopped.step)
        except Finding as finding:
            run.count(case, finding.step)
            say(f"after {time.monotonic() - begin:.0f} s:")
            examine(case, finding, run, shrink_seconds)
        seed += 1
    say(f"{run}; next seed {seed}; {len(run.found)} found {run.found}; {len(run.once)} came once only {run.once}")
    return run


def in_guest(series, task):
    """Runs in a guest; what it finds is in target/vm/runs. True if that is nothing."""
    from vm import kernels, machine
    seconds = task["seconds"] + 20 * task["shrink_seconds"]
    text, good = machine.run_script(kernels.get(series), HERE / "guest.py", json.dumps(task), binary(), f"fuzz-{series}", seconds)
    say(text)
    return good


def main():
    """Exit code 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="of the first life; default: random")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--tier", choices=TIERS, action="append", help="may be given several times; default: all in turn")
    parser.add_argument("--replay", type=Path, action="append", help="a case instead of random ones")
    parser.add_argument("--shrink-seconds", type=float, default=240, help="at most for each difference")
    parser.add_argument("--taps", type=float, default=0.0, help="the part of the engine's lives with ports of kind tap, 0 to 1")
    parser.add_argument("--guest", metavar="KERNEL", help="in a guest with this kernel (tests/vm/kernels.py): 6.1, 6.12 or newest")
    parser.add_argument("--keep-going", action="store_true", help="go on after a difference")
    arguments = parser.parse_args()
    netns.remove_leftovers()
    tiers = arguments.tier or list(TIERS)
    generate.TAPS[0] = arguments.taps
    if arguments.replay:
        run = Run()
        replay(arguments.replay, tiers, run)
        say(f"{run}; {len(run.found)} found")
        sys.exit(bool(run.found))
    seed = arguments.seed if arguments.seed is not None else random.randrange(1, 10 ** 9)
    task = {"seed": seed, "seconds": arguments.seconds, "tiers": tiers, "shrink_seconds": arguments.shrink_seconds, "keep_going": arguments.keep_going}
    sys.exit(not in_guest(arguments.guest, task) if arguments.guest else bool(fuzz(**task).found))


if __name__ == "__main__":
    main()
