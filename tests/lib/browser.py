"""Chromium without a screen, told what to do over its debugging pipe: opens pages, reads them, and collects errors."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time

from lib import required
from lib.netns import inside

BINARY = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]


def is_packaged(name):
    """Whether the distribution has a package (Ubuntu has no browser)."""
    return bool(subprocess.run(["apt-cache", "show", name], capture_output=True, check=False).stdout)


class Browser:
    """A browser with one page, in a network namespace; `profile` is a folder of its own."""

    def __init__(self, namespace, profile):
        if BINARY is None:
            required.skip("no Chromium (scripts/deps-browser installs it)")
        self._numbers, self._inbox, self._unread = itertools.count(1), [], b""
        self.errors = []
        ours, theirs = self._start(namespace, profile)
        self._write, self._read = ours, theirs
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = None
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _start(self, namespace, profile):
        from_us, ours = os.pipe()
        theirs, to_us = os.pipe()

        def pipes():
            # the browser reads from 3 and writes to 4; first out of the way, because they may be 3 and 4
            high = [os.dup2(fd, 60 + number) for number, fd in enumerate((from_us, to_us))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        with inside(namespace.name):
            self.process = subprocess.Popen(
                [BINARY, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                preexec_fn=pipes, close_fds=False,
            )
        os.close(from_us)
        os.close(to_us)
        return ours, theirs

    # The protocol: JSON texts, each with a zero behind it.

    _session = None

    def call(self, method, params=None):
        """Calls a method for the page; returns its result."""
        return self._call(method, params)

    def _call(self, method, params=None, seconds=20.0):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params or {}}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + seconds
        while True:
            for answer in self._receive(deadline - time.monotonic()):
                if answer.get("id") == number:
                    assert "error" not in answer, answer
                    return answer["result"]
            assert time.monotonic() < deadline, f"the browser does not answer {method}"

    def _receive(self, seconds):
        if select.select([self._read], [], [], max(0.0, seconds))[0]:
            self._unread += os.read(self._read, 1 << 20)
        *whole, self._unread = self._unread.split(b"\0")
        messages = [json.loads(text) for text in whole]
        for message in messages:
            self._note(message.get("method"), message.get("params", {}))
        return messages

    def _note(self, method, params):
        """Keeps what is wrong with the page."""
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description") or params)
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(params["args"])
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])

    # What tests do.

    def open(self, url, width=1280, height=900, scheme="light"):
        """Opens a page in a window of this size, light or dark."""
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.call("Page.navigate", {"url": url})
        self.wait_for("document.readyState === 'complete'")

    def value(self, expression):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, expression, seconds=10.0):
        """Waits until an expression is true in the page, and returns it."""
        deadline = time.monotonic() + seconds
        while True:
            value = self.value(expression)
            if value:
                return value
            assert time.monotonic() < deadline, f"not true after {seconds} s: {expression}\n{self.value('document.body.innerText')}"
            time.sleep(0.1)

    def screenshot(self, path, whole=False):
        """Writes what is visible, or the whole page, to a PNG."""
        shot = self.call("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        """Ends the browser."""
        self.process.kill()
        self.process.wait(10)
        os.close(self._write)
        os.close(self._read)
