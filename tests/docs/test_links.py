"""The targets of links between documents exist, and so do the files that documents name."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
# A path in the repository, perhaps followed by options; the fuzzer's output folders do not count.
PATH = re.compile(r"`((?:router|tester|lab|tests|scripts|hero|docs|fuzz)/(?!corpus|artifacts)[\w./-]*)")
# A file, named by the end of its path.
FILE = re.compile(r"`([\w/]+\.(?:rs|h|c|py|sv))`")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), ROOT / "tests/README.md",
             ROOT / "fuzz/README.md", ROOT / "hero/README.md", ROOT / "hero/syn/REPORT.md"]

FOLDERS = ("router", "tester", "lab", "tests", "scripts", "hero", "fuzz")
FILES = [f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]


def targets(document):
    return {link for link, _ in LINK.findall(document.read_text()) if "://" not in link}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(document):
    broken = [link for link in targets(document) if not (document.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_paths(document):
    text = document.read_text()
    missing = [path for path in PATH.findall(text) if "NAME" not in path and not (ROOT / path).exists()]
    missing += [name for name in FILE.findall(text) if "NAME" not in name and not any(path.endswith(f"/{name}") for path in FILES)]
    assert not missing


def test_the_index_has_every_document():
    index = targets(ROOT / "docs/README.md")
    here = {path.name for path in ROOT.glob("docs/*.md")} - {"README.md"}
    assert here <= index, f"not in docs/README.md: {here - index}"


def test_installed_documents_lead_nowhere_else(tmp_path):
    """All links of the package's documents lead to what it has, and to the same document as here."""
    subprocess.run([ROOT / "scripts/install-docs", tmp_path], check=True)
    documents = list(tmp_path.glob("*.md"))
    assert {path.name for path in documents} >= {"README.md", "index.md", "reasons.md"}
    broken = [(path.name, link) for path in documents for link in targets(path) if not (tmp_path / link).exists()]
    assert not broken
    assert {"first-router.md", "install.md"} <= targets(tmp_path / "README.md") | targets(tmp_path / "index.md")
    assert "index.md" in targets(tmp_path / "README.md") and "README.md" not in targets(tmp_path / "README.md")
