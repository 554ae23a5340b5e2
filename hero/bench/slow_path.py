"""Cases of the slow path: throughput and latency through a host, two priorities, vectors of descriptors."""

from hero.bench.chart import Panel
from hero.bench.fast_path import BUSES, LOADS
from hero.bench.system import HIGH_TOS, STEP, cards_of, fast, mesh_of_flows, offers, slow
from hero.bench.traffic import OVERHEAD, SIZES, Flow, frame, interval, network, next_hop
from hero.model import card as c
from hero.model.host import Cpu, Rings
from hero.model.library import CARDS, Hero

# The paper's PC forwards 400 Mbit/s of 64 B frames: 1.28 us each. This is an input of the model, not a measurement.
SERVICE = 1280
PAPER = 1e6 / SERVICE  # kpps
INTERRUPT = 2000  # from the interrupt to the driver; an assumption, the paper has no figure


def lossless_load(size, duration):
    """The highest load (to 1/64) of one flow without loss and without growing queues, and its run."""
    low, high, best = 0, 64, None
    while low < high:
        middle = (low + high + 1) // 2 if high < 64 else high
        run = slow("pcix", [Flow(0, 0, 1, size)], middle / 64, duration, service=SERVICE, interrupt=INTERRUPT)
        if run.clean and run.settled():
            low, best = middle, run
        else:
            high = middle - 1
    return low / 64, best


def saturation(report, quick):
    """Fig. 9, 14, 15, 16: one flow over either path for each size, at its highest load without loss."""
    rows, rates, latencies = [], {"fast path": [], "slow path": []}, {"fast path": [], "slow path": []}
    duration = 2_000_000 if quick else 3_000_000
    for size in SIZES:
        direct = fast("pcix", [Flow(0, 0, 1, size)], 1.0, duration)
        wire = 1e6 / interval(size)
        row = [size, f"{wire:.0f}"]
        for subject, run, load in (("fast path", direct, 1.0),
                                   ("slow path", *reversed(lossless_load(size, duration)))):
            case = f"pcix, one flow, {size} B"
            assert run.clean, (subject, size)
            rate = report.add(case, subject, "throughput without loss", "kpps", [load * wire], "wire speed", wire)
            mean = report.add(case, subject, "mean latency", "us", [run.mean_latency() / 1e3], "fast path",
                              direct.mean_latency() / 1e3)
            rates[subject].append((size, rate))
            latencies[subject].append((size, mean))
            row += [f"{rate:.0f}", f"{load * size * 1000 / (size + OVERHEAD):.0f}", f"{mean:.2f}",
                    f"{run.percentile(1) / 1e3:.2f}"]
        rows.append((*row, f"{mean / (direct.mean_latency() / 1e3):.1f}"))
    report.table(f"One flow at its highest load without loss, the slow path with a CPU of {SERVICE} ns a packet",
                 ("size, B", "wire, kpps", "fast: kpps", "Mbit/s of frames", "mean latency, us", "longest",
                  "slow: kpps", "Mbit/s of frames", "mean latency, us", "longest", "slow / fast"), rows)
    ticks = [64, *SIZES[2:]]
    return [
        Panel("Forwarded without loss (as Fig. 9), one flow", "frame size, B", "kpps",
              [*rates.items(), ("paper's text: slow path", [(64, PAPER)], "cross")], x_ticks=ticks),
        Panel("Latency at the highest load (as Fig. 14)", "frame size, B", "mean latency, µs",
              list(reversed(latencies.items())), log_y=True, x_ticks=ticks),
        Panel("Slow path at the highest load (as Fig. 15)", "frame size, B", "mean latency, µs",
              [("slow path", latencies["slow path"])], x_ticks=ticks),
        Panel("Fast path at wire speed (as Fig. 16)", "frame size, B", "mean latency, µs",
              [("fast path", latencies["fast path"])], x_ticks=ticks),
    ]


def overload(report, quick):
    """Fig. 10, 11, 12: 64 B frames through the CPU, half of them of high priority, without and with classes."""
    rows, panels, delays = [], [], []
    for classes, title in (((), "without classes (as Fig. 10, 12)"), ((c.HOST,), "with classes (as Fig. 11)")):
        curves, delays = {"high": [], "low": []}, {"high": [], "low": []}
        for load in LOADS:
            flows = [Flow(high, 0, 1, 64, HIGH_TOS * high) for high in (0, 1)]
            # Half a run to fill queues and buffers, which hold 7 ms of what is too much at 60 %.
            duration = 2_000_000 if load <= 0.5 else 8_000_000 if quick else 14_000_000
            run = slow("pcix", flows, load, duration, classes=classes, warm_up=0.5, service=SERVICE, interrupt=INTERRUPT)
            row = [title.split(" (")[0], f"{load:.0%}"]
            for k, name in ((1, "high"), (0, "low")):
                share, case = run.sink.share([k]), f"slow path, pcix, 64 B, {title}, load {load:.0%}"
                report.add(case, f"{name} priority", "forwarded", "%", [100 * share], "offered", 100)
                curves[name].append((load * 100, share * load / 2 * 1e6 / interval(64)))
                row.append(f"{share:.1%}")
                values = run.sink.latency[k]
                if values:
                    mean = report.add(case, f"{name} priority", "mean latency", "us", [sum(values) / len(values) / 1e3])
                    delays[name].append((load * 100, mean))
                row.append(f"{mean:.1f}" if values else "none")
            rows.append((*row, run.drops().get("host_full", 0), run.cpu.interrupts, run.sink.reordered, run.conserved()))
        panels.append(Panel(f"Slow path {title}", "offered load, % of 1 Gbit/s", "forwarded, kpps",
                            [(f"{name} priority", points) for name, points in curves.items()]))
        panels.append(Panel(f"Slow path {title}", "offered load, % of 1 Gbit/s", "mean latency, µs",
                            [(f"{name} priority", points) for name, points in delays.items()], log_y=True))
    report.table("Slow path, 64 B, one flow of each priority", ("cards", "load", "high", "mean latency, us", "low", "mean latency, us",
                 "dropped, queue full", "interrupts", "reordered", "all accounted for"), rows)
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
        sources = offers(hero, mesh_of_flows(size), 1.0, duration)
        begin, handled = hero.now + duration // 4, 0
        while any(source.left for source in sources):
            until = hero.now + STEP
            for source in sources:
                source.feed(hero, until + STEP)
            cpu.run(until)
            if hero.now <= begin:
                start, handled = hero.now, cpu.handled
        return (cpu.handled - handled) / (hero.now - start) * 1e3


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
        begin, end = hero.now + duration // 4, hero.now + duration
        start = sent = None
        while hero.now < end:
            for r in rings:
                for address in r.reclaim():
                    r.send(address, octets)
                r.flush()
            hero.run(20)
            if start is None and hero.now >= begin:
                start, sent = hero.now, sum(card.counter("sent") for card in cards)
        return (sum(card.counter("sent") for card in cards) - sent) / (hero.now - start) * 1e3


def vectors(report, quick):
    """Fig. 6: vectors of 32 descriptors beside single ones, which stand for scatter-gather; over the shared bus."""
    rows, panels = [], []
    duration = 500_000 if quick else 1_000_000
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
                            [*curves.items(), ("wire speed", limit, "dashed")], x_ticks=[64, *SIZES[2:]]))
    report.table("Descriptors: Mpps of four cards over the shared bus", ("direction", "size, B", "vectors of 32",
          "vectors of 8", "single", "wire", "single / 32"), rows)
    return panels
