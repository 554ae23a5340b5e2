"""Runs fuzz targets for a short time, if they have been built."""

import re
import subprocess
from pathlib import Path

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"
SECONDS = 4


def targets():
    """Name and program of each target that is built."""
    built = FUZZ / "target/x86_64-unknown-linux-gnu/release"
    names = [path.stem for path in sorted(FUZZ.joinpath("fuzz_targets").glob("*.rs"))]
    return {name: built / name for name in names if (built / name).is_file()}


def slice_of(name, program, seed, folder):
    """Runs a target for a short time; returns how many inputs it tried. A finding fails the step, and its file is kept."""
    findings = folder / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    corpus = folder / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [program, f"-seed={seed}", f"-max_total_time={SECONDS}", "-max_len=2048", "-print_final_stats=1",
         "-timeout=20", f"-artifact_prefix={findings}/{name}-", corpus],
        capture_output=True, text=True, timeout=60 + SECONDS,
    )
    assert done.returncode == 0, f"fuzz target {name} found something, -seed={seed}: {done.stderr[-2000:]}"
    return int(re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)[1])
