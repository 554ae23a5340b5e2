"""Both paths, a few frames of each kind and size."""

import cocotb
from system_bench import Bench
from traffic import OUTSIDE, Traffic


@cocotb.test()
async def both_paths(dut):
    async with Bench(dut) as bench:
        traffic = Traffic()
        for card in bench.cards:
            for to in bench.cards + [OUTSIDE]:
                for size in (60, 61, 67, 68, 333, 1514):
                    bench.lines[card].send(traffic.routed(card, to, size))
                    if bench.routes6:
                        bench.lines[card].send(traffic.routed6(card, to, size))
            for size in (14, 59, 60, 65, 1518):
                bench.drivers[card].send(traffic.from_host(size))
        await bench.quiet()
        assert not bench.ledger.open(), f"{len(bench.ledger.open())} frames did not come out"
