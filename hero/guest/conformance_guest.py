"""Runs in a guest with hero.ko, with cables that end at cards of the guest itself: the conformance tests on the cards' interfaces.

    hero/guest/run.py --driver --wires guest --script conformance_guest.py [--steps kernel,engine,express]

With `kernel`, the cards forward what they can by themselves, and what they do must be what Linux does.
"""

import json
import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[2] / "tests")]

import lib.bora  # noqa: E402
from hero.guest.steps import counters, interfaces, main, run, step  # noqa: E402
from vm import conformance, conformance_guest  # noqa: E402

START_SECONDS = 900
PROGRAM = Path("/run/bora-under-test")


def conformance_of(backend):
    """The short conformance tests with a backend; says how many frames the cards forwarded by themselves meanwhile."""
    lines = []
    task = {"over": "hero", "backends": [backend], "files": conformance.SHORT, "pytest": []}
    before = by_the_cards()
    try:
        conformance_guest.body(json.dumps(task), lines.append)
    except AssertionError as error:
        raise AssertionError("\n".join([*lines, str(error), f"{by_the_cards() - before} frames by the cards"])) from None
    return f"{'; '.join(lines)}; {by_the_cards() - before} frames by the cards"


def by_the_cards():
    """Frames that the cards have forwarded."""
    return sum(counters(name)["fast_path"] for name in interfaces())


@step
def kernel():
    """Linux alone, and the cards."""
    run("modprobe virtio_net")
    return conformance_of("kernel")


@step
def engine():
    """Bora's workers."""
    take_bora()
    return conformance_of("engine")


@step
def express():
    """Bora's XDP program."""
    take_bora()
    return conformance_of("express")


def take_bora():
    """Copies the binary, because the shared file system is slow."""
    run("modprobe virtio_net; modprobe tun; mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf")
    lib.bora.START_SECONDS, lib.bora.STOP_SECONDS = START_SECONDS, 60
    if not PROGRAM.exists():
        run(f"strip -o {PROGRAM} {lib.bora.binary()}")
    os.environ["BORA"] = str(PROGRAM)


if __name__ == "__main__":
    main()
