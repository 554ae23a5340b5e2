"""Stock kernels from Debian's package archive, unpacked under target/vm/kernels.

The machine's package manager is not touched: apt runs with its own sources, lists and cache.

    python3 tests/vm/kernels.py [--refresh] [SERIES ...]     # fetches them and prints where they are
"""

import argparse
import dataclasses
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / "target/vm"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
SECURITY_MIRROR = os.environ.get("DEBIAN_SECURITY_MIRROR", "http://deb.debian.org/debian-security")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# The suites of each series; of several, the one with the newest kernel is used.
SERIES = {
    "6.1": ["bookworm", "bookworm-security"],
    "6.12": ["trixie", "trixie-security"],
    "newest": ["trixie-backports", "sid"],
}
META = "linux-image-amd64"
# A 7.x kernel is split: linux-image only depends on the packages that have the files.
PARTS = re.compile(r"linux-(image|binary|modules|base)-\d")
ASK_AGAIN_SECONDS = 24 * 3600
APT_SECONDS = 900


class ArchiveError(Exception):
    """The archive cannot be reached, or lacks a package."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel, unpacked in `folder` with the layout of a root file system."""

    series: str
    version: str  # as `uname -r` prints it
    suite: str
    folder: Path

    @property
    def image(self):
        """The bootable image; its place changed with 7.x."""
        places = (self.folder / f"boot/vmlinuz-{self.version}",
                  self.folder / f"usr/lib/modules/{self.version}/vmlinuz")
        return next(place for place in places if place.exists())

    @property
    def number(self):
        """(major, minor)."""
        return tuple(int(part) for part in self.version.split(".")[:2])


def get(series, refresh=False):
    """The newest kernel of a series, fetched if necessary. The archive is checked once a day, or with `refresh`."""
    cached = _cached(series)
    asked = _place(series) / "asked"
    if cached and not refresh and asked.exists() and time.time() - asked.stat().st_mtime < ASK_AGAIN_SECONDS:
        return cached
    try:
        suite, package_version = _newest(series)
        if not (cached and _description(series)["package"] == package_version):
            _fetch(series, suite, package_version)
    except ArchiveError as error:
        if not cached:
            raise
        print(f"kernel {series}: using {cached.version}, fetched earlier; {error}", file=sys.stderr)
        return cached
    asked.touch()
    return _cached(series)


def _place(series):
    return CACHE / "kernels" / series


def _description(series):
    try:
        return json.loads((_place(series) / "kernel.json").read_text())
    except (OSError, ValueError):
        return None


def _cached(series):
    known = _description(series)
    return known and Kernel(series, known["version"], known["suite"], _place(series) / "root")


# The archive.


def _newest(series):
    """(suite, version of META) of the suite with the newest kernel."""
    found = []
    for suite in SERIES[series]:
        apt(suite, "apt-get", "update", "--error-on=any")
        found.append((fields(suite, META)["Version"], suite))
    version, suite = max(found, key=functools.cmp_to_key(lambda a, b: _compare(a[0], b[0])))
    return suite, version


def _compare(left, right):
    newer = subprocess.run(["dpkg", "--compare-versions", left, "gt", right], check=False).returncode == 0
    return 1 if newer else -1


def apt(suite, program, *arguments, cwd=None):
    """Runs an apt program on one suite of the archive, or several ("trixie+trixie-security"), and returns what it printed."""
    if not Path(KEYRING).exists():
        raise ArchiveError(f"{KEYRING} is missing: install debian-archive-keyring")
    home = CACHE / "apt" / suite
    sources = [(SECURITY_MIRROR if one.endswith("-security") else MIRROR, one) for one in suite.split("+")]
    for folder in ("lists/partial", "cache/archives/partial"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "sources").write_text("".join(f"deb [arch=amd64 signed-by={KEYRING}] {mirror} {one} main\n" for mirror, one in sources))
    (home / "status").touch()
    options = {
        "APT::Architecture": "amd64", "APT::Sandbox::User": "root", "APT::Default-Release": "",
        "Acquire::Languages": "none", "Acquire::Check-Valid-Until": "false", "Acquire::Retries": "2",
        "Dir::Etc::sourcelist": home / "sources", "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null", "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::lists": home / "lists", "Dir::State::status": home / "status", "Dir::Cache": home / "cache",
    }
    command = [program, *(f"-o{key}={value}" for key, value in options.items()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=APT_SECONDS, cwd=cwd, check=False)
    if done.returncode != 0:
        raise ArchiveError(f"{sources[0][0]} {suite}: {program} {' '.join(arguments)} failed, is the archive reachable? "
                           f"(DEBIAN_MIRROR and DEBIAN_SECURITY_MIRROR name others)\n{done.stderr.strip()}")
    return done.stdout


def fields(suite, package):
    """What the archive says about a package, by the names of the fields."""
    text = apt(suite, "apt-cache", "show", "--no-all-versions", package)
    return dict(line.split(": ", 1) for line in text.split("\n\n")[0].splitlines() if re.match(r"[\w-]+: ", line))


def _packages(suite):
    """The packages that make up the suite's kernel, and its version as `uname -r` prints it."""
    todo, packages = [META], []
    while todo:
        depends = fields(suite, todo.pop()).get("Depends", "")
        names = [item.split()[0] for item in depends.split(", ") if PARTS.match(item)]
        todo += [name for name in names if name not in packages]
        packages += [name for name in names if name not in packages]
    images = [name for name in packages if name.startswith("linux-image-")]
    if len(images) != 1:
        raise ArchiveError(f"{suite}: {META} depends on {packages}, not on one linux-image-VERSION")
    return packages, images[0].removeprefix("linux-image-").removesuffix("-unsigned")


def _fetch(series, suite, package_version):
    packages, version = _packages(suite)
    print(f"kernel {series}: fetching {version} from {suite}", file=sys.stderr)
    place = _place(series)
    shutil.rmtree(place, ignore_errors=True)
    (place / "debs").mkdir(parents=True)
    apt(suite, "apt-get", "download", *packages, cwd=place / "debs")
    for file in (place / "debs").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", file, place / "root"], check=True)
    shutil.rmtree(place / "debs")
    arrange(place / "root", version)
    known = {"version": version, "suite": suite, "package": package_version}
    (place / "kernel.json").write_text(json.dumps(known))  # last, because this file marks the kernel as complete


def arrange(root, version):
    """Puts modules where both older and newer kmod look for them, and makes their dependencies."""
    if (root / "lib").is_dir() and not (root / "lib").is_symlink():
        shutil.copytree(root / "lib", root / "usr/lib", symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(root / "lib")
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    subprocess.run(["depmod", "-b", root, version], check=True, env=os.environ | {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"})


def main():
    """Fetches the named kernels, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--refresh", action="store_true", help="ask the archive even if it was asked today")
    parser.add_argument("series", nargs="*", choices=[[], *SERIES], help="default: all")
    arguments = parser.parse_args()
    for series in arguments.series or SERIES:
        kernel = get(series, arguments.refresh)
        print(f"{series}\t{kernel.version}\t{kernel.suite}\t{kernel.image}")


if __name__ == "__main__":
    try:
        main()
    except ArchiveError as error:
        sys.exit(str(error))
