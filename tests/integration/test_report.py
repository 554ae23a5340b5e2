"""The HTML report in a browser: its plots show the values of the JSON."""

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lib import bora, required
from lib.browser import BINARY, FLAGS, is_packaged
from lib.netns import run

pytestmark = pytest.mark.bora
REPORT = Path(__file__).parent / "data" / "report.json"
# written by an older Bora, which had fewer keys
EXAMPLES = sorted((Path(__file__).parent / "data").glob("*-express.json"))


def holds(whole, part):
    """Whether a report has all that is in another, which an older Bora may have written with fewer keys."""
    if isinstance(part, dict):
        return all(key in whole and holds(whole[key], value) for key, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(holds, whole, part))
    return whole == part


class Page(HTMLParser):
    """Script elements with their JSON, and the marks, lines and ticks of each plot, with their coordinates."""

    def __init__(self, text):
        super().__init__()
        self.data, self.marks, self.lines, self.ticks, self.outside = {}, {}, {}, {}, []
        self._script = self._svg = self._line = self._tick = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.outside += [value for name, value in attrs.items() if name in ("src", "href")]
        if tag == "script" and attrs.get("type") == "application/json":
            self._script = attrs["id"]
        if tag == "svg":
            self._svg = attrs["id"]
            self.marks[self._svg], self.lines[self._svg] = 0, {}
            self.ticks[self._svg] = {"x": [], "y": []}
        if self._svg:
            self._drawn(tag, attrs, attrs.get("class", ""))

    def _drawn(self, tag, attrs, kind):
        if kind == "mark":
            self.marks[self._svg] += 1
        if tag == "path" and kind.startswith("line"):
            self._line = attrs["d"]
        if tag == "text" and kind.startswith("tick"):
            # labels are 4 below their ticks
            self._tick = ("y", float(attrs["y"]) - 4) if kind == "tick end" else ("x", float(attrs["x"]))

    def handle_endtag(self, tag):
        if tag == "script":
            self._script = None
        if tag == "svg":
            self._svg = None
        if tag == "path":
            self._line = None
        if tag == "text":
            self._tick = None

    def handle_data(self, data):
        if self._script:
            self.data[self._script] = json.loads(data)
        if self._line:
            # the line's title
            places = re.findall(r"[ML]([\d.]+) ([\d.]+)", self._line)
            self.lines[self._svg][data] = [(float(x), float(y)) for x, y in places]
        if self._tick:
            axis, place = self._tick
            self.ticks[self._svg][axis].append((place, data))

    def plots(self, title):
        """The plots with this title, in order."""
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
    """A page's HTML after the browser has run its scripts; the browser's profile is in the directory."""
    if BINARY is None:
        if not is_packaged("chromium"):
            pytest.skip("this distribution has no package of Chromium")
        required.skip("no Chromium (scripts/deps-browser installs it)")
    done = subprocess.run(
        [BINARY, *FLAGS, f"--user-data-dir={directory / 'profile'}", "--dump-dom", html.as_uri()],
        capture_output=True, text=True, timeout=30, check=True,
    )
    return Page(done.stdout)


def of_method(report, method):
    """The tests of a method, one for each frame size."""
    tests = [test for test in report["tests"] if test["method"] == method]
    assert tests
    return tests


def test_nothing_is_loaded(page):
    """The page loads nothing, because it contains the results."""
    assert page.outside == []
    assert page.marks and set(page.marks) == {name[5:] for name in page.data if name.startswith("data-")}


def test_results_are_in_the_page(page, report):
    """The embedded JSON is the report."""
    assert holds(page.data["report"], report)


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
    """A mark for each trial at its offered load, in the series with loss or the one without."""
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
    """The tests in the page's order: grouped by name, in the order of first occurrence."""
    names = list(dict.fromkeys(test["name"] for test in tests))
    return sorted(tests, key=lambda test: names.index(test["name"]))


def test_loss_curve(page, report):
    """Loss against the load in per cent of the line rate, one line for each frame size."""
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
    """One line for each load, with a point for each quantile but the maximum."""
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


def test_examples_are_there():
    """The test below needs examples."""
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.stem for example in EXAMPLES])
def test_example(example, tmp_path):
    """The throughput plots of a page show the results that it contains."""
    report = json.loads(example.read_text())
    html = tmp_path / "report.html"
    run(bora.binary(), "test", "report", example, "-o", html)
    page = opened(html, tmp_path)
    assert holds(page.data["report"], report)
    wanted = filter(None, map(throughput_lines, groups(of_method(report, "throughput"))))
    plots = page.plots("Throughput against frame size")
    for plot, shown in zip(plots, wanted, strict=True):
        lines, tolerance = read_back(page, plot["id"])
        assert set(lines) == set(shown)
        for name, points in shown.items():
            assert [size for size, _ in lines[name]] == [size for size, _ in points]
            values = [value for _, value in points]
            assert [value for _, value in lines[name]] == pytest.approx(values, abs=tolerance)


def groups(tests):
    """The tests of each name and IP version, in the order of the first of each."""
    found = {}
    for test in tests:
        found.setdefault((test["name"], test["family"]), []).append(test)
    return found.values()


def throughput_lines(tests):
    """What a throughput plot must show: {name of the line: frame sizes and rates}."""
    lines = {}
    for test in tests:
        for finding in test["findings"]:
            if finding["value"] is not None:
                lines.setdefault(finding["goal"], []).append((test["frames"], finding["value"]))
        if test["line_rate"]:
            rate = test["line_rate"] * test["senders"]
            lines.setdefault("line rate", []).append((test["frames"], rate))
    return lines


def read_back(page, plot):
    """The lines of a plot, with values computed from the ticks, and the precision of that."""
    ticks = page.ticks[plot]
    (bottom, low), *_, (top, high) = ticks["y"]
    step = (number(high) - number(low)) / (top - bottom)

    def read(x, y):
        _, name = min(ticks["x"], key=lambda tick: abs(tick[0] - x))
        return name, number(low) + (y - bottom) * step

    lines = {name: [read(*place) for place in places] for name, places in page.lines[plot].items()}
    # coordinates of points and ticks are rounded to a tenth
    return lines, 0.15 * abs(step)


def number(label):
    """`1.5 M`."""
    digits, _, prefix = label.partition(" ")
    return float(digits) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[prefix]


def test_no_report(tmp_path):
    """A file that is no report is refused; the error names it."""
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"format": 2}')
    done = subprocess.run(
        [bora.binary(), "test", "report", wrong, "-o", tmp_path / "x.html"], capture_output=True, text=True
    )
    assert done.returncode != 0 and "format 2" in done.stderr and "wrong.json" in done.stderr
    assert not (tmp_path / "x.html").exists()
