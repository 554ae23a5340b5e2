"""Runs a bench in a guest of one CPU whose clock counts instructions, with Bora and xdp-forward (make bench-nat, bench-instructions).

Most machines that build Bora cannot load Debian's kernel modules, so a guest does. Needs scripts/deps-vm, and Debian's archive for the
kernel and for xdp-tools.
"""

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from lib.bora import binary  # noqa: E402
from vm import kernels, machine  # noqa: E402
from vm.guest import prepare  # noqa: E402

RULESET = ROOT / "docs/examples/nftables/home.nft"
SUITE = "sid"  # xdp-tools 1.6, of which xdp-forward knows flowtables
PACKAGES = ("xdp-tools", "libxdp1", "libbpf1", "libelf1t64", "zlib1g", "libzstd1", "libc6")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
BOOT_SECONDS = 600


@dataclasses.dataclass(frozen=True)
class Bench:
    """A program of lab/bench/src/bin that writes target/bench/NAME.json."""

    name: str
    program: Path  # as built
    options: list  # besides --bora, --ruleset, --instruction and --xdp-forward
    clock: int  # an instruction is 2^clock nanoseconds
    seconds: int  # most that it may take


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
    bench, command = shutil.copy(task["bench"], "/run/bench"), []
    if task["tools"]:
        command = ["--xdp-forward", *xdp_forward(Path(shutil.copytree(task["tools"], "/run/xdp-tools"))), ";"]
    with open("output", "w") as out:
        done = subprocess.run([bench, "--bora", os.environ["BORA"], "--ruleset", str(RULESET), "--instruction", task["instruction"], *command,
                               *task["options"]], stdout=out, check=False)
    Path("ended").write_text(str(done.returncode))


def measure(kernel, bench, with_xdp_forward=True):
    """Runs the guest; returns the kernel, the package of xdp-forward and the table as text, and takes over the results."""
    shared = machine.RUNS / bench.name
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    for name, program in (("bora", binary()), ("bench", bench.program)):
        subprocess.run(["strip", "-o", shared / name, program], check=True)
    tools = xdp_tools() if with_xdp_forward else None
    task = {"bora": str(shared / "bora"), "bench": str(shared / "bench"), "tools": tools and str(tools / "root"), "shared": str(shared),
            "options": bench.options, "instruction": str(2**bench.clock)}
    command = ["env", "PYTHONDONTWRITEBYTECODE=1", "/usr/bin/python3", __file__, json.dumps(task)]
    machine.run(kernel, [], command, shared, BOOT_SECONDS + bench.seconds, devices=[f"-icount shift={bench.clock}"], cpus=1)
    ended = shared / "ended"
    if not ended.exists() or ended.read_text() != "0":
        texts = [(shared / name).read_text(errors="replace")[-3000:] for name in ("console.txt", "errors") if (shared / name).exists()]
        sys.exit("\n".join(["the bench did not end well; the guest's console, and what the bench said:", *texts]))
    target = ROOT / "target/bench"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(shared / f"target/bench/{bench.name}.json", target)
    conditions = [f"Linux {kernel.version}", *(tools / "complete").read_text().split()[-2:-1]] if tools else [f"Linux {kernel.version}"]
    return f"{'; '.join(conditions)}\n{(shared / 'output').read_text()}"


def parser(text):
    """The options that all benches in guests have."""
    made = argparse.ArgumentParser(description=text.split("\n", 1)[0])
    made.add_argument("--kernel", default="newest", choices=[name for name in kernels.SERIES if name != "6.1"])
    return made


def main(run):
    """Runs `run()`, and says in one line what is missing."""
    try:
        run()
    except (kernels.ArchiveError, machine.GuestError, FileNotFoundError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    in_guest(json.loads(sys.argv[1]))
