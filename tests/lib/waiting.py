"""Waiting for something that takes a while."""

import time


def until(what, done, state=lambda: "", *, seconds):
    """Waits until `done()` is true. `state` says how things are, if that does not come."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s; {state()}"
        time.sleep(0.1)
