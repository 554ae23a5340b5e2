"""The faults: each is a change of the product's source that Linux, as the judge, must show.

    about(CHAPTER)
    fault(NAME, FILE, OLD, NEW, WHAT IT BREAKS)

OLD must occur exactly once in FILE, which is below `router`. CHAPTER: of the fuzzer (tests/fuzz-router/chapters.py), to be tried first.
"""

import collections
from pathlib import Path

ROUTER = Path(__file__).resolve().parents[2] / "router"
Fault = collections.namedtuple("Fault", "name file old new breaks chapter")
FAULTS, _chapter = [], [None]


def about(chapter):
    """Where the next ones are looked for first."""
    _chapter[0] = chapter


def fault(*parts):
    """Adds one to the list."""
    FAULTS.append(Fault(*parts, _chapter[0]))


def places(one):
    """How often the fault's old text is in its file."""
    return (ROUTER / one.file).read_text().count(one.old)


def chosen(names):
    """The faults with these names, in their order; all if none is named."""
    import control  # noqa: F401 (each adds its faults)
    import mirror  # noqa: F401
    import program  # noqa: F401
    import stages  # noqa: F401
    known = {one.name: one for one in FAULTS}
    unknown = set(names) - set(known)
    if unknown:
        raise SystemExit(f"no such fault: {', '.join(sorted(unknown))}")
    return [known[name] for name in names or known]
