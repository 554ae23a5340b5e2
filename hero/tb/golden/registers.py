"""The registers of a card: the map (registers.toml) and what follows from it. The text is hero/README.md."""

from .map import *  # noqa: F403
from .map import AFTER_RESET, NAMES, PEER_BASE, ROUTE, WRITABLE

COUNT = len(NAMES)
READ_WRITE = set(WRITABLE)
RULES = range(ROUTE, PEER_BASE)


def writable(register):
    """The bits of a read-write register that keep what is written."""
    return WRITABLE[register]


def reset_value(register):
    """What a register holds after reset, if it is read-write; else 0."""
    return AFTER_RESET.get(register, 0)
