"""Cases of the slow path: throughput and latency through a host, two priorities, vectors of descriptors."""

from hero.bench.chart import Panel
from hero.bench.fast_path import BUSES, LOADS, PHASES
from hero.bench.system import HIGH_TOS, STEP, cards_of, mesh_of_flows, offers, slow
from hero.bench.traffic import OVERHEAD, SIZES, Flow, frame, interval, network, next_hop
from hero.model import card as c
from hero.model.host import Cpu, Rings
from hero.model.library import CARDS, Hero

# The paper's PC forwards 400 Mbit/s of 64 B frames: 1.28 us each. This is put in, not measured.
SERVICE = 1280
INTERRUPT = 2000  # from the interrupt to the driver; an assumption, the paper has no figure


def lossless_load(bus, size, duration):
    """The highest load (to 1/64) of one flow without loss, and its run."""
    low, high, best = 0, 64, None
    while low < high:
        middle = (low + high + 1) // 2 if best else high
        run = slow(bus, [Flow(0, 0, 1, size)], middle / 64, duration, service=SERVICE, interrupt=INTERRUPT)
        if run.clean:
            low, best = middle, run
        else:
            high = middle - 1
    return low / 64, best


def saturation(report, quick, fast_latency):
    """Fig. 9, 14, 15, 16: both paths for each size; the slow one at its highest load without loss."""
    rows, rates, latencies = [], [], []
    for size in SIZES:
        load, run = lossless_load("pcix", size, 2_000_000 if quick else 5_000_000)
        case, wire = f"slow path, pcix, one flow, {size} B", 1e6 / interval(size)
        rate = report.add(case, f"CPU of {SERVICE} ns", "throughput without loss", "kpps", [load * wire],
                          "wire speed", wire)
        mean = report.add(case, f"CPU of {SERVICE} ns", "mean latency", "us", [run.mean_latency() / 1e3],
                          "fast path", fast_latency[size])
        rates.append((size, rate))
        latencies.append((size, mean))
        rows.append((size, f"{rate:.0f}", f"{wire:.0f}", f"{load * size * 1000 / (size + OVERHEAD):.0f}", f"{mean:.1f}",
                     f"{run.percentile(1) / 1e3:.1f}", f"{fast_latency[size]:.2f}", f"{mean / fast_latency[size]:.1f}"))
    report.table(f"Slow path, one flow, a CPU of {SERVICE} ns a packet: highest load without loss",
          ("size, B", "kpps", "wire, kpps", "Mbit/s of frames", "mean latency, us", "longest, us",
           "fast path, us", "slow / fast"), rows)
    fast_points = sorted(fast_latency.items())
    return [
        Panel("Forwarded without loss (as Fig. 9), one flow", "frame size, B", "kpps",
              [("fast path", [(size, 1e6 / interval(size)) for size in SIZES]), ("slow path", rates)],
              x_ticks=list(SIZES[2:])),
        Panel("Latency at the highest load (as Fig. 14)", "frame size, B", "mean latency, µs",
              [("slow path", latencies), ("fast path", fast_points)], log_y=True, x_ticks=list(SIZES[2:])),
        Panel("Slow path at the highest load (as Fig. 15)", "frame size, B", "mean latency, µs",
              [("slow path", latencies)], x_ticks=list(SIZES[2:])),
        Panel("Fast path at wire speed (as Fig. 16)", "frame size, B", "mean latency, µs",
              [("fast path", fast_points)], x_ticks=list(SIZES[2:])),
    ]


def latency_by_load(report, quick):
    """Fig. 12: 64 B frames, one flow through the CPU."""
    rows, points = [], []
    for load in LOADS:
        runs = [slow("pcix", [Flow(0, 0, 1, 64)], load, 2_000_000 if quick else 4_000_000, phase, service=SERVICE,
                     interrupt=INTERRUPT + round(997 * phase)) for phase in PHASES[: 1 if quick else 3]]
        mean = report.add(f"slow path, pcix, one flow, 64 B, load {load:.0%}", f"CPU of {SERVICE} ns", "mean latency", "us",
                          (run.mean_latency() / 1e3 for run in runs))
        points.append((load * 100, mean))
        run = runs[0]
        rows.append((f"{load:.0%}", f"{mean:.1f}", f"{run.percentile(1) / 1e3:.1f}", run.lost, run.cpu.interrupts,
                     run.conserved()))
    report.table("Slow path: latency against load, 64 B", ("load", "mean, us", "longest, us", "lost", "interrupts",
          "all accounted for"), rows)
    return Panel("Slow path, 64 B frames (as Fig. 12)", "offered load, % of 1 Gbit/s", "mean latency, µs",
                 [("slow path", points)], log_y=True)


