"""The conformance tests over VLAN devices, bonds and a VRF, in a guest with one of Debian's kernels, which has them.

    python3 tests/vm/conformance.py [--kernel 6.12] [--over vlan] [--backend kernel] [--short] [FILE.py ...] [-- -k test_61]
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lib.bora import binary  # noqa: E402
from vm import kernels, machine  # noqa: E402

BACKENDS = ("kernel", "engine", "express")
OVER = ("vlan", "bond", "vrf")
SHORT = ["test_ipv4_header.py", "test_link.py", "test_ipv6.py"]
SECONDS = 3600  # for each backend, at most; an idle machine needs a tenth


def main():
    """Exit code 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.12", choices=kernels.SERIES)
    parser.add_argument("--over", action="append", choices=OVER, help="may be given several times; default: all")
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="may be given several times; default: all")
    parser.add_argument("--short", action="store_true", help=f"only {', '.join(SHORT)}")
    parser.add_argument("files", nargs="*", help="files of tests/conformance, and behind -- words for pytest; default: all")
    arguments = parser.parse_args()
    files = [word for word in arguments.files if word.endswith(".py")]
    words = [word for word in arguments.files if word not in files]
    backends = arguments.backend or BACKENDS
    good = True
    for over in arguments.over or OVER:
        task = {"over": over, "backends": backends, "files": files or (SHORT if arguments.short else []), "pytest": words}
        text, passed = machine.run_script(kernels.get(arguments.kernel), Path(__file__).with_name("conformance_guest.py"), json.dumps(task),
                                          binary(), f"conformance-{arguments.kernel}-{over}", SECONDS * len(backends))
        print(text, flush=True)
        good &= passed
    sys.exit(not good)


if __name__ == "__main__":
    main()
