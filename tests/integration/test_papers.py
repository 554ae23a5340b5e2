"""`bora lab`: the experiments of the papers."""

import re
import shutil
import subprocess

from lib.bora import binary


def lab(*words, program=None):
    return subprocess.run([program or binary(), "lab", *words], capture_output=True, text=True, timeout=300)


def test_every_experiment_is_listed():
    listed = lab("list").stdout
    names = re.findall(r"^  (\w+/[\w-]+) ", listed, re.MULTILINE)
    assert {name.split("/")[0] for name in names} == {"bianco05", "kth08", "bolla08", "hero09", "pels07"}
    assert len(names) == len(set(names)) > 40


def test_an_unknown_name_is_refused():
    run = lab("run", "bianco05/fig99")
    assert run.returncode == 1
    assert "`bianco05/fig99` is no experiment and no paper; `bora lab list` names them" in run.stderr


def test_an_experiment_on_simulated_cards_holds_and_has_its_page(tmp_path):
    run = lab("run", "hero09/starvation", "hero09/table1", "--output", str(tmp_path))
    assert run.returncode == 0, run.stderr
    assert re.search(r"^  holds +share of a source of short frames", run.stdout, re.MULTILINE)
    table = (tmp_path / "papers.md").read_text()
    assert "| starvation<br>" in table
    assert "2 experiments: 1 hold, 0 do not, 0 cannot be repeated here, 1 have nothing to run." in table
    page = (tmp_path / "papers" / "hero09-starvation.html").read_text()
    assert "round robin over requests and over responses" in page
    assert "hero/bench/run.py --only starvation --quick" in page


def test_work_that_cannot_be_done_here_says_why(tmp_path):
    """The benches are not beside a program that was copied."""
    program = shutil.copy(binary(), tmp_path / "bora")
    shutil.copy(binary() + "-lab", tmp_path / "bora-lab")
    run = lab("run", "kth08/10g", program=program)
    assert run.returncode == 0
    assert "not here: `bench-engine` is not in" in run.stdout
    assert "`make papers` builds it" in run.stdout


def test_named_ports_take_the_place_of_the_lab():
    run = lab("run", "pels07/latency", "--port", "a=no-such-card", "--port", "b=nor-this")
    assert run.returncode == 1
    assert "pels on the router between a=no-such-card and b=nor-this" in run.stderr
    assert re.search("fails: bora: .*no-such-card", run.stdout)


def test_ports_that_no_experiment_takes_are_refused():
    run = lab("run", "hero09/table1", "--port", "a=eth0")
    assert run.returncode == 1
    assert "none of these experiments tests a router from outside, so none takes `--port`" in run.stderr
