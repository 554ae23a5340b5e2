"""VRFs in a guest: with the same VRFs, rules and routes, packets take the same path through Bora as through Linux alone.

    python3 tests/vm/vrf.py [--kernel newest] [--tier express]
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lib.bora import binary  # noqa: E402
from vm import kernels, machine  # noqa: E402

GUEST = Path(__file__).with_name("vrf_guest.py")
FOLDER = kernels.CACHE / "runs"
SECONDS = 900  # an idle machine needs a fifth
TIERS = ("express", "engine")


def run(series, tiers):
    """Runs one guest; returns what it printed, and whether all went well."""
    shared = FOLDER / f"vrf-{series}"
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    subprocess.run(["strip", "-o", shared / "bora", binary()], check=True)
    command = ["env", "PYTHONDONTWRITEBYTECODE=1", f"BORA={shared / 'bora'}", "/usr/bin/python3", str(GUEST), str(shared / "results"), *tiers]
    machine.run(kernels.get(series), [], command, shared, SECONDS)
    results = shared / "results"
    text = results.read_text() if results.exists() else ""
    if text.endswith("done\n"):
        return text, True
    return text + (shared / "console.txt").read_text(errors="replace")[-3000:], False


def main():
    """Exit code 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="newest", choices=kernels.SERIES)
    parser.add_argument("--tier", action="append", choices=TIERS, help="may be given several times")
    arguments = parser.parse_args()
    text, good = run(arguments.kernel, arguments.tier or TIERS)
    print(text)
    sys.exit(not good)


if __name__ == "__main__":
    main()
