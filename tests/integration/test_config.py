"""bora.toml is read, checked, used and written back."""

import json

import pytest

from lib.bora import Bora, binary
from lib.netns import run

pytestmark = pytest.mark.bora
GOOD = """
path = "engine"
[[port]]
name = "r0"
[[port]]
name = "r1"
[[port]]
name = "r2"
[workers]
mode = "moderated:16:200"
[fib]
memory = 16
table = "dir24"
"""


def written(directory, text):
    """The path of a file with this text."""
    path = directory / "bora.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("text, words", [
    ("[[port]]\nname = \"r0\"\nspeed = 10\n", ["line 3, column 9", "speed"]),
    ("[[port]]\nname = \"r0\"\n[workers]\nmode = \"napi\"\n", ["line 4, column 8", "napi", "adaptive"]),
    ("[[port]]\nname = \"r0\"\n[fib]\nmemory = 0\n", ["memory", "1 to 1024"]),
    ("path = engine\n", ["line 1"]),
    ("", ["no ports"]),
])
def test_check_names_the_place_and_the_reason(tmp_path, text, words):
    """`bora check` and `bora run` both refuse a bad file."""
    path = written(tmp_path, text)
    for command in (["check", path], ["run", "--config", path]):
        done = run(binary(), *command, check=False)
        assert done.returncode == 1, done.stdout
        for word in [path, *words]:
            assert word in done.stderr, f"{word} is missing in {done.stderr}"


def test_check_a_good_file(tmp_path):
    """A good file for another machine passes without privileges or a daemon."""
    assert "good" in run(binary(), "check", "--elsewhere", written(tmp_path, GOOD)).stdout


@pytest.mark.parametrize("text, words", [
    (GOOD.replace('"r1"', '"eth9"'), "interface eth9 does not exist here"),
    (GOOD.replace("[workers]", "[workers]\ncores = [4095]"), "there is no CPU 4095 on this machine"),
    (GOOD + '[api]\nlisten = "127.0.0.1:9179"\ntoken_file = "/nowhere"\n', "cannot read /nowhere"),
    (GOOD + '[api]\nlisten = "127.0.0.1:9179"\ncertificate = "/none"\nkey = "/none"\n', "cannot read /none"),
    (GOOD + '[api]\nlisten = "192.0.2.77:9179"\ntoken_file = "/etc/hostname"\n', "cannot listen on 192.0.2.77:9179"),
])
def test_check_refuses_what_run_refuses(kernel_net, tmp_path, text, words):
    """What this machine lacks for a file is found by `bora check`, in the words of `bora run`, which leaves nothing behind."""
    path = written(tmp_path, text)
    kernel_net.router.ip("link", "set", "lo", "up")
    for command in (["check", path], ["run", "--config", path]):
        done = kernel_net.router.exec(binary(), *command, check=False)
        assert done.returncode == 1 and words in done.stderr, (command, done.stdout, done.stderr)
    assert "xdp" not in kernel_net.router.ip("link").stdout
    assert "good" in run(binary(), "check", "--elsewhere", path).stdout


@pytest.mark.parametrize("text, words", [
    ("[workers]\nbuget = 7\n", "`buget` is no key here: did you mean `budget`?"),
    ("[workers]\ncores = 7\n", "expected a list, such as `[1, 2]`, not the number `7`"),
    ('path = "expres"\n', "`expres` is not known: did you mean `express`?"),
    ('[[port]]\nname = "x"\nquotta = 7\n', "`quotta` is no key of an interface: did you mean `quota`?"),
    ('[[port]]\nquota = 7\n', "the key `name` is missing"),
])
def test_what_is_wrong_is_said_in_plain_words(tmp_path, text, words):
    """No words of the parser, and what is most likely meant."""
    assert words in run(binary(), "check", "--elsewhere", written(tmp_path, text), check=False).stderr


def test_schema_is_json_and_names_the_sections():
    """Editors get a schema with a description of each section."""
    schema = json.loads(run(binary(), "schema").stdout)
    assert {"port", "path", "workers", "fib", "linux"} <= set(schema["properties"])
    assert all("description" in field for field in schema["properties"].values())


def test_run_obeys_the_file_and_save_writes_it(kernel_net, tmp_path):
    """`bora run` obeys the file, command-line options take precedence, and `bora save` writes the configuration in force."""
    net = kernel_net
    net.bora = Bora(net.router, [], None, ["--config", written(tmp_path, GOOD), "--fib-memory", "32"])
    net.bora.start()
    net.wait_until_forwarding()
    assert [port["name"] for port in net.bora.show("ports")] == ["r0", "r1", "r2"]
    assert net.bora.show("workers")[0]["mode"] == "moderated:16:200"
    net.router.exec(binary(), "set", "mode", "poll")
    saved = tmp_path / "saved.toml"
    net.router.exec(binary(), "save", str(saved))
    text = saved.read_text()
    for words in ('mode = "poll"', "memory = 32", 'table = "dir24"', 'name = "r2"'):
        assert words in text, text
    net.bora.stop()
    net.bora = Bora(net.router, [], None, ["--config", str(saved)])
    net.bora.start()
    assert net.bora.show("workers")[0]["mode"] == "poll"
