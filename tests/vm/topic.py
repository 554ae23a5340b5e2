"""Bonds, bridges, flows of a firewall, PPPoE, tunnels or VRFs in a guest: Linux alone, with the same devices, rules and routes, is the oracle.

    python3 tests/vm/topic.py bond|bridge|flow|pppoe|tunnel|vrf [--kernel newest] [--short]
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lib.bora import binary  # noqa: E402
from vm import kernels, machine  # noqa: E402

TOPICS = ("bond", "bridge", "flow", "pppoe", "tunnel", "vrf")
SECONDS = 900  # an idle machine needs a fifth


def run(topic, series, short):
    """Runs one guest; returns what it printed, and whether all went well."""
    guest = Path(__file__).with_name(f"{topic}_guest.py")
    return machine.run_script(kernels.get(series), guest, "short" if short else "all", binary(), f"{topic}-{series}", SECONDS)


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
