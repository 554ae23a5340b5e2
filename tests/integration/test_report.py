"""The HTML report in a browser: what its plots show is what the JSON says."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lib import bora
from lib.netns import run

pytestmark = pytest.mark.bora
REPORT = Path(__file__).parent / "data" / "report.json"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]


class Page(HTMLParser):
    """Script elements with their JSON, and the marks of each plot."""

    def __init__(self, text):
        super().__init__()
        self.data, self.marks, self.outside = {}, {}, []
        self._script = self._svg = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.outside += [value for name, value in attrs.items() if name in ("src", "href")]
        if tag == "script" and attrs.get("type") == "application/json":
            self._script = attrs["id"]
        if tag == "svg":
            self._svg = attrs["id"]
            self.marks[self._svg] = 0
        if self._svg and attrs.get("class") == "mark":
            self.marks[self._svg] += 1

    def handle_endtag(self, tag):
        if tag == "script":
            self._script = None
        if tag == "svg":
            self._svg = None

    def handle_data(self, data):
        if self._script:
            self.data[self._script] = json.loads(data)

    def plots(self, title):
        """The plots with such a title, in order."""
        plots = [value for name, value in self.data.items() if name.startswith("data-")]
        return [plot for plot in plots if re.fullmatch(title, plot["title"])]


@pytest.fixture(scope="module")
def report():
    """The results as JSON."""
    return json.loads(REPORT.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page that is made of the report."""
    directory = tmp_path_factory.mktemp("report")
    html = directory / "report.html"
    run(bora.binary(), "test", "report", REPORT, "-o", html)
    return opened(html, directory)


def opened(html, directory):
    """A page as the browser, whose profile is in the directory, has it after its scripts ran."""
    if BROWSER is None:
        pytest.skip("no Chromium, and the distribution has no package of it (scripts/deps-browser)")
    done = subprocess.run(
        [BROWSER, *FLAGS, f"--user-data-dir={directory / 'profile'}", "--dump-dom", html.as_uri()],
        capture_output=True, text=True, timeout=30, check=True,
    )
    return Page(done.stdout)


def of_method(report, method):
    """The tests of a method, one a frame size."""
    tests = [test for test in report["tests"] if test["method"] == method]
    assert tests
    return tests


def test_nothing_is_loaded(page):
    """The file stands alone, and carries the results."""
    assert page.outside == []
    assert page.marks and set(page.marks) == {name[5:] for name in page.data if name.startswith("data-")}


def test_results_are_in_the_page(page, report):
    """The embedded JSON is the report."""
    assert page.data["report"] == report


def test_throughput(page, report):
    """A point for each frame size and goal, with the bounds of the search, and the line rate."""
    (plot,) = page.plots("Throughput against frame size")
    tests = of_method(report, "throughput")
    assert plot["x"]["scale"]["names"] == [test["frames"] for test in tests]
    *goals, line = plot["series"]
    for series in goals:
        expected = [
            (x, finding["value"], [finding["low"], finding["high"]])
            for x, test in enumerate(tests) for finding in test["findings"]
            if finding["goal"] == series["name"] and finding["value"] is not None
        ]
        assert [(p["x"], p["y"], p["bounds"]) for p in series["points"]] == expected
    assert page.marks[plot["id"]] == sum(len(series["points"]) for series in goals)
    rates = [test["line_rate"] * test["senders"] for test in tests]
    assert [p["y"] for p in line["points"]] == pytest.approx(rates)


def test_every_trial_is_drawn(page, report):
    """A mark for each trial, where it was offered, among those with loss or without."""
    plots = page.plots("Trials, .*")
    tests = [test for test in report["tests"] if len(test["trials"]) > 1]
    assert len(plots) == len(tests)
    drawn = {plot["id"]: plot for plot in plots}
    for (name, plot), test in zip(drawn.items(), ordered(tests)):
        trials = test["trials"]
        assert page.marks[name] == len(trials)
        whole, lossy, invalid = (series["points"] for series in plot["series"])
        assert len(whole) == sum(t["lost"] == 0 and t["missed"] == 0 for t in trials)
        assert len(invalid) == sum(t["missed"] > 0 for t in trials)
        for point in whole + lossy + invalid:
            trial = trials[int(point["x"]) - 1]
            offered = trial["sent_rate"] if trial["rate"] is None else trial["rate"] * test["senders"]
            assert point["y"] == pytest.approx(offered)


def ordered(tests):
    """As in the page: by name, in the order of the first of each."""
    names = list(dict.fromkeys(test["name"] for test in tests))
    return sorted(tests, key=lambda test: names.index(test["name"]))


def test_loss_curve(page, report):
    """Loss against the load in per cent of the line rate, a line a frame size."""
    (plot,) = page.plots("Frame loss against offered load")
    for series, test in zip(plot["series"], of_method(report, "frame-loss"), strict=True):
        expected = sorted(
            (t["rate"] / test["line_rate"] * 100, t["lost"] / t["sent"] * 100) for t in test["trials"]
        )
        got = [(p["x"], p["y"]) for p in series["points"]]
        assert len(got) == len(expected)
        for point, wanted in zip(got, expected):
            assert point == pytest.approx(wanted)


def test_latency_curves(page, report):
    """A line a load, a point for each quantile but the maximum."""
    tests = of_method(report, "latency")
    for plot, test in zip(page.plots("Latency, .*"), tests, strict=True):
        assert plot["x"]["scale"] == "nines" and plot["y"]["scale"] == "logtime"
        for series, latency in zip(plot["series"], test["latencies"], strict=True):
            assert series["name"] == latency["load"]
            expected = [[q, ns] for q, ns in latency["quantiles"] if q < 1]
            assert [[p["x"], p["y"]] for p in series["points"]] == expected


def test_saturation_has_its_interval(page, report):
    """The mean with its confidence interval."""
    (plot,) = page.plots("Saturation throughput against frame size")
    for point, test in zip(plot["series"][0]["points"], of_method(report, "saturation"), strict=True):
        finding = test["findings"][0]
        assert (point["y"], point["bounds"]) == (finding["value"], [finding["low"], finding["high"]])


def test_no_report(tmp_path):
    """What is no report is told, with its name."""
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"format": 2}')
    done = subprocess.run(
        [bora.binary(), "test", "report", wrong, "-o", tmp_path / "x.html"], capture_output=True, text=True
    )
    assert done.returncode != 0 and "format 2" in done.stderr and "wrong.json" in done.stderr
    assert not (tmp_path / "x.html").exists()
