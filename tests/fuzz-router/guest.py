"""Runs in a guest (`run.py --guest`): the same fuzzer on a kernel of Debian, which has VLANs, VRFs, bonds and MPLS."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import routers  # noqa: E402
import run  # noqa: E402
from vm import topic_guest  # noqa: E402

SLOWER = 3  # an emulated CPU


def body(task, say):
    """Lives with the options of a task."""
    run.say, run.FOUND = say, Path(sys.argv[2]).parent
    routers.be_patient(SLOWER)
    found = run.fuzz(**json.loads(task)).found
    assert not found, f"found: {found}"


if __name__ == "__main__":
    topic_guest.main(body)
