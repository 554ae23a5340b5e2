"""The control side under people who ask too much, and after what fails: Bora follows Linux, and says what has happened."""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from lib import routes
from lib.bora import Bora, binary, runtime_folder

pytestmark = pytest.mark.bora
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
TWO = 'path = "express"\n[[port]]\nname = "r0"\n[[port]]\nname = "r1"\n'
THREE = TWO + '[[port]]\nname = "r2"\n'


@pytest.fixture
def start(kernel_net, tmp_path):
    """Starts Bora with a file's text on the kernel's network."""
    def starting(text):
        path = tmp_path / "bora.toml"
        path.write_text(text)
        kernel_net.router.ip("link", "set", "lo", "up")
        kernel_net.bora = Bora(kernel_net.router, [], None, ["--config", str(path)])
        kernel_net.bora.start()
        return kernel_net
    return starting


def until(what, seconds=15):
    """Waits until something is true, and returns how long that took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, "it has not happened"
        time.sleep(0.02)
    return time.monotonic() - began


def bora(net, *arguments, check=False, prefix=()):
    return net.router.exec(*prefix, binary(), *arguments, check=check)


def test_readers_do_not_stop_bora_from_following(start, say):
    """Two users who ask for all of 200 000 routes again and again: a change of a route is followed at once."""
    net = start(THREE + '[api]\nlisten = "127.0.0.1:9179"\n')
    table = routes.synthetic_table(4, 200_000, 1)
    routes.write(net.router.name, routes.table_messages(table, [net.host4(1)]))
    until(lambda: net.bora.show("sync")["mirror"]["v4"]["kernel_routes"] > 200_000, 60)
    ask = "while curl -s -o /dev/null http://127.0.0.1:9179/v1/routes; do :; done"
    readers = [net.router.popen(*NOBODY, "sh", "-c", ask, start_new_session=True) for _ in range(2)]
    try:
        time.sleep(0.5)
        took = []
        for gateway in [net.host4(2), net.host4(1)] * 2:
            net.router.ip("route", "replace", "198.51.100.0/24", "via", gateway)
            took.append(until(lambda: gateway in net.bora.show("route", "198.51.100.1")["via"]))
        longest = net.bora.show("lease")["longest_turn"]
    finally:
        for reader in readers:
            os.killpg(reader.pid, signal.SIGKILL)
            reader.wait()
    say(f"followed within {max(took):.2f} s; longest turn {longest}")
    assert max(took) < 5, took  # a busy machine; it was 10 to 30 s


def certificate(tmp_path):
    key, made = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=router", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", made],
                   check=True, capture_output=True)
    return key, made


@pytest.mark.slow
def test_strangers_take_no_descriptors(start, tmp_path):
    """A thousand connections without a handshake leave descriptors to Bora and end no stream of somebody with the token; wrong tokens
    are in the log; SIGHUP and apply bring another token into force."""
    key, made = certificate(tmp_path)
    token = tmp_path / "token"
    token.write_text("one\n")
    net = start(f'{THREE}[api]\nlisten = "127.0.0.1:9179"\ntoken_file = "{token}"\ncertificate = "{made}"\nkey = "{key}"\n')

    def curl(word, path="metrics"):
        return ["curl", "-s", "--cacert", str(made), "-o", "/dev/null", "-w", "%{http_code}", "-m", "8", "-H",
                f"Authorization: Bearer {word}", f"https://127.0.0.1:9179/{path}"]

    def status(word):
        return net.router.exec(*curl(word), check=False).stdout

    live = net.router.popen(*curl("one", "v1/live")[:-5], "-N", "-H", "Authorization: Bearer one", "https://127.0.0.1:9179/v1/live")
    hold = ("import socket, time\nall = [socket.create_connection(('127.0.0.1', 9179)) for _ in range(1000)]\n"
            "print('open', flush=True)\ntime.sleep(60)\n")
    until(lambda: status("one") == "200")
    strangers = net.router.popen("prlimit", "--nofile=4096", "python3", "-c", hold, stdout=subprocess.PIPE, text=True)
    try:
        assert strangers.stdout.readline() == "open\n"
        until(lambda: status("one") == "200")
        descriptors = len(os.listdir(f"/proc/{net.bora.process.pid}/fd"))
        assert descriptors < 600, descriptors
        assert net.bora.show("ports") and net.probe()
        assert live.poll() is None, "the stream has ended"
    finally:
        for process in (strangers, live):
            process.kill()
            process.wait()
    assert status("two") == "401"
    until(lambda: "shows a wrong token" in net.bora.output())
    token.write_text("two\n")
    net.bora.process.send_signal(signal.SIGHUP)
    until(lambda: status("two") == "200")
    assert status("one") == "401"
    token.write_text("three\n")
    assert "read again" in bora(net, "apply", str(tmp_path / "bora.toml")).stdout
    assert status("three") == "200"


@pytest.mark.slow
def test_groups_that_cannot_be_looked_up(kernel_net, tmp_path):
    """While the look-up of a group hangs, root is served, a stranger gets a reader's answer after a while, and SIGTERM ends Bora."""
    file, fifo, program = tmp_path / "bora.toml", tmp_path / "group", tmp_path / "bora"
    file.write_text(TWO)
    os.mkfifo(fifo)  # opened by a reader alone, it blocks
    program.write_text(f'#!/bin/sh\nexec unshare -m {binary()} "$@"\n')
    program.chmod(0o755)
    kernel_net.bora = Bora(kernel_net.router, [], None, ["--config", str(file)], str(program))
    kernel_net.bora.start()
    subprocess.run(["nsenter", "-t", str(kernel_net.bora.process.pid), "-m", "mount", "--bind", fifo, "/etc/group"], check=True)
    path = runtime_folder(kernel_net.router) / "api.sock"
    path.chmod(0o666)
    curl = ["curl", "-s", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", path, "http://bora/v1/ports"]
    strangers = [kernel_net.router.popen(*NOBODY, *curl, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    took = until(lambda: kernel_net.bora.show("ports"))
    assert took < 4, took
    assert [stranger.communicate()[0] for stranger in strangers] == ["200"] * 3
    assert "may look only" in kernel_net.bora.output()
    kernel_net.bora.stop()


def test_only_admins_compare_tables(start):
    """Readers may not have the control loop read all tables."""
    net = start(TWO + '[api]\nlisten = "127.0.0.1:9179"\n')
    answer = net.router.exec("curl", "-s", "http://127.0.0.1:9179/v1/sync?verify=true").stdout
    assert "bora-admin" in answer
    assert net.bora.show("sync", "--verify")["differences"] == []


def ask(net, report):
    """A report's first octets, asked for without a process of its own."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(runtime_folder(net.router) / "api.sock"))
        client.sendall(f"GET /v1/{report} HTTP/1.1\r\nHost: bora\r\nConnection: close\r\n\r\n".encode())
        return client.recv(1 << 16)


def test_a_comparison_of_all_tables_delays_nothing(start, say):
    """While 200 000 routes are compared with Linux's, others get their reports."""
    net = start(THREE)
    routes.write(net.router.name, routes.table_messages(routes.synthetic_table(4, 200_000, 1), [net.host4(1)]))
    until(lambda: net.bora.show("sync")["mirror"]["v4"]["kernel_routes"] > 200_000, 60)
    net.bora.wait_in_sync(60)
    began, answers = time.monotonic(), 0
    comparison = net.router.popen(binary(), "show", "sync", "--verify", "--json", stdout=subprocess.PIPE, text=True)
    while comparison.poll() is None:
        assert b" 200 " in ask(net, "workers")
        answers += 1
    report = json.loads(comparison.communicate()[0])
    longest = net.bora.show("lease")["longest_turn"]
    say(f"compared in {time.monotonic() - began:.1f} s, {answers} answers meanwhile; longest turn {longest}")
    assert answers > 1  # a busy machine; with all of it in one turn there would be one
    assert report["differences"] == [] and report["unverified"] is None


def test_an_apply_that_ends_bora_is_taken_back(start, tmp_path):
    """Killed after an apply, and started with the file later than it had to be confirmed, Bora starts with what was before."""
    net = start(TWO)
    (tmp_path / "bora.toml").write_text(THREE)
    bora(net, "apply", str(tmp_path / "bora.toml"), "--confirm", "1", check=True)
    kept = runtime_folder(net.router) / "unconfirmed.toml"
    assert kept.stat().st_mode & 0o777 == 0o600
    net.bora.kill()
    time.sleep(1.1)
    net.bora.start()
    assert [port["name"] for port in net.bora.show("ports")] == ["r0", "r1"]
    assert "starting with what was before" in net.bora.output() and not kept.exists()


@pytest.mark.slow
def test_going_back_is_tried_again(start, tmp_path):
    """A port that cannot be had again keeps Bora from going back: that is said, and done as soon as it can be."""
    net = start(THREE)
    (tmp_path / "bora.toml").write_text(TWO)
    bora(net, "apply", str(tmp_path / "bora.toml"), "--confirm", "2", check=True)
    known = len(net.bora.show("history"))
    net.router.ip("link", "set", "r2", "name", "away")
    until(lambda: "CANNOT BE TAKEN BACK" in net.bora.output())
    assert "cannot be taken back" in net.bora.show("sync")["notices"][0]
    assert len(net.bora.show("history")) == known
    net.router.ip("link", "set", "away", "name", "r2")
    net.router.ip("link", "set", "r2", "up")
    until(lambda: len(net.bora.show("ports")) == 3)
    assert "is taken back" in net.bora.output() and net.bora.show("sync")["notices"] == []


def test_a_restart_with_a_file_that_was_replaced_warns(start, tmp_path):
    """After a lapsed confirm, a start with the file that was taken back says so, in the log and in `show sync`."""
    net = start(TWO)
    (tmp_path / "bora.toml").write_text(THREE)
    bora(net, "apply", str(tmp_path / "bora.toml"), "--confirm", "1", check=True)
    until(lambda: len(net.bora.show("history")) == 3)
    assert bora(net, "stop").returncode == 0
    net.bora.process.wait(10)
    net.bora.start()
    assert "this start brings configuration 2 back" in net.bora.output()
    assert "`bora rollback 3`" in net.bora.show("sync")["notices"][0]
    bora(net, "rollback", "3", check=True)
    assert net.bora.show("sync")["notices"] == [] and len(net.bora.show("ports")) == 2


def test_a_failed_start_leaves_nothing(kernel_net, start, tmp_path):
    """A token that is not there is found out after the program is attached: it is taken off again, and is no history."""
    with pytest.raises(RuntimeError):
        start(TWO + '[api]\nlisten = "127.0.0.1:9179"\ntoken_file = "/nonexistent"\n')
    for port in ("r0", "r1"):
        assert "xdp" not in kernel_net.router.ip("link", "show", port).stdout
    net = start(TWO)
    kept = [path.read_text() for path in (runtime_folder(net.router) / "history").iterdir()]
    assert kept and not any("/nonexistent" in text for text in kept)


def test_stop_without_permission(start):
    """Who may not stop Bora is told so."""
    net = start(TWO)
    done = bora(net, "stop", prefix=NOBODY)
    assert done.returncode == 1 and "permission" in done.stderr, done
    (runtime_folder(net.router) / "api.sock").chmod(0o666)
    done = bora(net, "stop", prefix=NOBODY)
    assert done.returncode == 1 and "bora-admin" in done.stderr, done
    assert net.bora.alive()


def test_a_long_mtu_leaves_one_port_to_linux(kernel_net, start):
    """The others start. When the MTU is lowered, the interface becomes a port."""
    kernel_net.router.ip("link", "set", "r2", "mtu", "9000")
    net = start(THREE.replace("express", "engine"))
    port = net.bora.show("ports")[2]
    assert port["path"] == "kernel" and "MTU 9000" in port["why"] and "engine" in port["why"], port
    assert net.probe()
    net.router.ip("link", "set", "r2", "mtu", "1500")
    until(lambda: net.bora.show("ports")[-1]["path"] == "engine")
    assert net.probe(to=2)


def test_a_renamed_port(start, tmp_path):
    """An apply with the interface's new name goes on with the port that it is."""
    net = start(THREE)
    before = net.bora.show("ports")[1]
    for step in (("set", "r1", "down"), ("set", "r1", "name", "wan0"), ("set", "wan0", "up")):
        net.router.ip("link", *step)
    (tmp_path / "bora.toml").write_text(THREE.replace("r1", "wan0"))
    assert "port r1 is wan0 now" in bora(net, "apply", str(tmp_path / "bora.toml"), check=True).stdout
    shown = {port["name"]: port for port in net.bora.show("ports")}
    assert set(shown) == {"r0", "wan0", "r2"} and shown["wan0"]["index"] == before["index"]
    assert "xdp" in net.router.ip("link", "show", "wan0").stdout
    (tmp_path / "bora.toml").write_text(THREE.replace("r1", "wan0") + '[workers]\nbudget = 7\n')
    assert bora(net, "apply", str(tmp_path / "bora.toml")).returncode == 0


def test_notes_of_another_namespace(kernel_net, start):
    """What a namespace has left that had this inode before is not acted upon."""
    net = kernel_net
    folder = runtime_folder(net.router)
    (folder / "history").mkdir(parents=True, exist_ok=True)
    (folder / "history" / "7.toml").write_text("# 2026-01-01T00:00:00Z somebody\n[[port]]\nname = \"x\"\n")
    (folder / "twin-op0").touch()
    (folder / "namespace").write_text("another boot 1\n")
    net.router.ip("tuntap", "add", "op0", "mode", "tap")
    bora(net, "stop", "--detach", check=True)
    assert "op0" in net.router.ip("link", "show", "op0").stdout, "the operator's TAP is gone"
    net = start(TWO)
    assert [one["number"] for one in net.bora.show("history")] == [1]
    net.bora.stop()
    assert not Path("/run/bora/bpf", folder.name).exists()
