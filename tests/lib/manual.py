"""The blocks of a chapter of the manual (docs/*.md): what is to be in a file, and what an operator types."""

import re
from dataclasses import dataclass
from pathlib import Path

from lib.bora import Bora, binary

DOCS = Path(__file__).resolve().parents[2] / "docs"
CHAPTERS = ("first-router", "bgp-edge", "home-router", "exchange", "tuning")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`(/etc/[\w./@-]+)`")


@dataclass
class Block:
    """`kind` is the word behind the fence, `path` the last file of /etc that the paragraph before it names, or None."""

    chapter: str
    kind: str
    text: str
    path: str | None
    line: int

    def __str__(self):
        return f"{self.chapter}.md:{self.line}"


def blocks(chapter):
    """All blocks of a chapter, in order."""
    text = (DOCS / f"{chapter}.md").read_text()
    found, end = [], 0
    for block in BLOCK.finditer(text):
        before = text[end:block.start()].rstrip().rpartition("\n\n")[2]
        paths = PATH.findall(before)
        found.append(Block(chapter, block[1], block[2], paths[-1] if paths else None, text.count("\n", 0, block.start()) + 1))
        end = block.end()
    return found


def file(chapter, path):
    """What a chapter puts into a file."""
    texts = [block.text for block in blocks(chapter) if block.path == path and block.kind not in ("sh", "text")]
    assert len(texts) == 1, f"{chapter}.md has {path} {len(texts)} times"
    return texts[0]


def commands(chapter):
    """The lines that an operator types, in order."""
    return [line for block in blocks(chapter) if block.kind == "sh" for line in block.text.splitlines() if line]


def command(chapter, start):
    """The lines that an operator types that begin like this; there is one at least."""
    found = [line for line in commands(chapter) if line.startswith(start)]
    assert found, f"{chapter}.md has no command `{start}`"
    return found


def sysctls(text):
    """(key as a path below /proc/sys, value) of a file of sysctl.d. sysctl(8) writes a dot in a device's name as a slash."""
    lines = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
    swap = str.maketrans("./", "/.")
    return [(key.strip().translate(swap), value.strip()) for key, _, value in lines]


class Operator:
    """Types the commands of a chapter on the router. Packages and services of the machine are not touched: their commands do
    nothing, but for `systemctl start bora` and `stop`."""

    MACHINE = ("apt", "make", "systemctl", "sysctl --system")

    def __init__(self, router, chapter, folder):
        self.router, self.chapter, self.folder = router, chapter, folder
        self.bora = None

    def path(self, name):
        """Writes a file of the chapter, and says where it is."""
        place = self.folder / name.strip("/").replace("/", "-")
        place.write_text(file(self.chapter, name))
        return place

    def sysctls(self, name):
        """`sysctl --system` for a file of the chapter."""
        for key, value in sysctls(file(self.chapter, name)):
            self.router.set_sysctl(key, value)

    def type(self, line):
        """One line. Returns what it prints."""
        if line == "systemctl start bora":
            self.bora = Bora(self.router, [], None, ("--config", str(self.path("/etc/bora/bora.toml"))))
            return self.bora.start()
        if line == "systemctl stop bora":
            self.bora.process.terminate()
            return self.bora.process.wait(10)
        if line.startswith(self.MACHINE):
            return None
        line = {"bora top": "bora top --once"}.get(line, line)
        for name in PATH.findall(f"`{line.rpartition(' ')[2]}`"):
            line = line.replace(name, str(self.path(name)))
        words = f"PATH={Path(binary()).parent}:$PATH; {line}"
        return self.router.exec("bash", "-c", words).stdout

    def close(self):
        """Stops Bora."""
        if self.bora:
            self.bora.stop()
