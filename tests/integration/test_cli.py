"""The command line: help, tables, JSON, completions, man page."""

import json
import os
import re
import shlex
import subprocess
import time
import tomllib
from pathlib import Path

import pytest

from lib import bora
from lib.bora import Bora
from lib.netns import run
from lib.topology import Network

pytestmark = pytest.mark.bora
VIEWS = ["ports", "routes", "neighbours", "drops", "workers", "sync"]


@pytest.fixture(scope="module")
def running(bora_path):
    """A network with Bora running."""
    network = Network(bora_path)
    yield network
    network.close()


@pytest.mark.parametrize("arguments, words", [
    (["--help"], ["run", "show", "stop", "check"]),
    (["run", "--help"], ["--port", "--path", "--cores"]),
    (["show", "--help"], VIEWS),
    (["--version"], ["bora"]),
])
def test_help(arguments, words):
    """Help lists commands and options; it needs no privileges and no daemon."""
    done = run(bora.binary(), *arguments)
    assert not done.stderr
    for word in words:
        assert word in done.stdout, f"{word} is missing in {' '.join(arguments)}"


@pytest.mark.parametrize("view", VIEWS)
def test_show(running, view):
    """Every view exists as a table and as JSON."""
    table = running.router.exec(bora.binary(), "show", view)
    assert table.stdout.strip() and not table.stderr
    report = running.bora.show(view)
    assert isinstance(report, (dict, list))
    assert report or view == "workers", "only express has no workers"


def test_show_ports_names_every_port(running):
    """The ports, their path and their mode are there."""
    text = json.dumps(running.bora.show("ports"))
    for word in ("r0", "r1", "r2", running.backend):
        assert word in text, f"{word} is missing in {text}"


def test_show_sync(running):
    """Kernel and FIB agree on an idle network."""
    report = running.bora.wait_in_sync()
    assert report["in_sync"] is True and any(key.startswith("since") for key in report)


def test_show_routes_has_the_kernels_routes(running):
    """Every IPv4 and IPv6 network of the test is listed."""
    text = json.dumps(running.bora.show("routes"))
    for prefix in ("198.19.0.0/16", "2001:db8:f1::/48", "10.0.2.0/24"):
        assert prefix in text, f"{prefix} is missing"


def test_show_neighbours_has_the_kernels_neighbours(running):
    """The permanent neighbours of the test are listed."""
    text = json.dumps(running.bora.show("neighbours"))
    assert running.host4(1) in text and running.host_mac(1) in text


