"""Runs in a guest with hero.ko, with cables that end at cards of the guest itself: the conformance tests on the cards' interfaces.

    hero/guest/run.py --driver --wires guest --script conformance_guest.py [--steps kernel,engine,express]

With `kernel`, the cards forward what they can by themselves, and what they do must be what Linux does.
"""

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import lib.bora  # noqa: E402
from hero.guest.steps import BORA, BORA_SECONDS, bring_bora, counters, interfaces, main, run, step  # noqa: E402
from vm import conformance, conformance_guest  # noqa: E402


def by_the_cards():
    """Frames that the cards have forwarded."""
    return sum(counters(name)["fast_path"] for name in interfaces())


def conformance_of(backend):
    """The short conformance tests with a backend; says how many frames the cards forwarded by themselves meanwhile."""
    run("modprobe virtio_net")
    task = {"over": "hero", "backends": [backend], "files": conformance.SHORT, "pytest": []}
    lines, before, failed = [], by_the_cards(), False
    try:
        conformance_guest.body(json.dumps(task), lines.append)
    except AssertionError as error:
        lines.append(str(error))
        failed = True
    lines.append(f"{by_the_cards() - before} frames by the cards")
    assert not failed, "\n".join(lines)
    return "; ".join(lines)


def with_bora(path):
    """The conformance tests with Bora between the cards, by one of its paths."""
    bring_bora()
    os.environ["BORA"] = str(BORA)
    lib.bora.START_SECONDS, lib.bora.STOP_SECONDS = BORA_SECONDS, 60
    return conformance_of(path)


@step
def kernel():
    """Linux alone, and the cards."""
    return conformance_of("kernel")


@step
def engine():
    """Bora's workers."""
    return with_bora("engine")


@step
def express():
    """Bora's XDP program."""
    return with_bora("express")


if __name__ == "__main__":
    main()
