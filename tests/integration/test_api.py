"""The API: who may do what, what strangers send, metrics, the address of `[api]`, and configurations that were in force."""

import importlib
import json
import random
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from lib.bora import Bora, binary, runtime_folder
from lib.topology import Network

pytestmark = pytest.mark.bora


@pytest.fixture
def net(bora_path):
    """Router and hosts with Bora on one of its paths."""
    network = Network(bora_path)
    yield network
    network.close()


PORTS = "".join(f'[[port]]\nname = "r{n}"\n' for n in range(3))


def socket_path(net):
    return str(runtime_folder(net.router) / "api.sock")


def ask(net, *arguments, user=None):
    """curl on the socket; returns status and body."""
    who = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"] if user else []
    done = net.router.exec(*who, "curl", "-s", "-m", "20", "-w", "\n%{http_code}", "--unix-socket", socket_path(net), *arguments)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_who_may_do_what(net):
    """Root may order; others who can connect may only look, and do not see secrets. Orders are logged with who gave them."""
    Path(socket_path(net)).chmod(0o666)
    assert ask(net, "http://bora/v1/ports", user="65534")[0] == 200
    for path in ("stop", "confirm", "apply", "workers?mode=poll", "profile?seconds=1", "capture", "trace", "prove", "decide"):
        status, body = ask(net, "-X", "POST", f"http://bora/v1/{path}", user="65534")
        assert status == 403 and "bora-admin" in body, (path, body)
    assert net.bora.alive() and net.probe()
    assert ask(net, "-X", "POST", "http://bora/v1/confirm")[0] == 400
    log = net.bora.output()
    assert "root (process " in log and "POST /v1/confirm: 400" in log, log
    assert "may not order POST /v1/stop" in log, log


@pytest.mark.parametrize("accept, module, kind", [
    (None, "parser", "text/plain; version=0.0.4"),
    ("application/openmetrics-text; version=1.0.0", "openmetrics.parser", "application/openmetrics-text; version=1.0.0"),
])
def test_metrics(net, accept, module, kind):
    """Each client gets the format that it asks for, and its own parser accepts it, with the counters of ports and reasons."""
    parser = importlib.import_module(f"prometheus_client.{module}")
    assert net.probe()
    status, text = ask(net, "-i", *(["-H", f"Accept: {accept}"] if accept else []), "http://bora/metrics")
    head, _, text = text.replace("\r\n", "\n").partition("\n\n")
    assert status == 200 and f"content-type: {kind}" in head.lower(), head
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert all(family.documentation for family in families.values())
    dropped = {(one.labels["port"], one.labels["reason"]): one.value for one in families["bora_dropped_packets"].samples}
    assert dropped["r0", "blackhole"] == 0 and ("r0", "no_lease") not in dropped, "zeros are there, of what can be dropped"
    received = {one.labels["port"]: one.value for one in families["bora_port_receive_packets"].samples}
    assert set(received) == {"r0", "r1", "r2"} and received["r0"] > 0
    shown = {port["name"]: port["rx_packets"] for port in net.bora.show("ports")}
    assert all(received[name] <= shown[name] for name in shown)
    reasons = {one.labels["reason"] for one in families["bora_to_linux_packets"].samples if one.value}
    assert reasons <= set(net.bora.show("drops")["punts"])
    assert families["bora_in_sync"].samples[0].value in (0, 1)
    prefixes = {one.labels["family"]: one.value for one in families["bora_fib_prefixes"].samples}
    assert prefixes["ipv4"] > 0 and prefixes["ipv6"] > 0
    assert ("bora_worker_loops" in families) == (net.backend == "engine")


