"""Runs in a guest: Linux's forwarding scripts, without Bora and with it. Writes one JSON object per result.

    python3 tests/vm/selftests/guest.py FILE

The file: {"selftests": "/.../selftests", "scripts": ["router.sh"], "modes": ["linux", "express"],
"vrfs": ["namespaces"], "seconds": 600, "out": "/tmp/out", "bora": "/.../bora"}
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TEST = re.compile(r"^TEST: (.*?)\s*\[\s*(\w+)\s*\]")
# On virtual links the scripts may wait and ping less than on cards.
SETTINGS = {"WAIT_TIME": "1", "PING_COUNT": "5", "PING_TIMEOUT": "10", "KSFT_MACHINE_SLOW": "yes"}
SKIPPED = 4  # kselftest's exit code


def hooked(selftests, folder):
    """Copies the scripts, and makes their library source the hook."""
    copy = folder / "selftests"
    for part in ("net", "kselftest"):
        if (selftests / part).exists():
            shutil.copytree(selftests / part, copy / part, symlinks=True)
    with open(copy / "net/forwarding/lib.sh", "a") as library:
        library.write('\nsource "$BORA_HOOK"\n')
    return copy / "net/forwarding"


def run(folder, script, mode, vrfs, task, record):
    """Runs a script once; returns its tests with their results, and the counters of each Bora."""
    environment = os.environ | SETTINGS | {
        "BORA": task["bora"], "BORA_HOOK": str(HERE / "hook.sh"), "BORA_RECORD": str(record / "bora"), "VRFS": vrfs,
        "BORA_PATH": "" if mode == "linux" else mode,
    }
    record.mkdir(parents=True)
    started = time.monotonic()
    # separate namespaces for processes, links and mounts, so that nothing of a run is left for the next
    command = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
               "mount -t tmpfs tmpfs /run && mkdir /run/netns && ip link set lo up && exec bash " + script]
    with open(record / "output.txt", "w+") as output:
        child = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=output, stderr=output)
        try:
            code = child.wait(task["seconds"])
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            code = None
        output.seek(0)
        tests = [match.groups() for line in output if (match := TEST.match(line))]
    return {
        "script": script, "mode": mode, "vrfs": vrfs, "code": code, "seconds": round(time.monotonic() - started),
        "tests": tests, "boras": [account(path) for path in sorted(record.glob("bora.*.drops"))],
        "failed": (record / "bora.failed").read_text() if (record / "bora.failed").exists() else "",
    }


def account(path):
    """How many packets one Bora sent, left to Linux (and why) and dropped."""
    try:
        report = json.loads(path.read_text())
        guard = json.loads(path.with_suffix(".sync").read_text()).get("guard")
    except ValueError:
        return {"error": path.read_text()[:200]}
    return {"where": path.name.split(".")[1], "guard": guard,
            **{name: report.get(name) for name in ("received", "sent", "passed", "drops", "punts")}}


def main():
    """Runs all scripts in all modes."""
    task = json.loads(Path(sys.argv[1]).read_text())
    out = Path(task["out"])
    folder = hooked(Path(task["selftests"]), Path(task.get("work", "/tmp")))
    with open(out / "results.jsonl", "a") as results:
        for script in task["scripts"]:
            for mode in task["modes"]:
                for vrfs in task["vrfs"]:
                    name = f"{script.removesuffix('.sh')}-{mode}-{vrfs}"
                    result = run(folder, script, mode, vrfs, task, out / name)
                    results.write(json.dumps(result) + "\n")
                    results.flush()
                    failed = [test for test, state in result["tests"] if state == "FAIL"]
                    print(f"{name}: exit {result['code']}, {result['seconds']} s, {len(result['tests'])} tests, "
                          f"failed: {failed}", flush=True)


if __name__ == "__main__":
    main()
