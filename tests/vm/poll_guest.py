"""What express remembers in a NAPI poll (router/xdp/bpf/poll.h), in a guest: not every kernel that tests run on shows Bora where a poll ends."""

import contextlib
import io
import platform

import pytest

from lib.bora import ROOT

TESTS = ROOT / "tests/integration/test_guard.py"


def body(_, say):
    """Rules, addresses and routes that change in the middle of a load."""
    if platform.release().startswith("6.1."):
        say("Linux 6.1: generic XDP on veths, which has no polls to recognize")
        return
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["-q", "-p", "no:cacheprovider", "-k", "middle_of_a_load and express", str(TESTS)])
    say(said.getvalue()[-4000:])
    assert code == 0, f"pytest ended with {code}"
