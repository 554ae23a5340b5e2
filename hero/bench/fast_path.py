"""Cases of the fast path: wire speed, latency, priorities and shares on an overloaded output, the bus's set-up time."""

from hero.bench.chart import Panel
from hero.bench.system import fast, mesh_of_flows, ring_of_flows, HIGH_TOS
from hero.bench.traffic import SIZES, Flow, interval
from hero.model import build

BUSES = ("pcix", "xbar")
PHASES = (0.0, 0.37, 0.71)  # phases of the rounds
LOADS = tuple(k / 10 for k in range(1, 11))
PATTERNS = (("ring", ring_of_flows), ("mesh", mesh_of_flows))


def wire_speed(report, quick):
    """Four ports, all sending and receiving 1 Gbit/s. The longest latency shows that no queue grows."""
    duration = 1_000_000 if quick else 2_000_000
    rows = []
    for bus in BUSES:
        for pattern, flows in PATTERNS:
            for size in SIZES:
                runs = [fast(bus, flows(size), 1.0, duration, phase) for phase in PHASES[: 1 if quick else 3]]
                case, wire = f"fast path, {bus}, {pattern}, {size} B", 4e3 / interval(size)
                rate = report.add(case, "HERO", "throughput of four ports", "Mpps",
                                  (sum(run.rate(k) for k in range(4)) / 4 * wire for run in runs), "wire speed", wire)
                lost = sum(run.lost for run in runs)
                disorder = sum(run.sink.reordered + run.sink.damaged for run in runs)
                report.add(case, "HERO", "frames lost", "", (run.lost for run in runs))
                report.add(case, "HERO", "frames reordered or damaged", "",
                           (run.sink.reordered + run.sink.damaged for run in runs))
                mean = report.add(case, "HERO", "mean latency", "us", (run.mean_latency() / 1e3 for run in runs))
                longest = report.add(case, "HERO", "longest latency", "us",
                                     (run.percentile(1) / 1e3 for run in runs))
                frames = sum(flow.offered for run in runs for flow in run.sink.flows.values())
                rows.append((bus, pattern, size, frames, f"{rate:.3f}", f"{wire:.3f}", lost, disorder,
                             f"{mean:.2f}", f"{longest:.2f}"))
    report.table("Fast path at wire speed: 4 x 1 Gbit/s", ("bus", "pattern", "size, B", "frames", "Mpps", "wire, Mpps", "lost",
          "reordered or damaged", "mean latency, us", "longest, us"), rows)


def latency_by_load(report, quick):
    """Fig. 13: one flow and all four ports, 64 B frames."""
    curves, rows = {}, []
    for bus in BUSES:
        for name, flows in (("one flow", lambda: [Flow(0, 0, 1, 64)]), ("four ports", lambda: mesh_of_flows(64))):
            for load in LOADS:
                runs = [fast(bus, flows(), load, 500_000, phase) for phase in PHASES[: 1 if quick else 3]]
                mean = report.add(f"fast path, {bus}, {name}, 64 B, load {load:.0%}", "HERO", "mean latency", "us",
                                  (run.mean_latency() / 1e3 for run in runs))
                curves.setdefault(f"{bus}, {name}", []).append((load * 100, mean))
                rows.append((bus, name, f"{load:.0%}", f"{mean:.2f}", f"{max(r.percentile(1) for r in runs) / 1e3:.2f}",
                             sum(run.lost for run in runs)))
    report.table("Fast path: latency against load, 64 B", ("bus", "traffic", "load", "mean, us", "longest, us", "lost"), rows)
    return Panel("Fast path, 64 B frames (as Fig. 13)", "offered load, % of 1 Gbit/s", "mean latency, µs",
                 list(curves.items()))


def priorities(report, quick):
    """Two cards send to a third one, each half high and half low priority: overload from 50 % a card."""
    rows, curves = [], {"high": [], "low": []}
    for load in LOADS:
        flows = [Flow(2 * source + high, source, 2, 64, HIGH_TOS * high) for source in (0, 1) for high in (0, 1)]
        # Half a run to fill the queues: they hold 5 ms of what is too much at 60 %.
        duration = 2_000_000 if load <= 0.5 else 8_000_000 if quick else 12_000_000
        run = fast("pcix", flows, load, duration, classes=(0, 1, 2), warm_up=0.5)
        row = [f"{load:.0%}"]
        for name, mine in (("high", (1, 3)), ("low", (0, 2))):
            share = run.sink.share(mine)
            report.add(f"fast path, pcix, two inputs to one output, 64 B, load {load:.0%}", f"{name} priority",
                       "forwarded", "%", [100 * share], "offered", 100)
            curves[name].append((load * 100, share * load * 1e3 / interval(64)))
            row.append(f"{100 * share:.1f} %")
        rows.append((*row, run.drops().get("peer_full", 0), run.sink.reordered, run.conserved()))
    report.table("Fast path in overload: two inputs, one output", ("load of an input", "high", "low", "dropped, queue full",
          "reordered", "all accounted for"), rows)
    return Panel("Fast path: two inputs, one output", "load of each input, %", "forwarded, Mpps",
                 [(f"{name} priority", points) for name, points in curves.items()])