def test_watch_repeats(running):
    """--watch prints again and again until it is ended."""
    watching = running.router.popen(
        bora.binary(), "show", "ports", "--watch", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            watching.wait(2.5)
    finally:
        watching.terminate()
        output, errors = watching.communicate(timeout=5)
    assert output.count("r0") >= 2, f"{output}\n{errors}"


def test_check_of_this_machine(running):
    """`bora check` finds that this machine can run it: Bora is running on it."""
    done = running.router.exec(bora.binary(), "check", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions(shell, tmp_path):
    """Completions name the commands; bash accepts its script."""
    script = run(bora.binary(), "completions", shell).stdout
    assert "bora" in script and "show" in script
    if shell == "bash":
        (tmp_path / "bora.bash").write_text(script)
        run("bash", "-n", str(tmp_path / "bora.bash"))


def test_man_page():
    """The man page is roff and names its sections."""
    page = run(bora.binary(), "man").stdout
    assert ".TH" in page and "SYNOPSIS" in page and "bora" in page


def test_show_without_a_daemon(kernel_net):
    """Without a daemon: one line that says so, exit code 1."""
    done = kernel_net.router.exec(bora.binary(), "show", "drops", check=False)
    assert done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_stop_ends_the_daemon(kernel_net, bora_path):
    """`bora stop --detach` ends a running Bora, which exits with 0 and leaves nothing attached."""
    net = kernel_net
    net.bora = Bora(net.router, ["r0", "r1", "r2"], bora_path)
    net.bora.start()
    net.router.exec(bora.binary(), "stop", "--detach")
    assert net.bora.process.wait(10) == 0, net.bora.output()
    assert "xdp" not in net.router.ip("link", "show", "r0").stdout
    net.wait_until_forwarding()


def printing(folder, path):
    """What prints, one line a command; Bora runs by this path on r0, r1 and r2."""
    config, table, bundle = folder / "bora.toml", folder / "table", folder / "bundle.tar.gz"
    config.write_text(f'path = "{path}"\n[[port]]\nname = "r0"\n[[port]]\nname = "r1"\n')
    table.write_text("192.0.2.0/24 1\n198.51.100.0/24 2\n")
    return [shlex.split(line) for line in f"""
        --version
        --help
        help show
        show ports --help
        show drops
        show ports --json
        show sync --watch
        top --once
        web --listen 127.0.0.1:0
        capture -w -
        prove --input r0
        trace --port r0 --packet "udp 10.0.0.2:1 10.0.1.2:2"
        apply --dry-run {config}
        diff {config}
        support {bundle}
        check
        check {config}
        save
        save -
        schema
        lab fib --table {table} --rounds 1
        lab list
        test plans
        test show rfc2544
        test check rfc2544
        test schema
        completions bash
        completions fish
        man
    """.strip().splitlines()]


# The daemon, what prints nothing, what cannot be done again and again, and what needs the engine.
OTHERS = {"run", "set", "confirm", "rollback", "stop", "profile", "upgrade"}


def ends(running, arguments, **streams):
    """Return code and what standard error says."""
    process = running.router.popen(bora.binary(), *arguments, text=True, **{"stderr": subprocess.PIPE, **streams})
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.slow
def test_an_output_that_takes_nothing_is_an_error(running, bora_path, tmp_path):
    """A full disk is an error with its cause, a closed pipe ends a command in silence, and without a place for errors
    commands do not panic. All commands: none is forgotten."""
    lines = printing(tmp_path, bora_path)
    known = set(re.findall(r"^  (\w+) ", run(bora.binary(), "--help").stdout.partition("Commands:")[2], re.MULTILINE))
    assert known == OTHERS | {line[0] for line in lines if line[0][0] != "-"}
    wrong = []
    with open("/dev/full", "w") as full:
        for line in lines:
            code, errors = ends(running, line, stdout=full)
            if code != 1 or "standard output" not in errors or "No space left" not in errors or "panick" in errors:
                wrong.append((line, "full", code, errors))
            reader, writer = os.pipe()
            os.close(reader)
            code, errors = ends(running, line, stdout=writer)
            os.close(writer)
            if code != 141 or "bora: " in errors or "panick" in errors:
                wrong.append((line, "closed", code, errors))
        for line in [["show", "nothing"], ["diff", "/nothing"], ["check", "/nothing"], ["nothing"], ["test", "compare", "/1", "/2"]]:
            code, _ = ends(running, line, stderr=full, stdout=subprocess.DEVNULL)
            if code not in (1, 2):
                wrong.append((line, "full errors", code, ""))
    for line in [["save", "/dev/full"], ["capture", "-w", "/dev/full"]]:
        code, errors = ends(running, line)
        if code != 1 or "/dev/full" not in errors:
            wrong.append((line, "file", code, errors))
    assert not wrong, "\n".join(map(str, wrong))


def test_save_writes_where_it_is_told(running, tmp_path):
    """`-` is the standard output, and nobody else may read a file, which may have secrets."""
    printed = running.router.exec(bora.binary(), "save").stdout
    assert running.router.exec(bora.binary(), "save", "-").stdout == printed and "[[port]]" in printed
    running.router.exec(bora.binary(), "save", str(tmp_path / "saved.toml"))
    assert (tmp_path / "saved.toml").read_text() == printed
    assert (tmp_path / "saved.toml").stat().st_mode & 0o777 == 0o600


ROOT = Path(__file__).resolve().parents[2]
REASONS = tomllib.loads((ROOT / "router/contract/contract.toml").read_text())["reason"]
# What stands for something in cures, and what it is in the network of the tests.
NAMES = {"IFACE": "r0", "PEER": "r0", "ADDRESS": "10.0.1.2"}
# What completes the commands that a cure leaves open.
ENDS = {"ethtool -K": " r0 rx on", "ethtool -L": " r0 rx 1", "ethtool -G": "", "bridge fdb": " show", "ip neighbour": ""}
# No commands and no keys: options of ethtool.
OTHERS_WORDS = {"tx"}


def cures():
    """(reason, what stands in backquotes, or the name of a sysctl)"""
    for reason in REASONS:
        for what in re.findall(r"`([^`]+)`", reason["do"]) + re.findall(r"net\.ipv[46][\w.]+", reason["do"]):
            yield reason["name"], re.sub("|".join(NAMES), lambda name: NAMES[name[0]], what)


def test_cures_can_be_carried_out(running):
    """What an operator is told to do about each reason can be done: commands run, options, keys and sysctls exist."""
    keys = json.dumps(json.loads(run(bora.binary(), "schema").stdout))
    options = run(bora.binary(), "run", "--help").stdout
    failed = []
    for reason, what in cures():
        if what.startswith("net."):
            done = running.router.exec("cat", f"/proc/sys/{what.replace('.', '/')}", check=False).returncode == 0
        elif what.startswith("--"):
            done = what.split()[0] in options
        elif what == "ethtool -G":  # a veth has no such rings, so that it only parses
            done = "--set-ring" in run("ethtool", "--help").stdout
        elif " " in what:
            done = running.router.exec(*(what + ENDS.get(what, "")).split(), check=False).returncode == 0 \
                if not what.startswith("bora ") else running.router.exec(bora.binary(), *what.split()[1:], check=False).returncode == 0
        else:
            done = what in OTHERS_WORDS or f'"{what}"' in keys or what in {one["name"] for one in REASONS}
        if not done:
            failed.append((reason, what))
    assert not failed


def test_a_deaf_veth_is_named(kernel_net):
    """Express sends nothing by a veth whose other end has neither XDP nor GRO: that and its cure are said before the start and
    while Bora runs, until it is done."""
    net, cure = kernel_net, "ethtool -K PEER gro on"
    host = next(space for space in net.namespaces if space.name.endswith("-h1"))
    host.exec("ethtool", "-K", "h1", "gro", "off")
    checked = net.router.exec(bora.binary(), "check", "--port", "r0", "--port", "r1").stdout
    lines = {line.split()[1]: line for line in checked.splitlines() if line.split()[1] in ("r0:", "r1:")}
    assert lines["r0:"].startswith("ok") and lines["r1:"].startswith("advice") and cure in lines["r1:"], checked
    net.bora = Bora(net.router, ["r0", "r1"], "express")
    net.bora.start()
    for words in (["show", "sync"], ["show", "ports"], ["top", "--once"]):
        said = " ".join(net.router.exec(bora.binary(), *words).stdout.replace("│", " ").split())
        assert "the other end of this veth" in said, (words, said)
    host.exec("ethtool", "-K", "h1", "gro", "on")
    deadline = time.monotonic() + 10
    while cure in net.router.exec(bora.binary(), "show", "sync").stdout:
        assert time.monotonic() < deadline, "it is said though it is done"
        time.sleep(0.2)
