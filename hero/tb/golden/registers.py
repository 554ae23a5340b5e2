"""The registers of a card: numbers, bits, reset values, kinds of access. The text is hero/README.md."""

ID, CMD, STATUS, MAC_LOW, MAC_HIGH, IRQ_UNMASKED, IRQ_MASK, IRQ_MASKED = range(8)
RXLO_DESC, RXHI_DESC, TX_LEN, TX_DESC, LEVELS, CPL_BASE, ROUTE = range(8, 15)
CLASS, NEXTHOP_MAC, PEER_BASE, REQ_IN, RSP_IN, FWD_CNT, FWD_HOST, DROP_CNT = 20, 44, 50, 53, 56, 59, 62, 63
COUNT = 64

RESET_CYCLES = 4  # of sys_clk: the hardware's reset, at least
ID_VALUE = 0x4845524F
CMD_RESET, CMD_RX, CMD_TX, CMD_FAST, CMD_PROMISCUOUS, CMD_COMMIT = (1 << bit for bit in range(6))
CMD_BANK_SHIFT = 8
STATUS_READY, STATUS_LINK, STATUS_FAST_OPEN, STATUS_RECEIVING = (1 << bit for bit in range(4))
STATUS_BROKEN_SHIFT = 4  # a bit a ring

IRQ_RXLO, IRQ_RXHI, IRQ_TX, IRQ_RXLO_EMPTY, IRQ_RXHI_EMPTY, IRQ_FAULT, IRQ_BUS, IRQ_DROP = (1 << bit for bit in range(8))

# DROP_CNT by number. The first nine are verdicts on frames received.
COUNTERS = (
    "bad_fcs runt giant bad_checksum foreign_mac input_full peer_full host_full disabled "
    "no_grant over_grant burst_timeout malformed tx_length bus_error vector_refused "
    "received sent grants repeated bursts lost_completions"
).split()
VERDICTS = COUNTERS[:9]
DROPS = COUNTERS[:16]

NAMES = (
    "ID CMD STATUS MAC_LOW MAC_HIGH IRQ_UNMASKED IRQ_MASK IRQ_MASKED RXLO_DESC RXHI_DESC TX_LEN TX_DESC LEVELS CPL_BASE".split()
    + [f"ROUTE_{kind}{d}" for d in range(3) for kind in "PM"]
    + [f"CLASS_{kind}{d}_{word}" for d in range(4) for kind in "PM" for word in range(3)]
    + [f"NEXTHOP_MAC{d}_{part}" for d in range(3) for part in ("LOW", "HIGH")]
    + [f"{name}{k}" for name in ("PEER_BASE", "REQ_IN", "RSP_IN", "FWD_CNT") for k in range(3)]
    + ["FWD_HOST", "DROP_CNT"]
)
assert len(NAMES) == COUNT

WRITE_ONLY = {RXLO_DESC, RXHI_DESC, TX_DESC}
READ_WRITE = {CMD, MAC_LOW, MAC_HIGH, IRQ_MASK, CPL_BASE, *range(ROUTE, REQ_IN)}
RULES = range(ROUTE, PEER_BASE)


def writable(register):
    """The bits of a read-write register that keep what is written."""
    if register == CMD:
        return 0x1F1E  # reset and commit clear themselves
    if register == MAC_HIGH:
        return 0x3FFFF
    if register == IRQ_MASK:
        return 0xFF
    if register == CPL_BASE:
        return 0xFFFFE000
    if NEXTHOP_MAC <= register < PEER_BASE and register % 2:
        return 0xFFFF
    if CLASS <= register < NEXTHOP_MAC and (register - CLASS) % 3 == 2:
        return 0xFFFF
    return 0xFFFFFFFF


def reset_value(register):
    """What a read-write register holds after reset."""
    if register in (ROUTE + 1, ROUTE + 3, ROUTE + 5):
        return 0xFFFFFFFF
    if CLASS <= register < NEXTHOP_MAC and (register - CLASS) // 3 % 2:
        return writable(register)
    return 0
