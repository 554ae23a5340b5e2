"""What a machine may lack, and whether that may keep a test from running."""

import os
import shutil

import pytest


def skip(reason):
    """Skips the test; fails it where everything must be tested: CI or BORA_ALL is set (`make test` does)."""
    if os.environ.get("CI") or os.environ.get("BORA_ALL"):
        pytest.fail(f"this cannot be tested here: {reason}")
    pytest.skip(reason)


def program(name, package):
    """Skips (or fails) the test on a machine without a program of a Debian package."""
    if not shutil.which(name):
        skip(f"no {name} (Debian: {package})")
