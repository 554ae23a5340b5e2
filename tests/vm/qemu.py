"""QEMU 10.1 or later, for devices in other processes (vfio-user-pci), from Debian's package archive under target/vm/qemu.

The machine's package manager is not touched, and the machine's C library may be older: QEMU runs with the loader and the
libraries of its own suite.

    python3 tests/vm/qemu.py [--refresh]     # fetches it and prints where it is
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.vm import kernels

SUITE = "sid"
PACKAGE = "qemu-system-x86"
PLACE = kernels.CACHE / "qemu"
ROOT = PLACE / "root"
LIBRARIES = ROOT / "usr/lib/x86_64-linux-gnu"
# A wrapper that stands for qemu-system-x86_64, for programs that look for it by PATH.
WRAPPER = PLACE / "bin/qemu-system-x86_64"


def get(refresh=False):
    """The program, fetched if necessary: a script that runs the unpacked QEMU with its own libraries and data."""
    if refresh or not WRAPPER.exists():
        _fetch()
        _wrap()
    return WRAPPER


def _fetch():
    print(f"qemu: fetching {PACKAGE} from {SUITE}", file=sys.stderr)
    shutil.rmtree(PLACE, ignore_errors=True)
    (PLACE / "debs").mkdir(parents=True)
    kernels.apt(SUITE, "apt-get", "update", "--error-on=any")
    # apt sees a machine without packages, so it names all that QEMU needs, the C library among them
    kernels.apt(SUITE, "apt-get", "install", "--download-only", "--no-install-recommends", "--yes",
                f"-oDir::Cache::archives={PLACE}/debs", PACKAGE)
    for file in sorted((PLACE / "debs").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", file, ROOT], check=True)
    shutil.rmtree(PLACE / "debs")


def _wrap():
    data = [ROOT / "usr/share" / name for name in ("qemu", "seabios")]
    rom = ROOT / "usr/lib/ipxe/qemu"
    folders = " ".join(f"-L '{folder}'" for folder in [*data, rom])
    WRAPPER.parent.mkdir(exist_ok=True)
    part = WRAPPER.with_suffix(".part")
    part.write_text(
        "#!/bin/sh\n"
        f"export QEMU_MODULE_DIR='{LIBRARIES}/qemu'\n"
        f"exec '{LIBRARIES}/ld-linux-x86-64.so.2' --library-path '{LIBRARIES}' --argv0 qemu-system-x86_64 \\\n"
        f"    '{ROOT}/usr/bin/qemu-system-x86_64' {folders} \"$@\"\n")
    part.chmod(0o755)
    part.replace(WRAPPER)  # last, because this file marks QEMU as complete


def version(program):
    """What the program says that it is."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def main():
    """Fetches it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--refresh", action="store_true", help="fetch it again")
    program = get(parser.parse_args().refresh)
    print(f"{program}\t{version(program)}")


if __name__ == "__main__":
    try:
        main()
    except kernels.ArchiveError as error:
        sys.exit(str(error))
