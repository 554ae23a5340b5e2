"""How virtual machines and hero-device come and go. Needs QEMU (tests/vm/qemu.py), the model and target/debug/hero-device."""

import os
import signal
import socket
from pathlib import Path

import pytest

from hero.guest import device, qmp
from hero.guest.run import MODEL, PROGRAM
from tests.vm import qemu

ID = 0x4845524F
HERE = {"HERO_DEVICE": os.environ.get("HERO_DEVICE", PROGRAM), "QEMU": qemu.WRAPPER, "MODEL": MODEL}
MISSING = [f"{path} ({name})" for name, path in HERE.items() if not Path(path).exists()]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}")]


@pytest.fixture(name="cards")
def _cards(tmp_path):
    with device.Device(HERE["HERO_DEVICE"], MODEL, tmp_path / "device") as running:
        yield running


def _boot(cards, folder):
    return qmp.Machine(qemu.WRAPPER, cards.sockets(), folder)


def _log(cards):
    return cards.log.read_text()


def test_a_machine_is_reset_stopped_and_continued(cards, tmp_path):
    with _boot(cards, tmp_path) as machine:
        assert machine.wait() == [ID] * 4
        for _ in range(2):
            resets = _log(cards).count("card 3: reset by its virtual machine")
            machine.call("system_reset")
            qmp.until(lambda: _log(cards).count("card 3: reset by its virtual machine") > resets, "the reset comes")
            assert machine.wait() == [ID] * 4
        machine.call("stop")
        assert [machine.word(bar) for bar in machine.bars()] == [ID] * 4
        machine.call("cont")
        assert machine.wait() == [ID] * 4
    assert cards.is_running()


def test_a_killed_machine_leaves_clean_cards(cards, tmp_path):
    for turn in range(1, 4):
        with _boot(cards, tmp_path) as machine:
            bars = machine.wait()
            assert bars == [ID] * 4
            machine.kill()
        qmp.until(lambda turn=turn: _log(cards).count("card 0: virtual machine gone") == turn, "the device notices")
    assert cards.is_running()


def test_a_machine_survives_a_killed_device(cards, tmp_path):
    with _boot(cards, tmp_path) as machine:
        machine.wait()
        bars = machine.bars()
        assert cards.stop(signal.SIGKILL) == -signal.SIGKILL
        assert {machine.word(bar) for bar in bars} <= {0, 0xFFFFFFFF}, "no answer"
        assert machine.call("query-status")["running"]
        cards.start()
        assert {machine.word(bar) for bar in bars} <= {0, 0xFFFFFFFF}, "QEMU does not connect again"
    with _boot(cards, tmp_path) as machine:
        assert machine.wait() == [ID] * 4


def test_what_is_no_virtual_machine_is_sent_away(cards, tmp_path):
    for text in (b"GET / HTTP/1.0\r\n\r\n", bytes(64), b"\x01\x00\x01\x00" + b"\x20\0\0\0" + bytes(8) + b"\xff" * 16):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(cards.sockets()[2]))
            client.sendall(text)
    with _boot(cards, tmp_path) as machine:
        assert machine.wait() == [ID] * 4
    assert cards.is_running()


def test_the_end_is_clean(cards):
    assert cards.stop() == 0
    assert not any(path.exists() for path in cards.sockets())
