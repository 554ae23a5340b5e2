"""Python files use no name that nothing defines. Much of them runs in guests only, where a mistake is seen late."""

import subprocess
from pathlib import Path

from pyflakes import api, messages, reporter

ROOT = Path(__file__).resolve().parents[2]


class Names(reporter.Reporter):
    """Collects what is wrong about names and syntax."""

    def __init__(self):
        self.found = []

    def flake(self, message):
        """Anything that pyflakes says."""
        if isinstance(message, (messages.UndefinedName, messages.UndefinedLocal, messages.UndefinedExport)):
            self.found.append(str(message))

    def syntaxError(self, filename, msg, lineno, offset, text):  # noqa: N802 (a name of pyflakes)
        self.found.append(f"{filename}:{lineno}: {msg}")

    def unexpectedError(self, filename, msg):  # noqa: N802 (a name of pyflakes)
        self.found.append(f"{filename}: {msg}")


def test_names_are_defined():
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = Names()
    for path in listed:
        api.checkPath(str(ROOT / path), names)
    assert not names.found, "\n".join(names.found)
    assert len(listed) > 100
