"""Options and the choice of what is tested: the plain kernel (the oracle), the engine, express."""

import os

import pytest

from lib import netns, over, wires

BACKENDS = ("kernel", "engine", "express")
NO_SENSE = pytest.StashKey()
# on interfaces whose driver does no XDP, and on ports without an XDP program, the same behaviour is expected
WITH_PROGRAM = (*BACKENDS, "engine-generic", "express-generic")
CONFORMANCE_BACKENDS = (*WITH_PROGRAM, *(f"engine-{kind}" for kind in wires.WIRES))
# these differ from engine-tap in how frames come and go only: without --backend they run the files about frames and headers
FRAMES_ONLY = ("engine-af_packet", "engine-memif")
ABOUT_FRAMES = ("test_checksums", "test_ipv4_header", "test_link")


def pytest_addoption(parser):
    parser.addoption(
        "--backend", action="append", choices=CONFORMANCE_BACKENDS, default=[],
        help="test only this backend (may be given several times); default: all",
    )
    parser.addoption(
        "--over", choices=list(over.KINDS), default="plain",
        help="what the router's interfaces are made of in conformance tests (tests/lib/over.py); needs the kernel's modules",
    )


def chosen(config, among=BACKENDS):
    """The backends of this run, in the order of BACKENDS."""
    wanted = config.getoption("backend") or CONFORMANCE_BACKENDS
    return [name for name in among if name in wanted]


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        conformance = "conformance" in metafunc.definition.path.parts
        if conformance and metafunc.config.getoption("over") == "plain":
            all_of_them = CONFORMANCE_BACKENDS
            if not metafunc.config.getoption("backend") and metafunc.definition.path.stem not in ABOUT_FRAMES:
                all_of_them = tuple(name for name in all_of_them if name not in FRAMES_ONLY)
        elif conformance or getattr(metafunc.module, "EVERYWHERE", False):
            all_of_them = WITH_PROGRAM
        else:
            all_of_them = (*BACKENDS, *getattr(metafunc.module, "ALSO", ()))
        metafunc.parametrize("backend", chosen(metafunc.config, all_of_them), scope="module", indirect=True)
    elif "bora_path" in metafunc.fixturenames:
        paths = chosen(metafunc.config, BACKENDS[1:])
        metafunc.parametrize("bora_path", paths, scope="module", indirect=True)


def pytest_collection_modifyitems(config, items):
    """With --backend kernel alone, tests that need Bora are deselected; with --over, those that make no sense there."""
    kind = config.getoption("over")
    why = {}
    for item in items:
        backend = item.callspec.params.get("backend", "") if hasattr(item, "callspec") else ""
        reason = over.why_not(kind, item.name) or wires.why_not(backend, item.name) if "conformance" in item.path.parts else None
        if reason:
            why[item] = f"{item.name}: {reason}"
    config.stash[NO_SENSE] = sorted(why.values())
    if chosen(config) == ["kernel"]:
        why |= {item: "" for item in items if "bora_path" in item.fixturenames or item.get_closest_marker("bora")}
    if why:
        config.hook.pytest_deselected(items=list(why))
        items[:] = [item for item in items if item not in why]


def pytest_terminal_summary(terminalreporter, config):
    """Names the tests that make no sense over something, or with a kind of port."""
    for line in config.stash.get(NO_SENSE, []):
        terminalreporter.write_line(f"not run: {line}")


@pytest.fixture(scope="module")
def backend(request):
    """kernel, engine or express."""
    return request.param


@pytest.fixture(scope="module")
def bora_path(request):
    """engine or express: for tests that make no sense without Bora."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def _clean_machine():
    if os.geteuid() != 0:
        pytest.exit("the tests make network namespaces: run them as root", returncode=4)
    netns.remove_leftovers()
    yield
