"""Builds modules for the kernels of kernels.py: a root folder for each, with the kernel's headers and its suite's compiler.

Debian builds modules with the compiler of the suite, which is newer than this machine's, and so are the programs that come with the headers.

    python3 tests/vm/headers.py FOLDER TARGET [SERIES ...]     # builds the module in FOLDER; TARGET/VERSION gets what comes of it
"""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from vm import kernels  # noqa: E402

# What linux-headers-VERSION depends on, besides the compiler and the kernel itself.
PARTS = re.compile(r"linux-(headers|kbuild)-\d")
COMPILER = re.compile(r"(?:linux-compiler-)?(gcc-\d+)(-x86|-for-host)?$")
TOOLS = ["base-files", "bash", "coreutils", "dash", "dpkg", "findutils", "grep", "libc-bin", "make", "mawk", "pahole", "sed"]


def root(kernel):
    """The root folder to build modules for a kernel in, fetched if necessary."""
    place = kernel.folder.with_name(f"headers-{kernel.version}")
    if place.exists():
        return place
    print(f"kernel {kernel.series}: fetching the headers of {kernel.version}", file=sys.stderr)
    first = f"linux-headers-{kernel.version}"
    depends = _depends(kernel, first)
    parts = [first, *filter(PARTS.match, depends)]
    libraries = [name for part in parts for name in _depends(kernel, part) if name.startswith("lib")]
    compilers = [match[1] for match in map(COMPILER.match, depends) if match]
    if not compilers:
        raise kernels.ArchiveError(f"{kernel.suite}: {first} depends on no gcc, but on {depends}")
    suites = f"{kernel.suite.partition('-')[0]}+{kernel.suite}"
    fresh, debs = place.with_name("headers.new"), place.with_name("debs")
    for folder in (fresh, debs):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    kernels.apt(suites, "apt-get", "update", "--error-on=any")
    kernels.apt(suites, "apt-get", "download", *parts, cwd=debs)
    kernels.apt(suites, "apt-get", "install", "--yes", "--download-only", "--no-install-recommends",
                f"-oDir::Cache::archives={debs}", *TOOLS, *compilers, *libraries)
    # base-files has the links of the merged /usr, through which the others are unpacked
    for file in sorted(debs.glob("*.deb"), key=lambda file: not file.name.startswith("base-files_")):
        _unpack(file, fresh)
    (fresh / "usr/bin/awk").symlink_to("mawk")  # their scripts would make it
    for folder in ("dev", "mnt", "proc", "tmp"):
        (fresh / folder).mkdir(exist_ok=True)
    shutil.rmtree(debs)
    fresh.rename(place)
    return place


def _depends(kernel, package):
    """The names of the packages that one depends on, the first of those that may stand for each other."""
    return [item.split()[0] for item in kernels.fields(kernel.suite, package).get("Depends", "").split(", ") if item]


def _unpack(file, folder):
    """As dpkg-deb -x, which would replace links to folders by folders."""
    contents = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", folder], stdin=contents.stdout, check=True)
    if contents.wait() != 0:
        raise kernels.ArchiveError(f"{file} cannot be unpacked")


def copy_sources(folder, target):
    """Copies the sources of a module to where it is built."""
    target.mkdir(parents=True, exist_ok=True)
    for file in (*folder.glob("*.[ch]"), folder / "Kbuild"):
        shutil.copy2(file, target)


def build(kernel, folder, target, *arguments):
    """Builds the module in `folder` for a kernel, in `target`, with arguments for make. Returns whether it went well."""
    place = root(kernel)
    copy_sources(folder, target)
    make = ["make", "-C", f"/usr/src/linux-headers-{kernel.version}", "M=/mnt", *arguments, "modules"]
    mounts = [("/dev", "dev"), ("/proc", "proc"), (target.resolve(), "mnt")]
    script = "\n".join(["set -e", *(f"mount --bind {shlex.quote(str(one))} {shlex.quote(str(place / there))}" for one, there in mounts),
                        f"exec {shlex.join(['chroot', str(place), *make])}"])
    command = ["unshare", "--mount", "sh", "-c", script]
    return subprocess.run(command, check=False, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}).returncode == 0


def main():
    """Exit code 1 if a build failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("series", nargs="*", choices=[[], *kernels.SERIES], help="default: all")
    arguments = parser.parse_args()
    good = True
    for series in arguments.series or kernels.SERIES:
        kernel = kernels.get(series)
        good &= build(kernel, arguments.folder, arguments.target / kernel.version)
    sys.exit(not good)


if __name__ == "__main__":
    try:
        main()
    except kernels.ArchiveError as error:
        sys.exit(str(error))
