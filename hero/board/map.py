"""The board's own registers (rtl/hero_board_regs.sv), and those of its PHYs that the tools use. docs/hero-board.md explains them."""

CARDS = 2
BOARD = 2  # its unit; 0 and 1 are the cards

# Registers by number
ID, CLOCK, BROKEN, SCRATCH = range(4)
ID_VALUE = 0x48425244  # "HBRD"


def port(socket):
    """The number of a socket's first register; PHY, MDIO, DELAY and STATE count from it."""
    return 8 + 8 * socket


PHY, MDIO, DELAY, STATE = range(4)
PHY_RESET, PHY_HOLD, PHY_ADDRESS_SHIFT = 1, 2, 8
MDIO_WRITE, MDIO_MISSING, MDIO_BUSY = 1 << 26, 1 << 30, 1 << 31
DELAY_BUSY = 1 << 31
STATE_LINK, STATE_PRESENT = 1, 2

# Marvell 88E1512
PAGE = 22
CONTROL, IDENTIFIER_HIGH, IDENTIFIER_LOW, ADVERTISE, ADVERTISE_GIGABIT = 0, 2, 3, 4, 9
CONTROL_RESET, CONTROL_NEGOTIATE, CONTROL_AGAIN = 1 << 15, 1 << 12, 1 << 9
MARVELL = 0x0141
ADVERTISE_SPEEDS = 0x03E0  # 10 and 100 Mbit/s, which the board has not
GIGABIT_FULL, GIGABIT_HALF = 1 << 9, 1 << 8
MAC_PAGE, MAC_CONTROL = 2, 21
MAC_RX_DELAY, MAC_TX_DELAY = 1 << 5, 1 << 4
