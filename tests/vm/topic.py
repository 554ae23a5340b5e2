"""Bonds, bridges, firewalls and their flows, what passes them, PPPoE, tunnels, VRFs or WireGuard in a guest: Linux alone, with the same devices, rules and routes, is the oracle. And the tester.

    python3 tests/vm/topic.py [bond] [bridge] [firewall] [flow] [intruder] [poll] [pppoe] [tester] [tunnel] [vrf] [wireguard] [--kernel newest] [--short]

One guest is started for all topics that are named; without a name, for all.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lib.bora import binary  # noqa: E402
from vm import kernels, machine  # noqa: E402

TOPICS = ("bond", "bridge", "firewall", "flow", "intruder", "poll", "pppoe", "tester", "tunnel", "vrf", "wireguard")
GUEST = Path(__file__).with_name("topics_guest.py")
SECONDS = 900  # for each topic; an idle machine needs a fifth


def run(topics, series, short):
    """Runs a guest; returns what it printed, and whether all went well."""
    task = json.dumps({"topics": topics, "how": "short" if short else "all"})
    name = f"{'-'.join(topics)}-{series}"
    return machine.run_script(kernels.get(series), GUEST, task, binary(), name, SECONDS * len(topics))


def main():
    """Exit code 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"one of {', '.join(TOPICS)}")
    parser.add_argument("--kernel", default="newest", choices=kernels.SERIES)
    parser.add_argument("--short", action="store_true", help="less of it")
    arguments = parser.parse_args()
    unknown = set(arguments.topics) - set(TOPICS)
    if unknown:
        parser.error(f"there is no topic {', '.join(sorted(unknown))}; there are {', '.join(TOPICS)}")
    text, good = run(arguments.topics or list(TOPICS), arguments.kernel, arguments.short)
    print(text)
    sys.exit(not good)


if __name__ == "__main__":
    main()