def priorities(report, quick):
    """Fig. 10 and 11: half of the frames of high priority, without and with classes on the card."""
    rows, panels = [], []
    for classes, title in (((), "without classes (as Fig. 10)"), ((c.HOST,), "with classes (as Fig. 11)")):
        curves = {"high": [], "low": []}
        for load in LOADS:
            flows = [Flow(high, 0, 1, 64, HIGH_TOS * high) for high in (0, 1)]
            run = slow("pcix", flows, load, 2_000_000 if quick else 5_000_000, classes=classes, service=SERVICE,
                       interrupt=INTERRUPT)
            row = [title.split(" (")[0], f"{load:.0%}"]
            for k, name in ((1, "high"), (0, "low")):
                share = 100 * run.sink.got[k] / flows[k].offered
                report.add(f"slow path, pcix, 64 B, {title}, load {load:.0%}", f"{name} priority", "forwarded", "%",
                           [share], "offered", 100)
                curves[name].append((load * 100, share / 100 * load / 2 * 1e6 / interval(64)))
                row.append(f"{share:.1f} %")
            rows.append((*row, run.drops().get("host_full", 0), run.conserved()))
        panels.append(Panel(f"Slow path {title}", "offered load, % of 1 Gbit/s", "forwarded, kpps",
                            [(f"{name} priority", points) for name, points in curves.items()]))
    report.table("Slow path in overload", ("cards", "load", "high", "low", "dropped, queue full", "all accounted for"), rows)
    return panels


def four_ports(report, quick):
    """What cards and bus could do with a CPU that takes no time: 4 x 1 Gbit/s offered, each packet over the bus twice."""
    rows = []
    for bus in BUSES:
        for size in SIZES:
            run = slow(bus, mesh_of_flows(size), 1.0, 1_000_000 if quick else 3_000_000)
            wire = 4e3 / interval(size)
            rate = report.add(f"slow path, {bus}, mesh, {size} B", "CPU of 0 ns", "throughput of four ports", "Mpps",
                              [sum(run.rate(k) for k in range(CARDS)) / CARDS * wire], "wire speed", wire)
            rows.append((bus, size, f"{rate:.3f}", f"{wire:.3f}", f"{rate / wire:.1%}", run.lost, run.sink.reordered,
                         run.cpu.interrupts, run.conserved()))
    report.table("Slow path, four ports, a CPU without cost", ("bus", "size, B", "Mpps", "wire, Mpps", "of wire", "lost",
          "reordered", "interrupts", "all accounted for"), rows)


def receive_only(vector, size, duration):
    """Mpps into the host's memory: four cards, a host that only counts, full load."""
    with Hero("pcix") as hero:
        cards = cards_of(hero, fast=False)
        cpu = Cpu(hero, [Rings(card, vector) for card in cards], lambda _card, _frame: None, service=0)
        flows = mesh_of_flows(size)
        begin = hero.now
        sources = offers(hero, flows, 1.0, duration)
        while hero.now < begin + duration:
            for source in sources:
                source.feed(hero, hero.now + STEP)
            cpu.run(hero.now + STEP)
        return cpu.handled / (hero.now - begin) * 1e3


def transmit_only(vector, size, duration):
    """Mpps out of the host's memory: four cards whose transmit rings never run dry."""
    with Hero("pcix") as hero:
        cards = cards_of(hero, fast=False)
        rings = [Rings(card, vector, buffers=256) for card in cards]
        octets = size - 4
        for k, r in enumerate(rings):
            sample = frame(next_hop(k), c.mac(k), network(0) | 1, network(k) | 2, octets, 63)
            for address in r.free:
                hero.memory[address : address + octets] = sample
            for _ in range(128):
                r.send(r.free.popleft(), octets)
        begin, sent = hero.now, 0
        while hero.now < begin + duration:
            for r in rings:
                for address in r.reclaim():
                    r.send(address, octets)
                    sent += 1
                r.flush()
            hero.run(20)
        return sent / (hero.now - begin) * 1e3


def vectors(report, quick):
    """Fig. 6: vectors of 32 descriptors beside single ones, which stand for scatter-gather; PCI-X at 133 MHz."""
    rows, panels = [], []
    duration = 500_000 if quick else 2_000_000
    for name, measure in (("writing to the host", receive_only), ("reading from the host", transmit_only)):
        curves = {"vectors of 32": [], "vectors of 8": [], "single descriptors": []}
        for size in SIZES:
            wire, rates = 4e3 / interval(size), []
            for (subject, points), vector in zip(curves.items(), (32, 8, 1)):
                rates.append(measure(vector, size, duration))
                points.append((size, rates[-1] * size * 8 / 1e3))
                report.add(f"{name}, pcix, four cards, {size} B", subject, "throughput", "Mpps", rates[-1:],
                           "vectors of 32", rates[0])
            rows.append((name, size, *(f"{x:.3f}" for x in rates), f"{wire:.3f}", f"{rates[2] / rates[0]:.2f}"))
        limit = [(size, 4 * size / (size + OVERHEAD)) for size in SIZES]
        panels.append(Panel(f"{name[0].upper()}{name[1:]} (as Fig. 6)", "frame size, B", "Gbit/s of frames, four cards",
                            [*curves.items(), ("wire speed", limit, "paper")], x_ticks=list(SIZES[2:])))
    report.table("Descriptors: Mpps of four cards over PCI-X at 133 MHz", ("direction", "size, B", "vectors of 32",
          "vectors of 8", "single", "wire", "single / 32"), rows)
    return panels