def garbage(seed):
    """What a hostile or broken client sends."""
    rng = random.Random(seed)
    path = rng.choice(["/v1/ports", "/v1/routes/%", "/v1/apply", "/metrics", "/v1/routes/10.0.0.1", "/" + "a" * 9000, "/v1/capture?limit=x"])
    method = rng.choice(["GET", "POST", "PUT", "DELETE", "\0", "G" * 500])
    head = f"{method} {path} HTTP/1.1\r\nhost: bora\r\n".encode()
    more = rng.choice([b"content-length: 99999999\r\n\r\nx", b"transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n", b"\r\n",
                       b"x: " + b"y" * 70000 + b"\r\n\r\n", b"content-length: 20\r\n\r\n" + rng.randbytes(20)])
    whole = head + more
    return rng.choice([whole, rng.randbytes(200), whole[:rng.randrange(len(whole))]])


def test_garbage_and_slow_clients(net):
    """Nonsense, and a thousand clients that send half a request or never read, keep nobody from asking and no packet from
    being forwarded."""
    path, clients = socket_path(net), []
    try:
        for seed in range(1000):
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(5)
            try:
                client.connect(path)
                client.send(garbage(seed) if seed % 2 else b"GET /v1/routes HTTP/1.1\r\nhost: bora\r\n" + b"\r\n" * (seed % 4 // 2))
            except OSError:
                pass  # it has been refused
            clients.append(client)
            if seed % 100 == 0:
                assert net.probe()
        assert ask(net, "http://bora/v1/ports")[0] == 200
        assert net.bora.show("sync")
        for _ in range(20):
            assert net.probe()
    finally:
        for client in clients:
            client.close()
    assert net.bora.alive() and "panicked" not in net.bora.output()
    assert ask(net, "http://bora/v1/ports")[0] == 200


def start_with(net, tmp_path, text):
    """A Bora with a file."""
    path = tmp_path / "bora.toml"
    path.write_text('path = "express"\n' + PORTS + text)
    net.bora = Bora(net.router, [], None, ["--config", str(path)])
    net.bora.start()
    return path


def curl(net, *arguments):
    done = net.router.exec("curl", "-s", "-m", "10", "-w", "\n%{http_code}", *arguments, check=False)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_address_with_tls_and_token(kernel_net, tmp_path):
    """The address of `[api]`: only with the token, only encrypted, only reports."""
    net = kernel_net
    net.router.ip("link", "set", "lo", "up")
    key, certificate, token = (tmp_path / name for name in ("key.pem", "certificate.pem", "token"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=router", "-addext", "subjectAltName=IP:10.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    token.write_text("open sesame\n")
    start_with(net, tmp_path, f'[api]\nlisten = "10.0.0.1:9179"\ntoken_file = "{token}"\ncertificate = "{certificate}"\nkey = "{key}"\n')
    url, trust = "https://10.0.0.1:9179/metrics", ["--cacert", str(certificate)]
    assert curl(net, *trust, url)[0] == 401
    assert curl(net, *trust, "-H", "Authorization: Bearer open", url)[0] == 401
    for header in (["-H", "Authorization: Bearer open sesame"], ["-u", "anybody:open sesame"]):
        status, body = curl(net, *trust, *header, url)
        assert status == 200 and "bora_fib_next_hops" in body
        assert curl(net, *trust, *header, "-X", "POST", "https://10.0.0.1:9179/v1/stop")[0] == 403
    assert curl(net, "http://10.0.0.1:9179/metrics")[0] != 200
    assert net.bora.alive()


def test_address_on_loopback(kernel_net, tmp_path):
    """Without a token only this machine can ask, and no page of another site by a name of its own."""
    net = kernel_net
    net.router.ip("link", "set", "lo", "up")
    start_with(net, tmp_path, '[api]\nlisten = "127.0.0.1:9179"\n')
    assert curl(net, "http://127.0.0.1:9179/metrics")[0] == 200
    assert curl(net, "-H", "Host: evil.example", "http://127.0.0.1:9179/metrics")[0] == 421
    assert curl(net, "-X", "POST", "http://127.0.0.1:9179/v1/stop")[0] == 403


@pytest.mark.parametrize("section, words", [
    ('listen = "10.0.0.1:9179"\n', "token_file"),
    ('token_file = "/x"\n', "listen"),
    ('listen = "127.0.0.1:9179"\nkey = "/x"\n', "belong together"),
    ('listen = "127.0.0.1:9179"\ntoken_file = "/nonexistent"\n', "/nonexistent"),
    ('listen = "192.0.2.77:9179"\ntoken_file = "/etc/hostname"\n', "cannot listen on 192.0.2.77:9179"),
])
def test_wrong_sections(kernel_net, tmp_path, section, words):
    """What is wrong with `[api]` is said at once."""
    with pytest.raises(RuntimeError) as ended:
        start_with(kernel_net, tmp_path, "[api]\n" + section)
    assert words in str(ended.value)


def bora(net, *arguments, check=True):
    return net.router.exec(binary(), *arguments, check=check)


def test_history(kernel_net, tmp_path, monkeypatch):
    """`diff` shows, `rollback` brings back; what nobody confirmed is in the history, too; a restart forgets nothing."""
    net = kernel_net
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))  # as systemd says it
    path = start_with(net, tmp_path, "")
    path.write_text('path = "express"\n' + PORTS + "[workers]\nbudget = 77\n")
    changes = bora(net, "diff", str(path)).stdout.splitlines()
    assert "- budget = 300" in changes and "+ budget = 77" in changes
    bora(net, "apply", str(path))
    assert bora(net, "diff", str(path)).stdout == "no difference\n"
    entries = net.bora.show("history")
    assert [entry["number"] for entry in entries] == [1, 2]
    assert entries[1]["by"].startswith("root (process ")
    assert "+ budget = 300" in bora(net, "diff", "1").stdout
    assert "+ budget = 300" in bora(net, "rollback").stdout
    path.write_text('path = "express"\n' + PORTS + "[workers]\nbudget = 99\n")
    bora(net, "apply", str(path), "--confirm", "1")
    deadline = time.monotonic() + 5
    while len(net.bora.show("history")) < 5 and time.monotonic() < deadline:
        time.sleep(0.1)
    last = net.bora.show("history")[-1]
    assert (last["number"], last["by"]) == (5, "went back, because nobody confirmed")
    assert json.loads(bora(net, "show", "config", "--json").stdout)["workers"]["budget"] == 300
    failed = bora(net, "rollback", "99", check=False)
    assert failed.returncode != 0 and "no configuration 99" in failed.stderr
    assert net.bora.process.poll() is None
    bora(net, "stop")
    net.bora.process.wait(10)
    net.bora.start()
    assert [entry["number"] for entry in net.bora.show("history")][:5] == [1, 2, 3, 4, 5]


def test_support(kernel_net, tmp_path):
    """One file with the reports and the configuration, but not its secrets."""
    net = kernel_net
    path = tmp_path / "bora.toml"
    path.write_text('path = "engine"\n[[port]]\nname = "r0"\n[[port]]\nname = "m0"\nkind = "memif"\n'
                    f'socket = "{tmp_path}/m.sock"\nrole = "server"\nsecret = "open sesame"\n')
    net.bora = Bora(net.router, [], None, ["--config", str(path)])
    net.bora.start()
    assert "open sesame" in bora(net, "show", "config").stdout  # root may see it
    kept = tmp_path / "saved.toml"
    bora(net, "save", str(kept))
    assert "open sesame" in kept.read_text() and kept.stat().st_mode & 0o777 == 0o600
    net.router.ip("link", "set", "lo", "up")
    web = net.router.popen(binary(), "web", "--listen", "127.0.0.1:0", stdout=subprocess.PIPE, text=True)
    try:  # it passes on what anybody asks
        url = web.stdout.readline().strip()
        last = net.bora.show("history")[-1]["number"]
        for report in (f"history/{last}", "config"):
            status, body = curl(net, f"{url}v1/{report}")
            assert status == 200 and "m.sock" in body and "open sesame" not in body, report
    finally:
        web.terminate()
        web.wait(10)
    bundle = tmp_path / "support.tar.gz"
    assert "files" in bora(net, "support", str(bundle)).stdout
    assert bundle.stat().st_mode & 0o777 == 0o600
    version = subprocess.run(["tar", "-xzOf", bundle, "./version"], capture_output=True, text=True, check=True).stdout
    assert version.startswith("bora ")
    listing = subprocess.run(["tar", "-xzOf", bundle, "./bora.toml", "./show-ports.json", "./links", "./uname"],
                             capture_output=True, text=True, check=True).stdout
    assert "m.sock" in listing and '"name":"r0"' in listing and "Linux" in listing
    everything = subprocess.run(["tar", "-xzOf", bundle], capture_output=True, text=True, check=True).stdout
    assert "open sesame" not in everything


def test_check_warns(tmp_path):
    """`bora check FILE` says what is legal and foolish."""
    path = tmp_path / "bora.toml"
    path.write_text('[[port]]\nname = "a"\n[[port]]\nname = "b"\n[linux]\nbypass_netfilter = true\n')
    done = subprocess.run([binary(), "check", "--elsewhere", str(path)], capture_output=True, text=True, check=True)
    assert "good" in done.stdout and "warning: linux.bypass_netfilter" in done.stdout


ROOT = Path(__file__).resolve().parents[2]


def answers(net, path, **parameters):
    """What Prometheus says, or None while it does not."""
    options = [part for name, value in parameters.items() for part in ("--data-urlencode", f"{name}={value}")]
    status, body = curl(net, "-G", *options, f"http://127.0.0.1:9090/api/v1/{path}")
    return json.loads(body)["data"] if status == 200 else None


def wait_for(what, seconds=30):
    """The first true answer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.3)
    raise AssertionError("it has not come")


@pytest.mark.slow
def test_prometheus(kernel_net, tmp_path):
    """A real Prometheus reads the metrics, evaluates the alert rules, and knows each metric of the dashboard."""
    net = kernel_net
    net.router.ip("link", "set", "lo", "up")
    start_with(net, tmp_path, '[api]\nlisten = "127.0.0.1:9179"\n')
    # the waiting time of alerts is cut short
    rules = (ROOT / "packaging/prometheus/bora.rules.yml").read_text().replace("for: 30s", "for: 0s")
    (tmp_path / "bora.rules.yml").write_text(rules)
    subprocess.run(["promtool", "check", "rules", ROOT / "packaging/prometheus/bora.rules.yml"], check=True, capture_output=True)
    config = tmp_path / "prometheus.yml"
    config.write_text("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [bora.rules.yml]\n"
                      "scrape_configs: [{job_name: bora, static_configs: [{targets: ['127.0.0.1:9179']}]}]\n")
    with open(tmp_path / "log", "w") as log:
        server = net.router.popen("prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data",
                                  "--web.listen-address=127.0.0.1:9090", stdout=log, stderr=log)
    try:
        wait_for(lambda: any(float(one["value"][1]) == 1 for one in (answers(net, "query", query='up{job="bora"}') or {"result": []})["result"]))
        for _ in range(5):
            assert net.probe()
        dashboard = json.loads((ROOT / "packaging/grafana/bora.json").read_text())
        known = set(wait_for(lambda: answers(net, "label/__name__/values")))
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                expression = target["expr"].replace("$__rate_interval", "1m").replace("$router", ".*")
                assert answers(net, "query", query=expression) is not None, expression
                names = set(re.findall(r"\bbora_\w+", expression))
                # a tier, a class or a reason may have no samples
                assert names <= known or re.search("worker|class|dropped|to_linux", expression), (expression, names - known)
        net.router.ip("link", "set", "r2", "down")
        alerts = wait_for(lambda: [one for one in answers(net, "alerts")["alerts"] if one["labels"]["alertname"] == "BoraPortDown"])
        assert alerts[0]["labels"]["port"] == "r2" and "r2" in alerts[0]["annotations"]["summary"]
    finally:
        server.terminate()
        server.wait(20)
