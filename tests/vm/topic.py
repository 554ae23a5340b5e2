"""Bonds or VRFs in a guest: Linux alone, with the same devices, rules and routes, is the oracle for where packets go.

    python3 tests/vm/topic.py bond|vrf [--kernel newest] [--short]
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lib.bora import binary  # noqa: E402
from vm import kernels, machine  # noqa: E402

TOPICS = ("bond", "vrf")
FOLDER = kernels.CACHE / "runs"
SECONDS = 900  # an idle machine needs a fifth


def run(topic, series, short):
    """Runs one guest; returns what it printed, and whether all went well."""
    shared = FOLDER / f"{topic}-{series}"
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    subprocess.run(["strip", "-o", shared / "bora", binary()], check=True)
    guest = Path(__file__).with_name(f"{topic}_guest.py")
    command = ["env", "PYTHONDONTWRITEBYTECODE=1", f"BORA={shared / 'bora'}", "/usr/bin/python3", str(guest),
               "short" if short else "all", str(shared / "results")]
    machine.run(kernels.get(series), [], command, shared, SECONDS)
    results = shared / "results"
    text = results.read_text() if results.exists() else ""
    if text.endswith("done\n"):
        return text, True
    return text + (shared / "console.txt").read_text(errors="replace")[-3000:], False


def main():
    """Exit code 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic", choices=TOPICS)
    parser.add_argument("--kernel", default="newest", choices=kernels.SERIES)
    parser.add_argument("--short", action="store_true", help="less of it")
    arguments = parser.parse_args()
    text, good = run(arguments.topic, arguments.kernel, arguments.short)
    print(text)
    sys.exit(not good)


if __name__ == "__main__":
    main()
