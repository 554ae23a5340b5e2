"""A router's life: takes a pair of routers through the steps of a case. Cases are kept as JSON."""

import json

import routers
from frames import show_difference
from lib import packets


SHOWN = 4  # packets of a step in a script


class Finding(Exception):
    """Bora did something else than Linux alone. `step`: where; `got`: the frames of both; `by`: what has found it."""

    def __init__(self, step, text, got=None):
        super().__init__(text)
        self.step, self.got = step, got
        ways = {"frames": got, "prove": routers.PROVED in text, "daemon": routers.ASKED in text}
        self.by = [way for way, has_found in ways.items() if has_found] or ["checks"]


class Stopped(Exception):
    """The time was over before the life was."""

    def __init__(self, step):
        super().__init__(f"stopped at step {step}")
        self.step = step


def live(case, is_over=lambda: False):
    """All steps of a case; returns how many frames came out of Linux alone. Raises what was found first. `is_over`: asked before
    each step whether to stop."""
    pair = routers.Pair(case["tier"], case.get("taps", ()))
    number = frames = 0
    try:
        for number, step in enumerate(case["steps"]):
            if is_over():
                raise Stopped(number)
            if number == case["start"]:
                pair.start()
            if step["wait"] == "paused":
                pair.pause()
            problem = pair.do(step["do"])
            check(number, problem or pair.settle(step["wait"]))
            frames += exchange(pair, number, step)
            check(number, pair.prove() if step.get("prove") else None)
        check(number, pair.check())
    except (RuntimeError, TimeoutError) as error:
        problem = pair.check() if pair.other.bora else None
        raise Finding(number, f"{error}\n{problem}") from error
    finally:
        wrong = pair.close(quietly=True)
    check(number, wrong)
    return frames


def check(number, problem):
    """Raises a finding for a text."""
    if problem:
        raise Finding(number, problem)


def exchange(pair, number, step):
    """Sends a step's packets, and compares."""
    if not step["packets"]:
        return 0
    got = pair.exchange([(link, bytes.fromhex(frame)) for link, frame in step["packets"]])
    if got[0] != got[1]:
        check(number, pair.check())
        raise Finding(number, f"frames differ\n{show_difference(got)}\n{pair.prove() or ''}", got)
    check(number, pair.check() if number % 5 == 4 else None)
    return got[0].total()


def load(path):
    """A case from its file."""
    return json.loads(path.read_text())


def save(path, case):
    """A case into its file."""
    path.write_text(json.dumps(case, indent=1) + "\n")


def script(case, most=60):
    """A case as commands to read, with its packets; long ones are cut."""
    lines = []
    for number, step in enumerate(case["steps"]):
        if number == case["start"]:
            lines.append(f"# bora run --path {case['tier']} --port r0 --port r1 --port r2 --port r3 (of kind tap: {case.get('taps', 'none')})")
        lines += [*step["do"], f"# wait: {step['wait']}"]
        for link, frame in step["packets"][:SHOWN]:
            lines.append(f"# h{link} sends {packets.describe(bytes.fromhex(frame))}  {frame[:200]}")
        if len(step["packets"]) > SHOWN:
            lines.append(f"# and {len(step['packets']) - SHOWN} packets more")
    shown = lines if len(lines) <= most else [f"… {len(lines) - most} lines more", *lines[-most:]]
    return "\n".join("  " + line for line in shown)
