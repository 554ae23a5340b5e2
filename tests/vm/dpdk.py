"""Ports of the kind dpdk on an emulated igb in a guest, with an IOMMU and without.

    python3 tests/vm/dpdk.py [iommu | no-iommu]
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lib.bora import dpdk_binary  # noqa: E402
from vm import kernels, machine  # noqa: E402

GUEST = Path(__file__).with_name("dpdk_guest.py")
SECONDS = 400  # an idle machine needs a sixth
CASES = {
    "iommu": ("intel_iommu=on", ["-device intel-iommu"]),
    "no-iommu": ("hugepages=384", []),
}


def run(case):
    """Runs one guest; returns what it printed, and whether all went well."""
    append, devices = CASES[case]
    return machine.run_script(kernels.get("6.12"), GUEST, case, dpdk_binary(), f"dpdk-{case}", SECONDS, ["igb"], append, devices)


def main():
    """Runs the guests; exit code 1 if one failed."""
    if os.geteuid() != 0:
        sys.exit("guests need network namespaces: run this as root")
    outcome = True
    for case in sys.argv[1:] or CASES:
        text, good = run(case)
        print(f"== {case}: {'passed' if good else 'FAILED'}\n{text}", flush=True)
        outcome = outcome and good
    sys.exit(0 if outcome else 1)


if __name__ == "__main__":
    try:
        main()
    except (kernels.ArchiveError, machine.GuestError, FileNotFoundError) as error:
        sys.exit(str(error))
