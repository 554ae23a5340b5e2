"""Tests that the benches notice errors, without the model library."""

import pytest

from hero.bench.chart import Panel, page
from hero.bench.report import Report
from hero.bench.traffic import Flow, Offer, Sink, interval


class Wire:
    """Replaces the model: records offered frames, and sends what the test wants."""

    def __init__(self, now=0):
        self.now, self.offered, self.sent = now, [], {k: [] for k in range(4)}

    def receive(self, card, frame, at):
        self.offered.append((card, frame, at))

    def transmitted(self, card):
        return self.sent[card].pop(0) if self.sent[card] else None


@pytest.fixture
def flow():
    made = Flow(5, 0, 2, 64)
    Offer([made], 1000, interval(64), 4).feed(Wire(), 10_000)
    return made


def received(flow, card, *frames):
    wire, sink = Wire(), Sink([flow])
    wire.sent[card] = [(frame, 5000 + 672 * k, 5504 + 672 * k) for k, frame in enumerate(frames)]
    sink.take(wire)
    return sink


def test_frames_are_offered_at_line_speed():
    flow, wire = Flow(5, 0, 2, 64), Wire()
    Offer([flow], 1000, interval(64), 4).feed(wire, 10_000)
    assert [at for _, _, at in wire.offered] == [1000, 1672, 2344, 3016]
    assert {len(frame) for _, frame, _ in wire.offered} == {60}
    assert flow.times[0] == 1000 + 72 * 8  # the last octet of preamble and frame


def test_a_late_frame_is_an_error():
    with pytest.raises(RuntimeError):
        Offer([Flow(5, 0, 2, 64)], 1000, 672, 4).feed(Wire(now=1001), 10_000)


def test_all_well(flow):
    sink = received(flow, 2, *(flow.expected(k) for k in range(4)))
    assert (sink.lost(), sink.reordered, sink.damaged) == (0, 0, 0)
    assert sink.share([5]) == 1 and sink.latency[5][0] == 5000 - flow.times[0]
    assert sink.line[2] == [4, 3 * 84, 5000, 5000 + 3 * 672]


def test_loss_is_seen(flow):
    sink = received(flow, 2, flow.expected(0), flow.expected(3))
    assert (sink.lost(), sink.reordered, sink.damaged) == (2, 0, 0) and sink.share([5]) == 0.5


def test_reordering_is_seen(flow):
    assert received(flow, 2, *(flow.expected(k) for k in (0, 2, 1, 3))).reordered == 1


def test_a_frame_that_comes_twice_is_seen(flow):
    assert received(flow, 2, *(flow.expected(k) for k in (0, 1, 1))).reordered == 1


@pytest.mark.parametrize("octet", (0, 6, 22, 24, 30, 43, 59))
def test_damage_is_seen(flow, octet):
    frame = bytearray(flow.expected(0))
    frame[octet] ^= 1
    assert received(flow, 2, bytes(frame)).damaged == 1


def test_the_wrong_port_is_seen(flow):
    assert received(flow, 1, flow.expected(0)).damaged == 1


def test_an_unedited_frame_is_damaged(flow):
    assert received(flow, 2, flow.make(0)).damaged == 1


def test_report(tmp_path):
    report = Report()
    assert report.add("c", "s", "m", "us", [3, 1, 2], "r", 4) == 2
    assert report.rows[0]["low"] == 1 and report.rows[0]["high"] == 3 and report.rows[0]["ratio"] == 0.5
    report.table("T", ("a", "b"), [(1, "x")])
    file = tmp_path / "page.md"
    file.write_text("before\n<!-- begin: bench-hero -->\nold\n<!-- end: bench-hero -->\nafter\n")
    report.document(file)
    assert "old" not in file.read_text() and "| 1 | x |" in file.read_text()
    assert file.read_text().startswith("before\n") and file.read_text().endswith("\nafter\n")
    file.write_text("no marks")
    with pytest.raises(ValueError):
        report.document(file)


def test_charts_are_xml():
    from xml.etree import ElementTree

    panels = [Panel("a < b & c", "x", "y", [("s", [(64, 1.5), (1518, 900)]), ("p", [(64, 3), (1518, 3)], "dashed"), ("q", [(64, 9)], "cross")], log)
              for log in (False, True)]
    ElementTree.fromstring(page(panels))
