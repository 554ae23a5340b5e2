"""`bora test` on a lab of its own: reports, Ctrl-C, bad plans, comparisons."""

import json
import os
import signal
import subprocess
import time

import pytest

from lib import bora
from lib.netns import run

# they measure, and other tests on the machine would cause loss
pytestmark = [pytest.mark.bora, pytest.mark.alone]
LIMIT = 120


def command(*arguments):
    """A run of a plan, short and repeatable."""
    return [bora.binary(), "test", "run", *arguments, "--duration", "short", "--seed", "1"]


def namespaces_of(pid):
    """Network namespaces of a run that still exist."""
    return [name for name in os.listdir("/run/netns") if name.startswith(f"bora-lab-{pid}-")]


def measure(directory, *arguments):
    """Runs a plan in a directory; returns exit code, report and output."""
    process = subprocess.Popen(command(*arguments, "--output", str(directory)),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output, _ = process.communicate(timeout=LIMIT)
    assert not namespaces_of(process.pid), output
    return process.returncode, report(directory), output


def report(directory):
    """The only report in a directory; it must exist as HTML, too."""
    files = list(directory.glob("*.json"))
    assert len(files) == 1 and files[0].with_suffix(".html").stat().st_size > 10_000
    return json.loads(files[0].read_text())


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """The smoke test of the kernel, and the folder of its report."""
    folder = tmp_path_factory.mktemp("smoke")
    start = time.monotonic()
    code, found, output = measure(folder, "smoke", "--lab", "kernel", "--sizes", "64")
    return folder, code, found, output, time.monotonic() - start


def test_smoke(smoke, say):
    """All tests of the plan are done, every frame is accounted for, and the report has its warning."""
    _, code, found, output, seconds = smoke
    assert code == 0 and found["complete"] is True, output
    throughput = [finding for test in found["tests"] for finding in test["findings"] if finding["metric"] == "throughput"]
    assert len(throughput) == 1 and throughput[0]["low"], output
    say(f"smoke: {throughput[0]['low']:.0f} frames/s in {seconds:.1f} s")
    # ten on an idle machine; on a busy one the tester itself is the limit, and says so
    assert seconds < 30 and throughput[0]["low"] > 1000 or not throughput[0]["valid"], output
    assert found["seed"] == 1 and len(found["calibration"]) == 1 and "Linux" in dict(found["subject"])["router"]
    assert all(port["is_virtual"] for port in found["ports"]) and "are virtual" in output
    trials = [trial for test in found["tests"] for trial in test["trials"]]
    assert len(trials) > 6
    for trial in trials:
        assert trial["sent"] == trial["received"] + trial["lost"]
        assert trial["sent"] > 0 or not trial["valid"]
        assert trial["duplicated"] == trial["corrupted"] == trial["misrouted"] == 0
        assert trial["valid"] is (trial["reason"] == "") and trial["lateness_max"] >= trial["lateness"] * 0.99
    # beside each result stands what happened to frames; what the tester limited has a reason and no value
    assert "faults" in output
    for finding in (finding for test in found["tests"] for finding in test["findings"]):
        assert finding["trials"] or not finding["valid"], finding
        assert finding["valid"] or finding["reason"] and finding["value"] is None, finding


def test_nothing_comes_through(tmp_path):
    """A run fails if the router forwards nothing, and the report says so; but all tests were done."""
    plan = tmp_path / "dead.toml"
    plan.write_text('title = "Dead"\nsizes = [64]\n[router]\ninstall = false\n[traffic]\npattern = "one way"\n'
                    'destinations = "203.0.113.0/24"\n[[test]]\nmethod = "saturation"\nrates = ["1k packets/s"]\n'
                    'time = "200 ms"\ntrials = 1\n')
    code, found, output = measure(tmp_path, str(plan), "--lab", "kernel", "--no-calibration")
    trial = found["tests"][0]["trials"][0]
    assert trial["sent"] > 0 == trial["received"], output
    assert code == 1 and found["complete"] is True, output
    assert "no frame came through in 1 of 1 tests" in output and "No frame came through in 1 of 1 tests" in output


@pytest.mark.slow
def test_express_and_compare(smoke, tmp_path):
    """Bora is tested the same way, and the two reports can be compared."""
    code, found, output = measure(tmp_path, "smoke", "--lab", "express", "--only", "throughput", "--sizes", "64")
    assert code == 0 and found["complete"] is True, output
    assert "express" in dict(found["subject"])["router"]
    files = [str(next(folder.glob("*.json"))) for folder in (smoke[0], tmp_path)]
    compared = subprocess.run([bora.binary(), "test", "compare", *files], capture_output=True, text=True,
                              timeout=LIMIT, check=False)
    # on a busy machine the tester may find no value, and says so
    is_found = found["tests"][0]["findings"][0]["value"] is not None
    assert compared.returncode in ((0, 1) if is_found else (0, 2)), compared.stdout + compared.stderr
    assert "throughput" in compared.stdout
    same = subprocess.run([bora.binary(), "test", "compare", files[0], files[0]], capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    assert same.returncode == 0, same.stdout


@pytest.mark.slow
def test_restart(tmp_path):
    """The outage of an engine that is restarted under load is shorter than the trial."""
    plan = tmp_path / "restart.toml"
    plan.write_text('title = "Restart"\nsizes = [64]\n[[test]]\nmethod = "outage"\nrate = "2k packets/s"\n'
                    'time = "6 s"\ntrials = 1\n')
    code, found, output = measure(tmp_path, str(plan), "--lab", "engine", "--no-calibration")
    assert code == 0, output
    outage = [finding for finding in found["tests"][0]["findings"] if finding["goal"] == "longest gap"]
    # on a busy machine the tester may be late itself, and says so
    assert outage and (0 < outage[0]["value"] < 4000 if outage[0]["valid"] else outage[0]["reason"]), output


def test_interrupted(tmp_path):
    """Ctrl-C in the middle of a run keeps what was measured, and leaves no namespace."""
    process = subprocess.Popen(command("rfc2544", "--lab", "kernel", "--no-calibration", "--output", str(tmp_path)),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(4)
    assert namespaces_of(process.pid)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=LIMIT)
    assert not namespaces_of(process.pid), output
    found = report(tmp_path)
    assert process.returncode == 1 and found["complete"] is False, output
    assert found["tests"] and found["tests"][0]["trials"]


@pytest.mark.parametrize("text, words", [
    ('title = "x"\nsizes = [64]\n[[test]]\nmethod = "throughputt"\n', ["line 4", "throughputt"]),
    ('title = "x"\nsizes = [20]\n[[test]]\nmethod = "throughput"\n', ["line 2", "20"]),
    ('title = "x"\nsizes = [64]\n', ["no tests"]),
])
def test_bad_plan(tmp_path, text, words):
    """A bad plan is refused with its line and the reason, before anything is made."""
    plan = tmp_path / "bad.toml"
    plan.write_text(text)
    done = subprocess.run(command(str(plan), "--lab", "kernel"), capture_output=True, text=True, timeout=LIMIT,
                          check=False)
    assert done.returncode in (1, 2)
    for word in words:
        assert word in done.stderr, done.stderr


def test_arguments_that_contradict(tmp_path):
    """Ports together with a lab are refused, because a lab has its own ports."""
    done = subprocess.run(command("smoke", "--lab", "kernel", "--port", "a=e0"), capture_output=True, text=True,
                          timeout=LIMIT, check=False, cwd=tmp_path)
    assert done.returncode == 2 and "--port" in done.stderr
    assert run(bora.binary(), "test", "plans").stdout.startswith("smoke")