def starvation(report, quick):
    """Two cards with frames of 252 B and one with 1514 B (without FCS) on one output, all at line speed."""
    rows = []
    for bus in BUSES:
        sizes = (256, 256, 1518)
        flows = [Flow(source, source, 3, size) for source, size in enumerate(sizes)]
        run = fast(bus, flows, 1.0, 3_000_000 if quick else 6_000_000)
        octets = [run.sink.octets[k] for k in range(3)]
        for k, size in enumerate(sizes):
            report.add(f"fast path, {bus}, 256 + 256 + 1518 B to one output", f"source {k}, {size} B", "share of octets", "%",
                       [100 * octets[k] / sum(octets)], "an equal share", 100 / 3)
        rows.append((bus, *(f"{x / 1e3:.0f}" for x in octets), f"{min(octets) / max(octets):.2f}", run.sink.reordered))
    report.table("Shares of an overloaded output, kB", ("bus", "256 B", "256 B", "1518 B", "least / most", "reordered"), rows)


def setup_cycles(report, quick):
    """What the bus's set-up time costs: 64 B, four ports, mesh."""
    rows, delays, packing = [], [], []
    for setup in (0, 8, 32, 64):
        name = "pcix" if setup == build.BUILDS["pcix"]["SETUP"] else f"pcix-setup{setup}"
        if name != "pcix":
            build.build(name, {**build.BUILDS["pcix"], "SETUP": setup})
        run = fast(name, mesh_of_flows(64), 1.0, 1_000_000 if quick else 2_000_000)
        wire = 4e3 / interval(64)
        frames = sum(run.sink.got.values())
        bursts = sum(counted.get("bursts", 0) for counted in run.counters)
        rate = report.add(f"fast path, set-up of {setup} cycles, mesh, 64 B", "HERO", "throughput of four ports", "Mpps",
                          [sum(run.rate(k) for k in range(4)) / 4 * wire], "wire speed", wire)
        rows.append((setup, f"{rate:.3f}", f"{wire:.3f}", run.lost, f"{frames / bursts:.2f}", f"{run.mean_latency() / 1e3:.2f}"))
        delays.append((setup, run.mean_latency() / 1e3))
        packing.append((setup, frames / bursts))
    report.table("Fast path, 64 B, four ports at wire speed, against the bus's set-up time",
                 ("set-up, cycles", "Mpps", "wire, Mpps", "lost", "frames a burst", "mean latency, us"), rows)
    return Panel("Fast path, 64 B, four ports at wire speed", "set-up of a bus transaction, cycles of 100 MHz", "µs; frames",
                 [("mean latency, µs", delays), ("frames a burst", packing)])


def routes(report, quick):
    """What many routes cost: the card compares three a cycle. 64 B, four ports, mesh; the last three routes match."""
    rows, delays, wire = [], [], 4e3 / interval(64)
    for count in (3, 16, 64):
        name = "pcix" if count == build.BUILDS["pcix"]["ROUTES"] else f"pcix-{count}"
        if name != "pcix":
            build.build(name, {**build.BUILDS["pcix"], "ROUTES": count})
        run = fast(name, mesh_of_flows(64), 1.0, 1_000_000 if quick else 2_000_000, routes=count)
        case = f"fast path, pcix, mesh, 64 B, {count} routes"
        rate = report.add(case, "HERO", "throughput of four ports", "Mpps",
                          [sum(run.rate(k) for k in range(4)) / 4 * wire], "wire speed", wire)
        report.add(case, "HERO", "frames lost", "", [run.lost])
        mean = report.add(case, "HERO", "mean latency", "us", [run.mean_latency() / 1e3])
        rows.append((count, f"{rate:.3f}", f"{wire:.3f}", run.lost, f"{mean:.2f}"))
        delays.append((count, mean))
    report.table("Fast path, 64 B, four ports at wire speed, against the number of routes",
                 ("routes", "Mpps", "wire, Mpps", "lost", "mean latency, us"), rows)
    return Panel("Fast path, 64 B, four ports at wire speed", "routes", "mean latency, µs", [("mean latency", delays)])
