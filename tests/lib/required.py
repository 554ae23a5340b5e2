"""Requirements that a machine may lack: the test is then skipped or fails."""

import os
import shutil

import pytest


def skip(reason):
    """Skips the test. Fails it if CI or BORA_ALL is set (as `make test` does), because then everything must be tested."""
    if os.environ.get("CI") or os.environ.get("BORA_ALL"):
        pytest.fail(f"this cannot be tested here: {reason}")
    pytest.skip(reason)


def program(name, package):
    """Skips (or fails) the test on a machine without a program of a Debian package."""
    if not shutil.which(name):
        skip(f"no {name} (Debian: {package})")
