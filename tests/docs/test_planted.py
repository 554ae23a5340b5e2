"""The planted faults fit the source: each old text is once in its file (tests/planted)."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "planted"))

import faults  # noqa: E402


def test_there_are_enough():
    names = [fault.name for fault in faults.chosen([])]
    assert len(names) == len(set(names)) >= 40


@pytest.mark.parametrize("fault", faults.chosen([]), ids=lambda fault: fault.name)
def test_its_text_is_there_once(fault):
    assert faults.places(fault) == 1 and fault.old != fault.new
