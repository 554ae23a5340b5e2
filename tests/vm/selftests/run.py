"""Linux's own forwarding tests, in a guest with one of Debian's kernels: without Bora, with express, with the engine.

The scripts are from the kernel's source package (tools/testing/selftests/net/forwarding), unpacked under
target/vm/selftests. hook.sh starts Bora in them. The table goes to standard output; docs/machines-selftests.md has one.

    make test-selftests
    python3 tests/vm/selftests/run.py [--kernel 6.12] [--mode express] [--vrfs keep] [SCRIPT.sh ...]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from lib import bora  # noqa: E402
from vm import kernels, machine  # noqa: E402

ROOT = HERE.parents[2]
CACHE = ROOT / "target/vm/selftests"
MODES = ("linux", "express", "engine")
MODULES = ("vrf", "ip_gre", "ip6_gre", "ipip", "vxlan", "dummy", "8021q", "bridge", "sch_ingress", "cls_flower", "cls_matchall", "act_gact")
SCRIPTS = (
    "router.sh", "router_nh.sh", "router_vid_1.sh", "router_bridge.sh", "router_bridge_vlan.sh", "router_broadcast.sh",
    "router_multipath.sh", "router_mpath_nh.sh", "router_mpath_nh_res.sh", "custom_multipath_hash.sh", "no_forwarding.sh",
    "gre_multipath.sh", "gre_multipath_nh.sh", "gre_multipath_nh_res.sh", "gre_inner_v4_multipath.sh",
    "gre_inner_v6_multipath.sh", "gre_custom_multipath_hash.sh", "ip6gre_flat.sh", "ip6gre_flat_key.sh",
    "ip6gre_hier.sh", "ip6gre_hier_key.sh", "ip6gre_inner_v4_multipath.sh", "ip6gre_inner_v6_multipath.sh",
    "ip6gre_custom_multipath_hash.sh", "ipip_flat_gre.sh", "ipip_hier_gre.sh",
    "router_bridge_1d.sh", "router_bridge_pvid_vlan_upper.sh", "vxlan_symmetric.sh", "vxlan_asymmetric.sh", "vxlan_bridge_1d.sh",
)
SCRIPT_SECONDS = 900


def sources(kernel):
    """The folder of the kernel's selftests; fetched and unpacked if necessary."""
    folder = CACHE / kernel.version
    if not folder.exists():
        package = f"linux-source-{'.'.join(map(str, kernel.number))}"
        debs = CACHE / "debs"
        shutil.rmtree(debs, ignore_errors=True)
        debs.mkdir(parents=True)
        kernels.apt(kernel.suite, "apt-get", "download", package, cwd=debs)
        (deb,) = debs.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", deb, debs], check=True)
        (archive,) = debs.glob("usr/src/*.tar.xz")
        unpack(archive, debs / "unpacked")
        (debs / "unpacked").rename(folder)
        shutil.rmtree(debs)
    return folder


def unpack(archive, folder):
    """Unpacks the required selftests from the kernel's sources."""
    marks = ("/tools/testing/selftests/net/", "/tools/testing/selftests/kselftest/")
    with tarfile.open(archive) as tar:
        for member in tar:
            for mark in marks:
                if mark in member.name:
                    member.name = member.name.split("/selftests/", 1)[1]
                    tar.extract(member, folder)


def inside(out):
    """The commands in the guest."""
    lines = ["mount -t bpf bpf /sys/fs/bpf", "mount -t tmpfs tmpfs /run", "mkdir /run/netns", "mount -t tmpfs tmpfs /tmp"]
    # the scripts set these, but they cannot be set inside a namespace
    lines += [f"sysctl -qw net.{family}.neigh.default.gc_thresh{number}=65536"
              for family in ("ipv4", "ipv6") for number in (1, 2, 3)]
    lines += [f"modprobe {module}" for module in MODULES]
    return [*lines, f"exec /usr/bin/python3 {HERE}/guest.py {out}/task.json", ""]


def run(kernel, scripts, modes, vrfs, append, out):
    """Runs the scripts in one guest; returns the results."""
    task = {"selftests": str(sources(kernel)), "scripts": scripts, "modes": modes, "vrfs": vrfs,
            "seconds": SCRIPT_SECONDS, "out": str(out), "bora": bora.binary()}
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "task.json").write_text(json.dumps(task))
    # in a file, because the kernel's command line is short
    (out / "inside.sh").write_text("\n".join(inside(out)))
    seconds = SCRIPT_SECONDS * len(scripts) * len(modes) * len(vrfs)
    ended, why = machine.run(kernel, [], ["sh", str(out / "inside.sh")], out, seconds, append)
    if not ended:
        print(f"{why}: {out}/console.txt", file=sys.stderr)
    if not (out / "results.jsonl").exists():
        sys.exit(f"no result came out of the guest: {out}/console.txt")
    with open(out / "results.jsonl") as lines:
        return [json.loads(line) for line in lines]


