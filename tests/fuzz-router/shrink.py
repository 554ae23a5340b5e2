"""Makes a case that fails small: fewer steps, commands and packets, each time in fresh namespaces."""

import copy
import time

from lives import Finding, live


def fails(case):
    """The finding of a case, or None."""
    try:
        live(case)
    except Finding as finding:
        return finding
    return None


def cut(case, finding):
    """The case up to where it failed."""
    return {**case, "steps": case["steps"][:finding.step + 1]}


def confirm(case, finding, tries):
    """The case up to the finding, if it comes again; alone with its own configuration, if that is enough."""
    whole = cut(case, finding)
    begin = max([begin for begin in case.get("begins", [0]) if begin <= finding.step], default=0)
    alone = {**whole, "start": max(0, whole["start"] - begin), "steps": copy.deepcopy(whole["steps"][begin:]), "begins": [0]}
    first = alone["steps"][0]
    first["do"] = first["do"][first.get("reset", 0):]
    for candidate in [alone] * (begin > 0) + [whole] * tries:
        again = fails(candidate)
        if again is not None:
            return cut(candidate, again)
    return None


def ends(finding):
    """The last octets of the frames that differ, by which packets are known; none if it is no difference of frames."""
    if not finding.got:
        return set()
    return {frame.rstrip(b"\0")[-12:] for _, frame in (finding.got[0] - finding.got[1]) + (finding.got[1] - finding.got[0])}


class Shrinker:
    """Tries to leave things out until the time is over."""

    def __init__(self, case, seconds):
        self.case, self.finding = case, fails(case)
        self.end = time.monotonic() + seconds

    def attempt(self, candidate):
        """Keeps a candidate that still fails."""
        if time.monotonic() > self.end:
            return False
        finding = fails(candidate)
        if finding is None or (ends(self.finding) and not ends(self.finding) & ends(finding)):
            return False  # nothing, or something else
        self.case, self.finding = cut(candidate, finding), finding
        return True

    def without(self, get, put):
        """Leaves out parts of a list of the case: halves, quarters, … single ones."""
        size = max(1, len(get(self.case)) // 2)
        while True:
            at = 0
            while at < len(get(self.case)):
                items = get(self.case)
                candidate = copy.deepcopy(self.case)
                put(candidate, items[:at] + items[at + size:])
                if time.monotonic() > self.end:
                    return
                if not self.attempt(candidate):
                    at += size
            if size == 1:
                return
            size //= 2


def commands_of(case):
    """All commands as (step, line), so that one list is shrunk."""
    return [(number, line) for number, step in enumerate(case["steps"]) for line in step["do"]]


def put_commands(case, lines):
    """The reverse of `commands_of`."""
    for number, step in enumerate(case["steps"]):
        step["do"] = [line for at, line in lines if at == number]


def put_packets(case, packets):
    """Other packets for the last step."""
    case["steps"][-1]["packets"] = packets


def suspects(case, finding):
    """The last step's packets whose ends are in the frames that differ."""
    differing = list((finding.got[0] - finding.got[1]) + (finding.got[1] - finding.got[0])) if finding.got else []
    ends = [frame.rstrip(b"\0")[-16:] for _, frame in differing]
    return [packet for packet in case["steps"][-1]["packets"]
            if any(end in bytes.fromhex(packet[1]) or bytes.fromhex(packet[1])[26:42] in frame for end, (_, frame) in zip(ends, differing))]


def joined(case):
    """The case with all commands in one step."""
    last = {**case["steps"][-1], "do": [line for step in case["steps"] for line in step["do"]]}
    return {**case, "steps": [last]}


def smaller(case, seconds):
    """The smallest case that was found in some seconds, and its finding."""
    shrinker = Shrinker(case, seconds)
    if shrinker.finding is None:  # it does not always fail
        return case, "it does not always come"
    for change in (lambda case: None, lambda case: put_packets(case, suspects(case, shrinker.finding)),
                   lambda case: put_packets(case, suspects(case, shrinker.finding)[:1])):
        candidate = copy.deepcopy(shrinker.case)
        for step in candidate["steps"][:-1]:
            step["packets"] = []
        change(candidate)
        shrinker.attempt(candidate)
    if not shrinker.attempt({**joined(shrinker.case), "start": 0}):
        shrinker.attempt({**shrinker.case, "start": 0})
        shrinker.without(lambda case: case["steps"][:-1], lambda case, steps: case.update(steps=steps + case["steps"][-1:]))
    if len(shrinker.case["steps"][-1]["packets"]) > 1:
        shrinker.without(lambda case: case["steps"][-1]["packets"], put_packets)
    shrinker.without(commands_of, put_commands)
    shrinker.attempt(joined(shrinker.case))
    return shrinker.case, shrinker.finding
