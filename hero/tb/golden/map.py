"""The register map of a card. Written by hero/registers.py from hero/registers.toml."""

ID = 0
CMD = 1
STATUS = 2
MAC_LOW = 3
MAC_HIGH = 4
IRQ_UNMASKED = 5
IRQ_MASK = 6
IRQ_MASKED = 7
RXLO_DESC = 8
RXHI_DESC = 9
TX_LEN = 10
TX_DESC = 11
LEVELS = 12
CPL_BASE = 13
ROUTE = 14
CLASS = 20
NEXTHOP_MAC = 44
PEER_BASE = 50
REQ_IN = 53
RSP_IN = 56
FWD_CNT = 59
FWD_HOST = 62
DROP_CNT = 63
ROUTE6_ADDRESS = 14
ROUTE6_RULE = 18
ROUTE6_MAC = 44
CMD_RESET = 0x1
CMD_RX = 0x2
CMD_TX = 0x4
CMD_FAST = 0x8
CMD_PROMISCUOUS = 0x10
CMD_COMMIT = 0x20
CMD_BANK_SHIFT = 8
STATUS_READY = 0x1
STATUS_LINK = 0x2
STATUS_FAST_OPEN = 0x4
STATUS_RECEIVING = 0x8
STATUS_BROKEN_SHIFT = 4
STATUS_ROUTES_SHIFT = 8
STATUS_VERSION_SHIFT = 16
LEVELS_ROUTES6_SHIFT = 12
ROUTE6_RULE_LENGTH_SHIFT = 0
ROUTE6_RULE_DEST_SHIFT = 8
IRQ_RXLO = 0x1
IRQ_RXHI = 0x2
IRQ_TX = 0x4
IRQ_RXLO_EMPTY = 0x8
IRQ_RXHI_EMPTY = 0x10
IRQ_FAULT = 0x20
IRQ_BUS = 0x40
IRQ_DROP = 0x80
ID_VALUE = 0x4845524f
VERSION = 0x1
ROUTE6_BANK = 0x18

RESET_CYCLES = 4  # cycles of sys_clk

# By number
NAMES = (
    "ID",
    "CMD",
    "STATUS",
    "MAC_LOW",
    "MAC_HIGH",
    "IRQ_UNMASKED",
    "IRQ_MASK",
    "IRQ_MASKED",
    "RXLO_DESC",
    "RXHI_DESC",
    "TX_LEN",
    "TX_DESC",
    "LEVELS",
    "CPL_BASE",
    "ROUTE_P0",
    "ROUTE_M0",
    "ROUTE_P1",
    "ROUTE_M1",
    "ROUTE_P2",
    "ROUTE_M2",
    "CLASS_P0_0",
    "CLASS_P0_1",
    "CLASS_P0_2",
    "CLASS_M0_0",
    "CLASS_M0_1",
    "CLASS_M0_2",
    "CLASS_P1_0",
    "CLASS_P1_1",
    "CLASS_P1_2",
    "CLASS_M1_0",
    "CLASS_M1_1",
    "CLASS_M1_2",
    "CLASS_P2_0",
    "CLASS_P2_1",
    "CLASS_P2_2",
    "CLASS_M2_0",
    "CLASS_M2_1",
    "CLASS_M2_2",
    "CLASS_P3_0",
    "CLASS_P3_1",
    "CLASS_P3_2",
    "CLASS_M3_0",
    "CLASS_M3_1",
    "CLASS_M3_2",
    "NEXTHOP_MAC0_LOW",
    "NEXTHOP_MAC0_HIGH",
    "NEXTHOP_MAC1_LOW",
    "NEXTHOP_MAC1_HIGH",
    "NEXTHOP_MAC2_LOW",
    "NEXTHOP_MAC2_HIGH",
    "PEER_BASE0",
    "PEER_BASE1",
    "PEER_BASE2",
    "REQ_IN0",
    "REQ_IN1",
    "REQ_IN2",
    "RSP_IN0",
    "RSP_IN1",
    "RSP_IN2",
    "FWD_CNT0",
    "FWD_CNT1",
    "FWD_CNT2",
    "FWD_HOST",
    "DROP_CNT",
)
WRITE_ONLY = {8, 9, 11}
WRITABLE = {  # the bits that keep what is written
    1: 0x1f1e,
    3: 0xffffffff,
    4: 0x3ffff,
    6: 0xff,
    13: 0xffffe000,
    14: 0xffffffff,
    15: 0xffffffff,
    16: 0xffffffff,
    17: 0xffffffff,
    18: 0xffffffff,
    19: 0xffffffff,
    20: 0xffffffff,
    21: 0xffffffff,
    22: 0xffff,
    23: 0xffffffff,
    24: 0xffffffff,
    25: 0xffff,
    26: 0xffffffff,
    27: 0xffffffff,
    28: 0xffff,
    29: 0xffffffff,
    30: 0xffffffff,
    31: 0xffff,
    32: 0xffffffff,
    33: 0xffffffff,
    34: 0xffff,
    35: 0xffffffff,
    36: 0xffffffff,
    37: 0xffff,
    38: 0xffffffff,
    39: 0xffffffff,
    40: 0xffff,
    41: 0xffffffff,
    42: 0xffffffff,
    43: 0xffff,
    44: 0xffffffff,
    45: 0xffff,
    46: 0xffffffff,
    47: 0xffff,
    48: 0xffffffff,
    49: 0xffff,
    50: 0xffffffff,
    51: 0xffffffff,
    52: 0xffffffff,
}
AFTER_RESET = {  # registers that are not 0 then
    15: 0xffffffff,
    17: 0xffffffff,
    19: 0xffffffff,
    23: 0xffffffff,
    24: 0xffffffff,
    25: 0xffff,
    29: 0xffffffff,
    30: 0xffffffff,
    31: 0xffff,
    35: 0xffffffff,
    36: 0xffffffff,
    37: 0xffff,
    41: 0xffffffff,
    42: 0xffffffff,
    43: 0xffff,
}

# DROP_CNT by number
COUNTERS = (
    "bad_fcs",
    "runt",
    "giant",
    "bad_checksum",
    "foreign_mac",
    "input_full",
    "peer_full",
    "host_full",
    "disabled",
    "no_grant",
    "over_grant",
    "burst_timeout",
    "malformed",
    "tx_length",
    "bus_error",
    "vector_refused",
    "received",
    "sent",
    "grants",
    "repeated",
    "bursts",
    "lost_completions",
)
VERDICTS = COUNTERS[:9]
DROPS = COUNTERS[:16]
