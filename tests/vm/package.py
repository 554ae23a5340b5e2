"""The Debian package in a guest that boots with systemd: install, upgrade, downgrade, reload, a hang, a reboot, purge.

    python3 tests/vm/package.py [--kernel 6.12] [--short]

The guest is a Debian of its own, not this machine's file system: a disk with the release that the kernel comes from. It
has no network, so apt gets along with what is on the disk.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from vm import kernels, machine  # noqa: E402

ROOT = machine.ROOT
WORK = machine.RUNS.parent / "package"
SUITES = {"6.1": "bookworm", "6.12": "trixie", "newest": "trixie"}
PRESENT = "systemd-sysv,dbus,udev,kmod,iproute2,iputils-ping,python3-minimal,libpython3-stdlib,libelf1,libpcap0.8"
VERSIONS = ("0.1.0", "0.1.1")
SECONDS = 1500  # an idle machine needs a quarter
DISK = "2G"
ATTEMPTS = 2  # QEMU without KVM sometimes fails an assertion of its own before the guest is up
# What the first file system loads to mount the disk; and folders of modules that no router needs.
MODULES = ("virtio_pci", "virtio_blk", "ext4")
UNWANTED = ("gpu", "media", "infiniband", "scsi", "iio", "usb", "staging", "hid", "net/wireless", "net/ethernet")
INIT = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for module in /modules/*; do /bin/busybox insmod $module; done
until [ -b /dev/vda ]; do /bin/busybox usleep 100000; done
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
"""


def base(suite):
    """A tarball of the release; it is made if there is none with these packages."""
    tar = WORK / f"{suite}-{zlib.crc32(PRESENT.encode()):08x}.tar"
    if not tar.exists():
        print(f"making a base image of {suite}", file=sys.stderr)
        half = tar.with_suffix(f".{os.getpid()}.tar")
        try:
            subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io",
                            f"--include={PRESENT}", suite, half], check=True)
            half.rename(tar)
        finally:
            half.unlink(missing_ok=True)
    return tar


def make_disk(kernel, suite, folder, short):
    """The guest's disk: the release, the kernel's modules, the packages and the test."""
    root = folder / "root"
    root.mkdir()
    subprocess.run(["tar", "-xf", base(suite), "-C", root, "--numeric-owner", "--xattrs", "--xattrs-include=*"], check=True)
    modules = root / "usr/lib/modules" / kernel.version
    shutil.copytree(kernel.folder / "usr/lib/modules" / kernel.version, modules, symlinks=True,
                    ignore=lambda path, names: [name for name in names if f"{path}/{name}".endswith(
                        tuple(f"/drivers/{one}" for one in UNWANTED)) or name in ("sound", "build", "source")])
    subprocess.run(["depmod", "-b", root, kernel.version], check=True)
    for version in VERSIONS:
        subprocess.run([ROOT / "scripts/deb", version, root / "root"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name, place in (("package_guest.py", "root/package_guest.py"), ("package_lab.sh", "usr/local/sbin/package-lab")):
        shutil.copy(Path(__file__).with_name(name), root / place)
    (root / "usr/local/sbin/package-lab").chmod(0o755)
    for unit, command, order in (("package-lab", "/usr/local/sbin/package-lab", "Before=network.target"),
                                 ("package-test", "/usr/bin/python3 -B /root/package_guest.py", "After=multi-user.target")):
        kind = "oneshot\nRemainAfterExit=yes" if unit == "package-lab" else "simple\nStandardError=tty\nTTYPath=/dev/ttyS0"
        (root / f"etc/systemd/system/{unit}.service").write_text(
            f"[Unit]\n{order}\n[Service]\nType={kind}\nExecStart={command}\n")
        wants = root / f"etc/systemd/system/{'multi-user' if unit == 'package-lab' else 'default'}.target.wants"
        wants.mkdir(exist_ok=True)
        (wants / f"{unit}.service").symlink_to(f"/etc/systemd/system/{unit}.service")
    (root / "etc/fstab").write_text("/dev/vda / ext4 rw 0 1\n")
    (root / "etc/hostname").write_text("guest\n")
    if short:
        (root / "root/short").touch()
    disk = folder / "disk"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, disk, DISK], check=True)
    shutil.rmtree(root)
    return disk


def make_initrd(kernel, folder):
    """The first file system: busybox, and the modules that the disk needs, in order."""
    tree = folder / "initrd"
    for name in ("bin", "dev", "root", "modules"):
        (tree / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin/busybox")
    (tree / "init").write_text(INIT)
    (tree / "init").chmod(0o755)
    files = []
    for module in MODULES:
        shown = subprocess.run(["modprobe", "-d", kernel.folder, "-S", kernel.version, "--show-depends", module],
                               check=True, capture_output=True, text=True).stdout
        files += [line.split()[1] for line in shown.splitlines() if line.startswith("insmod")]
    for number, file in enumerate(dict.fromkeys(files)):
        target = tree / f"modules/{number:02}.ko"
        if file.endswith(".xz"):
            target.write_bytes(subprocess.run(["xz", "-dc", file], check=True, capture_output=True).stdout)
        else:
            shutil.copy(file, target)
    initrd = folder / "initrd.cpio"
    with open(initrd, "wb") as out:
        names = subprocess.run(["find", "."], cwd=tree, check=True, capture_output=True).stdout
        subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=tree, input=names, stdout=out, check=True)
    return initrd


def boot(kernel, folder, disk, initrd):
    """Runs the guest until it powers off; returns the seconds that it took."""
    command = [
        "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-smp", str(machine.CPUS), "-m", "2G",
        "-display", "none", "-nodefaults", "-kernel", kernel.image, "-initrd", initrd,
        "-append", "console=ttyS0 quiet loglevel=3 systemd.show_status=false",
        "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe",
        "-serial", f"file:{folder / 'console.txt'}", "-serial", f"file:{folder / 'results'}",
    ]
    alone = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    started = time.monotonic()
    child = subprocess.Popen([*alone, *command], stdin=subprocess.DEVNULL)
    try:
        child.wait(SECONDS)
    except subprocess.TimeoutExpired:
        print(f"the guest did not end within {SECONDS} s")
    finally:
        child.kill()
        child.wait()
    return time.monotonic() - started


def main():
    """Exit code 1 if a step failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.12", choices=kernels.SERIES)
    parser.add_argument("--short", action="store_true", help="only install, start, upgrade, the engine, reboot, purge")
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    kernel = kernels.get(arguments.kernel)
    with tempfile.TemporaryDirectory(dir=WORK) as name:
        folder = Path(name)
        disk = make_disk(kernel, SUITES[arguments.kernel], folder, arguments.short)
        initrd, results = make_initrd(kernel, folder), ""
        for _ in range(ATTEMPTS):
            seconds = boot(kernel, folder, disk, initrd)
            results = (folder / "results").read_text(errors="replace").replace("\r", "")
            if results:
                break
        print(results, end="")
        good = results.endswith("done\n")
        print(f"Linux {kernel.version}, {SUITES[arguments.kernel]}: {'all is well' if good else 'FAILED'} after {seconds:.0f} s")
        if not good:
            print((folder / "console.txt").read_text(errors="replace")[-3000:])
    sys.exit(not good)


if __name__ == "__main__":
    main()
