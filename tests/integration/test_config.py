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
    """A good file passes without privileges or a daemon."""
    assert "good" in run(binary(), "check", written(tmp_path, GOOD)).stdout


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
