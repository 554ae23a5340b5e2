"""docs/packet-path.md names functions, their files and their calls: the code must agree."""

import re
from pathlib import Path

import pytest

from calls import bare, bodies, calls

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/packet-path.md"

STEP = re.compile(r"^( *)- `([\w:]+)\(\)` in `([^`]+)`")
MENTION = re.compile(r"`([\w:]+)\(\)`\s+in\s+`([^`]+\.\w+)`")


def languages(path):
    return "rust" if path.endswith(".rs") else "c"


def definitions(name, path, root=ROOT):
    """The bodies of a function in a file."""
    file = root / path
    assert file.is_file(), f"{path} does not exist"
    found = bodies(bare(file.read_text()), name, languages(path))
    assert found, f"{path} does not define {name}()"
    return found


def steps(text):
    """Each step of the document's lists, as (function, file, functions it calls in order)."""
    above, found = [], []
    for line in text.splitlines():
        step = STEP.match(line)
        if not step:
            if line and not line.startswith(" "):
                above = []  # another list
            continue
        depth = len(step[1])
        above = [(indent, entry) for indent, entry in above if indent < depth]
        entry = (step[2], step[3], [])
        if above:
            above[-1][1][2].append(step[2])
        above.append((depth, entry))
        found.append(entry)
    return found


def follow(function, path, called, root=ROOT):
    """Fails unless the function is in the file and calls the functions that the document lists, in this order."""
    missing = []
    for body in definitions(function, path, root):
        at, missing = -1, []
        for name in called:
            later = [place for place in calls(body, name) if place > at]
            if not later:
                missing.append(name)
                continue
            at = later[0]
        if not missing:
            return
    raise AssertionError(f"{function}() in {path} does not call {', '.join(missing)} in this order: {', '.join(called)}")


STEPS = steps(DOCUMENT.read_text())


def test_the_document_has_steps():
    assert len(STEPS) > 40


@pytest.mark.parametrize("function, path, called", STEPS, ids=[step[0] for step in STEPS])
def test_step(function, path, called):
    follow(function, path, called)


def test_functions_named_elsewhere():
    """In every document: a function that is named with its file is in that file."""
    for document in sorted(ROOT.glob("docs/*.md")) + [ROOT / "CONTRIBUTING.md"]:
        for name, path in MENTION.findall(document.read_text()):
            definitions(name, path)


RUST = """
impl Worker {
    fn run(&mut self) { // round()
        self.round();
        let text = "send()";
        self.publish::<true>(now);
    }
}
impl Other { fn run(&self) { send() } }
"""
C = """
static int gate(struct packet *p);
static __always_inline bool check(const struct packet *p)
{
	return p;
}
int BPF_PROG(refused, int sent)
{
	return check(0) && gate(0);
}
"""


@pytest.mark.parametrize("function, called, right", [
    ("Worker::run", ["Worker::round", "publish"], True),
    ("Worker::run", ["publish", "Worker::round"], False),  # another order
    ("Worker::run", ["send"], False),  # only in a string
    ("Other::run", ["send"], True),
    ("Worker::stop", [], False),  # not defined
    ("refused", ["check", "gate"], True),
    ("gate", [], False),  # only declared
    ("check", ["gate"], False),
])
def test_a_wrong_document_is_found(tmp_path, function, called, right):
    (tmp_path / "code.rs").write_text(RUST)
    (tmp_path / "code.c").write_text(C)
    path = "code.rs" if "::" in function else "code.c"
    if right:
        follow(function, path, called, tmp_path)
    else:
        with pytest.raises(AssertionError):
            follow(function, path, called, tmp_path)
