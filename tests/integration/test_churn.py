"""Routes that change 100 000 times a second while traffic to other routes flows."""

import json
import subprocess
import sys
from pathlib import Path

from lib.traffic import both_families, load

CHANGES_PER_SECOND = 100_000
SECONDS = 10
RATE = 10_000
ROUTES4, ROUTES6 = 60_000, 20_000
STRAY = 20  # packets in 100 000 that a busy two-core machine may lose by itself; the numbers are printed
SYNC_SECONDS = 10


def test_churn(net, say):
    """No packet of unrelated flows is lost or goes to a third place, and the FIB equals the kernel's tables."""
    gateways = {"4": net.host4(2), "6": net.host6(2)}
    task = {
        "namespace": net.router.name, "rate": CHANGES_PER_SECOND, "seconds": SECONDS, "seed": 62,
        "routes4": ROUTES4, "routes6": ROUTES6, "gateways": gateways,
    }
    churn = subprocess.Popen(
        [sys.executable, "-m", "lib.routes"], cwd=Path(__file__).resolve().parents[1],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    try:
        churn.stdin.write(json.dumps(task) + "\n")
        churn.stdin.flush()
        for port in net.hosts:
            port.drain()
        with load(net, both_families(net), RATE) as traffic:
            assert churn.stdout.readline().strip() == "churning"
            done = json.loads(churn.communicate(timeout=SECONDS * 6)[0])
            report = traffic.finish()
    finally:
        if churn.poll() is None:
            churn.kill()
            churn.wait(5)
    rate = done["changes"] / done["seconds"]
    say(f"{net.backend}: {done['changes']} changes in {done['seconds']:.1f} s ({rate:.0f}/s); {report}")
    assert not done["refused"], f"the kernel refused changes, by errno: {done['refused']}"
    assert report.lost <= STRAY and report.reordered == 0 and report.duplicated == 0
    strays = [frame for host, frame in net.collect(quiet=0) if host == 2]
    assert not strays, f"{len(strays)} packets went to a third place"
    if net.bora is not None:
        net.bora.wait_in_sync(SYNC_SECONDS)
        net.bora.check_conservation()
