"""NAT in a guest: nftables, Linux's flowtable, xdp-forward and Bora with the same flows (lab/bench/src/nat.rs).

Most machines that build Bora cannot load Debian's kernel modules, so a guest does. Its clock counts instructions, and it has one CPU; see
docs/bench-nat.md. Needs scripts/deps-vm, and Debian's archive for the kernel and for xdp-tools.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from lib.bora import binary  # noqa: E402
from vm import kernels, machine  # noqa: E402
from vm.guest import prepare  # noqa: E402

BENCH = ROOT / "target/release/bench-nat"
RULESET = ROOT / "docs/examples/nftables/home.nft"
SUITE = "sid"  # xdp-tools 1.6, of which xdp-forward knows flowtables
PACKAGES = ("xdp-tools", "libxdp1", "libbpf1", "libelf1t64", "zlib1g", "libzstd1", "libc6")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
CLOCK = "-icount shift=3"  # an instruction is eight nanoseconds
SECONDS_A_ROUND, BOOT_SECONDS = 900, 600


def xdp_tools():
    """xdp-tools and the libraries it needs, unpacked; the machine's packages stay as they are."""
    place = kernels.CACHE / "xdp-tools"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        (place / "debs").mkdir(parents=True)
        kernels.apt(SUITE, "apt-get", "update", "--error-on=any")
        kernels.apt(SUITE, "apt-get", "download", *PACKAGES, cwd=place / "debs")
        for file in (place / "debs").glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", file, place / "root"], check=True)
        (place / "complete").write_text("".join(f"{file.name}\n" for file in sorted((place / "debs").iterdir())))
        shutil.rmtree(place / "debs")
    return place


def xdp_forward(root):
    """The command: the suite's C library is newer than the machine's, so its own loader starts it."""
    libraries = root / LIBRARIES
    return ["env", f"LIBXDP_OBJECT_PATH={libraries / 'bpf'}", str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries),
            str(root / "usr/sbin/xdp-forward")]


def in_guest(task):
    """What the guest does: runs the bench in the shared folder, with programs copied to memory, because the folder is slow."""
    os.chdir(task["shared"])
    with open("errors", "w") as errors:
        os.dup2(errors.fileno(), sys.stderr.fileno())
    os.environ["BORA"] = task["bora"]
    prepare()
    bench, tools = shutil.copy(task["bench"], "/run/bench-nat"), shutil.copytree(task["tools"], "/run/xdp-tools")
    command = [bench, "--bora", os.environ["BORA"], "--ruleset", str(RULESET), "--xdp-forward", *xdp_forward(Path(tools)), ";", *task["options"]]
    with open("output", "w") as out:
        done = subprocess.run(command, stdout=out, check=False)
    Path("ended").write_text(str(done.returncode))


def measure(kernel, rounds, options):
    """Runs the guest; prints its table and takes over its results."""
    shared = machine.RUNS / "nat"
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    for name, program in (("bora", binary()), ("bench", BENCH)):
        subprocess.run(["strip", "-o", shared / name, program], check=True)
    tools = xdp_tools()
    task = {"bora": str(shared / "bora"), "bench": str(shared / "bench"), "tools": str(tools / "root"), "shared": str(shared),
            "options": ["--rounds", str(rounds), *options]}
    command = ["env", "PYTHONDONTWRITEBYTECODE=1", "/usr/bin/python3", __file__, "--in-guest", json.dumps(task)]
    machine.run(kernel, [], command, shared, BOOT_SECONDS + rounds * SECONDS_A_ROUND, devices=[CLOCK], cpus=1)
    ended = shared / "ended"
    if not ended.exists() or ended.read_text() != "0":
        texts = [(shared / name).read_text(errors="replace")[-3000:] for name in ("console.txt", "errors") if (shared / name).exists()]
        sys.exit("\n".join(["the bench did not end well; the guest's console, and what the bench said:", *texts]))
    print(f"Linux {kernel.version}; {(tools / 'complete').read_text().split()[-2]}")
    print((shared / "output").read_text())
    target = ROOT / "target/bench"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(shared / "target/bench/nat.json", target / "nat.json")


def main():
    """Measures in a guest."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--kernel", default="newest", choices=[name for name in kernels.SERIES if name != "6.1"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-guest", help=argparse.SUPPRESS)
    arguments, options = parser.parse_known_args()
    if arguments.in_guest:
        in_guest(json.loads(arguments.in_guest))
    else:
        measure(kernels.get(arguments.kernel), arguments.rounds, options)


if __name__ == "__main__":
    try:
        main()
    except (kernels.ArchiveError, machine.GuestError, FileNotFoundError) as error:
        sys.exit(str(error))
