"""`bora trace` and `bora capture` beside a test's packets."""

import json
import re
import subprocess
import time

from lib.bora import binary


def watch(net, *arguments, **more):
    """Starts the command, and waits until Bora has said that it watches."""
    begun = re.compile(rf"POST /v1/{arguments[0]}\S*: 200")
    before = len(begun.findall(net.bora.output()))
    process = net.router.popen(binary(), *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    deadline = time.monotonic() + 30
    while len(begun.findall(net.bora.output())) == before:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, net.bora.output()
        time.sleep(0.05)
    return process


def traced(net, frames, *options, count):
    """What `bora trace` says of the frames, by destination port."""
    process = watch(net, "trace", "--json", "-n", str(count), *options)
    for frame in frames:
        net.hosts[0].send(frame)
    out, error = process.communicate(timeout=20)
    assert process.returncode == 0, error
    found = [json.loads(line) for line in out.splitlines()]
    return {one["flow"]["ports"][1]: one for one in found}