def outcome(result):
    """The text of a cell: how many tests passed, which failed, and what Bora forwarded."""
    states = [state for _, state in result["tests"]]
    if result["code"] == 4 and not states:
        return "skipped"
    skipped = states.count("SKIP") + states.count("XFAIL")
    text = f"{states.count('OK')} of {len(states) - skipped}"
    if result["code"] is None:
        text += ", ran out of time"
    if result["mode"] != "linux":
        text += "; " + carried(result)
    return text


def carried(result):
    """How many packets Bora forwarded itself and how many it left to Linux, and why."""
    totals = {name: sum(report.get(name) or 0 for report in result["boras"]) for name in ("sent", "passed")}
    text = f"{totals['sent']} sent, {totals['passed']} left{reasons(result, 'punts')}"
    dropped = sum(sum((report.get("drops") or {}).values()) for report in result["boras"])
    return text + (f", {dropped} dropped{reasons(result, 'drops')}" if dropped else "")


def reasons(result, kind):
    """The reasons with a share of at least a tenth, in brackets, the most frequent first."""
    counts = Counter()
    for report in result["boras"]:
        counts.update(report.get(kind) or {})
    main = [name for name, count in counts.most_common() if count * 10 > counts.total()]
    return f" ({', '.join(main)})" if main else ""


def differences(results):
    """Lines of text about tests with another result than with Linux alone."""
    known = {(result["script"], result["vrfs"]): numbered(result) for result in results if result["mode"] == "linux"}
    lines = []
    for result in results:
        expected = known.get((result["script"], result["vrfs"]), {})
        if result["mode"] == "linux":
            continue
        found = numbered(result)
        lines += [f"{result['script']}, {result['mode']}: {test}: Linux {state}, with Bora {found.get((test, nth), 'not run')}"
                  for (test, nth), state in expected.items() if found.get((test, nth)) != state]
        if result["failed"]:
            lines.append(f"{result['script']}, {result['mode']}: {result['failed'].strip()}")
    return lines


def numbered(result):
    """Results by name and occurrence, because scripts give some IPv4 and IPv6 tests the same name."""
    seen, states = Counter(), {}
    for test, state in result["tests"]:
        states[test, seen[test]] = state
        seen[test] += 1
    return states


def table(results):
    """The results as Markdown: a row for each script."""
    lines = ["| script | VRFs | Linux alone | express | engine |", "| --- | --- | --- | --- | --- |"]
    keys = dict.fromkeys((result["script"], result["vrfs"]) for result in results)
    for key in keys:
        cells = {result["mode"]: outcome(result) for result in results if (result["script"], result["vrfs"]) == key}
        script, vrfs = key
        lines.append(f"| {script} | {vrfs} | " + " | ".join(cells.get(mode, "") for mode in MODES) + " |")
    return lines


def main():
    """Runs what is asked for; exit code 1 if a test has another result with Bora than without."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=list(kernels.SERIES), default="6.12")
    parser.add_argument("--mode", action="append", choices=MODES, help="may be given several times; default: all")
    parser.add_argument("--vrfs", choices=("namespaces", "keep"), default="namespaces",
                        help="make each VRF a namespace, so that Bora may forward, or keep them")
    parser.add_argument("--append", default="", help="more for the kernel's command line")
    parser.add_argument("--from", dest="results", type=Path, metavar="FILE", help="print the table of older results")
    parser.add_argument("scripts", nargs="*", help=f"default: {' '.join(SCRIPTS)}")
    options = parser.parse_args()
    if options.results:
        results = [json.loads(line) for line in options.results.read_text().splitlines()]
    else:
        kernel = kernels.get(options.kernel)
        out = CACHE / "results" / str(os.getpid())
        results = run(kernel, options.scripts or list(SCRIPTS), options.mode or list(MODES), [options.vrfs],
                      options.append, out)
        print(f"what each run said: {out}", file=sys.stderr)
    different = differences(results)
    print("\n".join([*table(results), "", *different]))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
