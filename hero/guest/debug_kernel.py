"""Builds a kernel that finds faults of a driver (debug.config: KASAN, lockdep, kmemleak and others) from Debian's sources of Linux 6.12,
and hero.ko for it, for `hero/guest/run.py --kernel debug`.

    python3 hero/guest/debug_kernel.py     # half an hour on two CPUs; make hero-debug installs what it needs
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if not __package__:
    sys.path.insert(0, str(HERE.parents[1]))

from tests.vm import headers, kernels  # noqa: E402

SUITE, PACKAGE = "trixie", "linux-source-6.12"
PLACE = kernels.CACHE / "kernels/debug"
SOURCES, ROOT = PLACE / PACKAGE, PLACE / "root"
DRIVER, MODULES = HERE.parent / "linux", HERE.parents[1] / "target/hero/linux"


def get():
    """The kernel, which must have been built."""
    try:
        version = (PLACE / "version").read_text()
    except FileNotFoundError:
        raise kernels.ArchiveError("there is no debug kernel yet: make hero-debug") from None
    return kernels.Kernel("debug", version, SUITE, ROOT)


def make(*words):
    """Runs make in the sources."""
    return subprocess.run(["make", "-s", "-C", SOURCES, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def fetch():
    """Unpacks the sources."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    kernels.apt(SUITE, "apt-get", "update", "--error-on=any")
    kernels.apt(SUITE, "apt-get", "download", PACKAGE, cwd=PLACE)
    package, = PLACE.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, PLACE], check=True)
    subprocess.run(["tar", "-C", PLACE, "-xJf", PLACE / f"usr/src/{PACKAGE}.tar.xz"], check=True)
    shutil.rmtree(PLACE / "usr")
    package.unlink()


def configure():
    """Makes .config, of which every line of debug.config must be a part."""
    make("x86_64_defconfig")
    fragment = HERE / "debug.config"
    subprocess.run(["scripts/kconfig/merge_config.sh", "-m", ".config", "kernel/configs/kvm_guest.config", fragment],
                   cwd=SOURCES, check=True, stdout=subprocess.DEVNULL)
    make("olddefconfig")
    config = (SOURCES / ".config").read_text().splitlines()
    missing = [line for line in fragment.read_text().splitlines() if line.startswith("CONFIG_") and line not in config]
    if missing:
        sys.exit(f"Linux does not take these lines of {fragment.name}: {', '.join(missing)}")


def install():
    """Puts the kernel and its modules where those of Debian's packages are."""
    version = make("kernelrelease")
    (ROOT / "boot").mkdir(parents=True)
    shutil.copy2(SOURCES / make("image_name"), ROOT / f"boot/vmlinuz-{version}")
    make("modules_install", f"INSTALL_MOD_PATH={ROOT}")
    kernels.arrange(ROOT, version)
    (PLACE / "version").write_text(version)  # last, because this file marks the kernel as complete


def build_driver(version):
    """Builds hero.ko for the kernel."""
    target = MODULES / version
    headers.copy_sources(DRIVER, target)
    make(f"M={target}", "modules")


def main():
    """Does what has not been done; the driver is always built."""
    os.environ["LC_ALL"] = "C.UTF-8"
    if not (PLACE / "version").exists():
        fetch()
        configure()
        make(f"-j{os.cpu_count()}", "bzImage", "modules")
        install()
    build_driver(get().version)
    print(get().image)


if __name__ == "__main__":
    try:
        main()
    except kernels.ArchiveError as error:
        sys.exit(str(error))
