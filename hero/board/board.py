#!/usr/bin/env python3
"""Works with HERO on the ECP5 Versa board over its serial line. It needs nothing but Python. docs/hero-board.md

    board.py [--port DEVICE] info                          what answers there, and the links
    board.py phy                                           finds and prepares the PHYs
    board.py load FILE                                     the cards' addresses and routes
    board.py counters                                      all that are not 0
    board.py get UNIT REGISTER | put UNIT REGISTER VALUE   UNIT: 0, 1: a card, 2: the board; REGISTER: its number or name
    board.py mdio SOCKET REGISTER [VALUE] [--page PAGE]
    board.py delay SOCKET [--rx TAPS] [--tx TAPS]          25 ps each
    board.py scan SOCKET                                   tries all delays of the inputs while frames come in"""

import argparse
import sys
import termios
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from hero.board import control, map as board  # noqa: E402
from hero.board.serial_line import Refused, Registers, Serial, Silent  # noqa: E402
from hero.tb.golden import map as card  # noqa: E402

SCAN_STEP, SCAN_SECONDS = 4, 0.2


def number(text):
    return int(text, 0)


def register(text):
    return card.NAMES.index(text.upper()) if text.upper() in card.NAMES else number(text)


def info(registers, _):
    if registers.read(board.BOARD, board.ID) != board.ID_VALUE:
        raise control.Wrong("what answers is not the board")
    clock = registers.read(board.BOARD, board.CLOCK)
    print(f"board: version {clock >> 16}, sys_clk {(clock & 0xFFFF) / 100:.2f} MHz, "
          f"{registers.read(board.BOARD, board.BROKEN)} broken requests")
    for k in range(board.CARDS):
        status = registers.read(k, card.STATUS)
        state = registers.read(board.BOARD, board.port(k) + board.STATE)
        phy = "link" if state & board.STATE_LINK else "no link at 1 Gbit/s" if state & board.STATE_PRESENT else "no PHY at its address"
        receives = "a receive clock" if status & card.STATUS_RECEIVING else "no receive clock"
        print(f"card {k}: {'ready' if status & card.STATUS_READY else 'in reset'}, "
              f"{status >> card.STATUS_ROUTES_SHIFT & 0xFF} routes, {phy} (register 17: {state >> 16:#06x}), {receives}")


def phy(registers, _):
    for k in range(board.CARDS):
        each = control.Phy(registers, k)
        each.prepare()
        print(f"socket {k}: PHY at address {each.address}, identifier {each.mdio(board.IDENTIFIER_HIGH):04x} {each.mdio(board.IDENTIFIER_LOW):04x}")


def load(registers, options):
    control.load(registers, Path(options.file).read_text())


def counters(registers, _):
    for k in range(board.CARDS):
        print(f"card {k}: " + ", ".join(f"{name} {value}" for name, value in control.Card(registers, k).counters().items() if value))


def get(registers, options):
    print(f"{registers.read(options.unit, options.register):#010x}")


def put(registers, options):
    registers.write(options.unit, options.register, options.value)


def mdio(registers, options):
    each = control.Phy(registers, options.socket)
    access = each.mdio if options.page is None else lambda *what: each.paged(options.page, *what)
    result = access(options.register, options.value)
    if options.value is None:
        print("no answer" if result is None else f"{result:#06x}")


def delay(registers, options):
    print("taps: rx {}, tx {}".format(*control.Phy(registers, options.socket).delay(options.rx, options.tx)))


def scan(registers, options):
    """At each delay: frames received, and those of them that were broken."""
    each, own = control.Phy(registers, options.socket), control.Card(registers, options.socket)
    before, _ = each.delay()
    broken = ("bad_fcs", "runt", "giant")
    for taps in range(0, 128, SCAN_STEP):
        each.delay(rx=taps)
        first = {name: own.counter(name) for name in ("received", *broken)}
        time.sleep(SCAN_SECONDS)
        came = {name: own.counter(name) - value for name, value in first.items()}
        print(f"rx {taps:3}: {came['received']:7} received, {sum(came[name] for name in broken):7} broken")
    each.delay(rx=before)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", default="/dev/ttyUSB1")
    parser.add_argument("--baud", type=int, default=115200)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(function, *words):
        sub = commands.add_parser(function.__name__)
        for word, kind in words:
            sub.add_argument(word, type=kind)
        sub.set_defaults(function=function)
        return sub

    for function in (info, phy, counters):
        command(function)
    command(load, ("file", str))
    command(get, ("unit", number), ("register", register))
    command(put, ("unit", number), ("register", register), ("value", number))
    sub = command(mdio, ("socket", number), ("register", number))
    sub.add_argument("value", type=number, nargs="?")
    sub.add_argument("--page", type=number)
    sub = command(delay, ("socket", number))
    sub.add_argument("--rx", type=number)
    sub.add_argument("--tx", type=number)
    command(scan, ("socket", number))
    return parser.parse_args()


def main():
    options = arguments()
    try:
        options.function(Registers(Serial(options.port, options.baud)), options)
    except (OSError, termios.error, Refused, Silent, control.Wrong) as e:
        sys.exit(f"board.py: {e}")


if __name__ == "__main__":
    main()
