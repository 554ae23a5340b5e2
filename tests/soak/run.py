"""Injects random faults, from a seed, under load, and compares with Linux and the counters: `make soak`.

    python3 tests/soak/run.py                             # 30 minutes, a seed of its own
    python3 tests/soak/run.py --hours 2 --seed 7          # the same steps each time
    python3 tests/soak/run.py --seed 7 --first 120 --steps 1      # one step of them again

Step N is the same for the same seed, whatever steps came before. After each step Bora's routes must agree with Linux,
packets must be forwarded and answered as Linux does, received = sent + passed + dropped + held, the load must have lost
no more than the step may cost, and the process must hold no more than before.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lib import bora, netns  # noqa: E402
from lib.bora import ROOT, Bora, runtime_folder  # noqa: E402
from lib.starved import Starved  # noqa: E402
from lib.topology import Network  # noqa: E402
from lib.traffic import load  # noqa: E402
from soak import clients, fuzz, steps  # noqa: E402
from soak.watch import Watch, left_behind  # noqa: E402

FOLDER = ROOT / "target/soak"
TIERS = ("engine", "express", "engine-2")
STEPS_A_TIER = 25
MEMIF = (f'[[port]]\nname = "m0"\nmac = "02:bc:00:00:00:30"\n'
         f'kind = "memif"\nsocket = "{FOLDER}/memif.sock"\nrole = "server"\n')
API = (f'[api]\nlisten = "127.0.0.1:{clients.API_PORT}"\ncertificate = "{FOLDER}/certificate.pem"\n'
       f'key = "{FOLDER}/key.pem"\n')
RATE = 3000
STRAY = 20  # packets that a busy machine may lose by itself
STARVED_SECONDS = 0.1  # shorter waits for a CPU cost nothing: the rings hold what comes meanwhile
QUIET_SECONDS = 0.1
IN_THE_RINGS = 400  # as in integration/test_kill9.py
START_SECONDS = 90  # the verifier is slow on a busy machine


def options():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--hours", type=float, help="instead of minutes")
    parser.add_argument("--seed", type=int, help="default: from the clock")
    parser.add_argument("--first", type=int, default=0, help="number of the first step")
    parser.add_argument("--steps", type=int, help="end after so many")
    parser.add_argument("--step", help="only steps of this kind, such as kill_9")
    parser.add_argument("--tier", choices=TIERS, help="only this one")
    return parser.parse_args()


class Configuration:
    """Files for `bora apply`."""

    def __init__(self, tier):
        self.tier = tier

    def text(self, ports=("r0", "r1", "r2"), cores=None, budget=None, mode=None, queues="", more=""):
        """The text of a file; without arguments, that of the initial configuration."""
        cores = cores or ([0, 1] if self.tier == "engine-2" else None)
        workers = [f"cores = {cores}"] if cores else []
        workers += [f"budget = {budget}"] if budget else []
        workers += [f'mode = "{mode}"'] if mode else []
        lines = [f'path = "{self.tier.removesuffix("-2")}"', *(["[workers]", *workers] if workers else []), API, more]
        text = "\n".join(lines) + "\n" + "".join(f'[[port]]\nname = "{port}"\n{queues}' for port in ports)
        return text + (MEMIF if self.tier.startswith("engine") else "")


class Soak:
    """One tier's network, for some steps."""

    def __init__(self, tier, seed):
        self.tier, self.seed = tier, seed
        self.net = Network("kernel")
        configuration = Configuration(tier)
        path = FOLDER / "bora.toml"
        path.write_text(configuration.text())
        self.net.bora = Bora(self.net.router, [], None, ["--config", str(path)])
        self.stage = steps.Stage(self.net, configuration, FOLDER)
        self.stage.socket = self.socket
        self.watch = None
        try:
            self.net.bora.start()
            self.net.bora.wait_in_sync(20)
        except BaseException:
            self.net.close()
            raise

    def socket(self):
        """Path of the API's socket."""
        return str(runtime_folder(self.net.router) / "api.sock")

    def step(self, number, only):
        """Makes one step and checks the result; returns its kind and the load's report."""
        rng = random.Random(f"{self.seed}/{number}")
        kind = steps.choose(rng, self.tier)
        if only is not None:
            kind = next(kind for kind in steps.STEPS if kind.__name__ == only)
        print(f"step {number}, {self.tier}: {kind.__name__}", end="", flush=True)
        self.net.begin_behind(rng.randrange(300, 60_000))
        for port in self.net.hosts:
            port.drain()
        starved = Starved(self.net.bora.process.pid)
        with load(self.net, steps.load_frames(self.net), RATE) as traffic:
            time.sleep(0.3)
            act = kind(self.stage, rng)
            next(act)
            time.sleep(0.3)
            report = traffic.finish()
        wait = starved.seconds()
        print(f"; {report}; waited {wait * 1e3:.0f} ms for a CPU", flush=True)
        self.settle()
        list(act)
        self.judge(report, steps.STEPS[kind][0], wait)
        self.settle()
        steps.as_linux(self.net, rng)
        self.net.bora.check_conservation(5)
        self.look()
        return kind, report

    def settle(self):
        """Waits until Bora's routes agree with Linux, packets are forwarded, and late packets have arrived."""
        assert self.net.bora.alive(), f"Bora has ended:\n{self.net.bora.output()[-3000:]}"
        starved = Starved(self.net.bora.process.pid)
        self.net.bora.wait_in_sync(20)
        self.net.wait_until_forwarding(20)
        deadline = time.monotonic() + 10
        while self.net.collect(quiet=QUIET_SECONDS + min(starved.seconds(), 2)):
            assert time.monotonic() < deadline, "frames keep coming"

    def judge(self, report, may, wait):
        """Fails if the load has lost more than the step may cost, and than a busy machine kept from Bora for some seconds."""
        excused = RATE * wait if wait > STARVED_SECONDS else 0
        assert report.duplicated == 0, "packets came twice"
        if may == steps.QUIET:
            fault = "a step that must not disturb the load did"
            assert report.lost <= STRAY + excused and report.reordered <= excused, fault
        if may == steps.HANDS_OVER:
            most = IN_THE_RINGS + excused
            assert report.lost <= most and report.reordered <= most, "more was lost than the rings hold"

    def look(self):
        """The resources that the process holds now."""
        pid = self.net.bora.process.pid
        if self.watch is None or self.watch.pid != pid:
            self.watch = Watch(pid)
        self.stage.holds = self.watch.check()
        output = self.net.bora.output()
        assert "panicked" not in output, output[-3000:]

    def save_evidence(self):
        """Saves Bora's output and counters beside the report."""
        (FOLDER / "bora.log").write_text(self.net.bora.output() if self.net.bora.log else "")
        told = [self.net.router.exec(bora.binary(), "show", what, check=False).stdout
                for what in ("drops", "ports", "classes", "workers", "frames", "sync")]
        (FOLDER / "bora.show").write_text("\n".join(told))

    def close(self):
        """Stops Bora, which must leave nothing behind."""
        try:
            self.net.bora.stop()
            left = left_behind(self.net.router)
            assert not left, f"left behind: {left}"
        finally:
            self.net.close()


