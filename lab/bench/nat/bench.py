"""NAT in a guest: nftables, Linux's flowtable, xdp-forward and Bora with the same flows (lab/bench/src/nat.rs); see docs/bench-nat.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import guest  # noqa: E402

SECONDS_A_ROUND = 900


def main():
    """Measures in a guest."""
    parser = guest.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    arguments, options = parser.parse_known_args()
    options = ["--rounds", str(arguments.rounds), *options]
    bench = guest.Bench("nat", guest.ROOT / "target/release/bench-nat", options, clock=3, seconds=SECONDS_A_ROUND * arguments.rounds)
    print(guest.measure(guest.kernels.get(arguments.kernel), bench))


if __name__ == "__main__":
    guest.main(main)
