"""What express remembers in a NAPI poll (router/xdp/bpf/poll.h), in a guest: not every kernel that tests run on shows Bora where a poll ends."""

import contextlib
import io

import pytest

from lib.bora import ROOT

TESTS = ROOT / "tests/integration/test_guard.py"


def body(_, say):
    """Rules, addresses and routes that change in the middle of a load."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["-q", "-p", "no:cacheprovider", "-k", "middle_of_a_load and express", str(TESTS)])
    say(said.getvalue()[-4000:])
    assert code == 0, f"pytest ended with {code}"