class Tally:
    """Collects the results for the report."""

    def __init__(self, seed):
        self.seed, self.started = seed, time.monotonic()
        self.steps, self.counts = {}, {}
        self.packets = dict.fromkeys(("sent", "received", "lost", "reordered", "duplicated"), 0)
        self.failure = None

    def add(self, kind, report):
        """Adds a finished step."""
        times, lost, silence = self.steps.get(kind.__name__, (0, 0, 0.0))
        self.steps[kind.__name__] = (times + 1, lost + report.lost, max(silence, report.longest_silence))
        for key in self.packets:
            self.packets[key] += getattr(report, key)

    def text(self):
        """The report as Markdown."""
        minutes = (time.monotonic() - self.started) / 60
        lines = [f"Seed {self.seed}, {minutes:.0f} minutes, {sum(times for times, *_ in self.steps.values())} steps: "
                 + (f"**failed**: {self.failure}" if self.failure else "nothing failed."), ""]
        lines += ["| step | times | packets of the load lost | longest silence, ms |", "| --- | --- | --- | --- |"]
        lines += [f"| {kind} | {times} | {lost} | {silence:.0f} |"
                  for kind, (times, lost, silence) in sorted(self.steps.items())] + [""]
        lines += ["| what | how many |", "| --- | --- |"]
        lines += [f"| {what} | {number} |" for what, number in sorted(self.counts.items())]
        lines += [f"| load: packets {what} | {number} |" for what, number in self.packets.items()]
        return "\n".join(lines) + "\n"


def run(arguments, seed, tally):
    """Makes steps until the time is up."""
    end = time.monotonic() + 60 * (60 * arguments.hours if arguments.hours else arguments.minutes)
    number, last = arguments.first, arguments.first + arguments.steps if arguments.steps else None
    while time.monotonic() < end and number != last:
        tier = arguments.tier or TIERS[number // STEPS_A_TIER % len(TIERS)]
        soak = Soak(tier, seed)
        try:
            while time.monotonic() < end and number != last:
                try:
                    tally.add(*soak.step(number, arguments.step))
                except Exception as error:
                    tally.failure = (f"step {number}, {tier}: {type(error).__name__}: {error}\nto repeat: "
                                     f"make soak ARGS='--seed {seed} --first {number} --steps 1 --tier {tier}'")
                    raise
                number += 1
                if number % STEPS_A_TIER == 0 and not arguments.tier:
                    break
        finally:
            for what, count in soak.stage.counts.items():
                tally.counts[what] = tally.counts.get(what, 0) + count
            if tally.failure:
                soak.save_evidence()
            soak.close()


def main():
    """Runs, and writes target/soak/report.md and report.json."""
    arguments = options()
    seed = arguments.seed if arguments.seed is not None else int(time.time())
    FOLDER.mkdir(parents=True, exist_ok=True)
    netns.remove_leftovers()
    netns.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=soak",
              "-keyout", str(FOLDER / "key.pem"), "-out", str(FOLDER / "certificate.pem"))
    bora.START_SECONDS = START_SECONDS
    missing = [] if fuzz.targets() else ["no fuzz target is built (fuzz/README.md): fuzzing steps do nothing"]
    print("\n".join([f"seed {seed}", *missing]), flush=True)
    tally = Tally(seed)
    try:
        run(arguments, seed, tally)
    finally:
        text = tally.text()
        (FOLDER / "report.md").write_text(text)
        (FOLDER / "report.json").write_text(json.dumps(
            {"seed": seed, "steps": tally.steps, "counts": tally.counts, "packets": tally.packets,
             "failure": tally.failure}, indent=1))
        print(text, flush=True)


if __name__ == "__main__":
    main()
