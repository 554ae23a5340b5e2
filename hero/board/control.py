"""What is done with the board's registers: PHYs by MDIO, delays, cards with their routes, counters."""

import ipaddress
import tomllib

from hero.board import map as board
from hero.tb.golden import map as card

APERTURE, APERTURE_SIZE = 0x8000_0000, 0x10_0000
CARD_SHIFT = 16  # in MAC_HIGH
TRIES = 500
ROUTES_A_BANK = 3  # one of them leads to the other card


class Wrong(Exception):
    """The board, a PHY or a file is not as it must be."""


def until(condition, what):
    """Waits for a condition that reads the board, which takes more than a millisecond each time."""
    if not any(condition() for _ in range(TRIES)):
        raise Wrong(f"{what} does not end")


class Phy:
    """The PHY of a socket."""

    def __init__(self, registers, socket):
        self.registers, self.first, self.socket = registers, board.port(socket), socket
        self.address = registers.read(board.BOARD, self.first + board.PHY) >> board.PHY_ADDRESS_SHIFT & 31

    def control(self, bits):
        self.registers.write(board.BOARD, self.first + board.PHY, self.address << board.PHY_ADDRESS_SHIFT | bits)

    def mdio(self, number, value=None, address=None):
        """Reads a register, or writes `value`; None if nobody answers."""
        address = self.address if address is None else address
        what = address << 21 | number << 16 | (0 if value is None else board.MDIO_WRITE | value)
        self.registers.write(board.BOARD, self.first + board.MDIO, what)
        result = []

        def over():
            result[:] = [self.registers.read(board.BOARD, self.first + board.MDIO)]
            return not result[0] & board.MDIO_BUSY

        until(over, f"MDIO of socket {self.socket}")
        return None if result[0] & board.MDIO_MISSING else result[0] & 0xFFFF

    def paged(self, page, number, value=None):
        """Reads or writes a register of a page; the board's looks at page 0 wait meanwhile."""
        self.control(board.PHY_HOLD)
        try:
            self.mdio(board.PAGE, page)
            return self.mdio(number, value)
        finally:
            self.mdio(board.PAGE, 0)
            self.control(0)

    def find(self):
        """Looks for the PHY's address, and keeps it."""
        for address in range(32):
            if self.mdio(board.IDENTIFIER_HIGH, address=address) not in (None, 0xFFFF, 0):
                self.address = address
                self.control(0)
                return
        raise Wrong(f"socket {self.socket}: no PHY answers on MDIO")

    def prepare(self):
        """The PHY delays both clocks of RGMII, and offers 1 Gbit/s only."""
        self.find()
        if self.mdio(board.IDENTIFIER_HIGH) != board.MARVELL:
            raise Wrong(f"socket {self.socket}: the PHY at address {self.address} is not Marvell's")
        delays = self.paged(board.MAC_PAGE, board.MAC_CONTROL)
        self.paged(board.MAC_PAGE, board.MAC_CONTROL, delays | board.MAC_RX_DELAY | board.MAC_TX_DELAY)
        self.mdio(board.ADVERTISE, self.mdio(board.ADVERTISE) & ~board.ADVERTISE_SPEEDS)
        gigabit = self.mdio(board.ADVERTISE_GIGABIT) & ~board.GIGABIT_HALF
        self.mdio(board.ADVERTISE_GIGABIT, gigabit | board.GIGABIT_FULL)
        # The delays count from a reset of the PHY's software on.
        self.mdio(board.CONTROL, self.mdio(board.CONTROL) | board.CONTROL_RESET | board.CONTROL_NEGOTIATE)
        until(lambda: not self.mdio(board.CONTROL) & board.CONTROL_RESET, f"the reset of socket {self.socket}'s PHY")

    def linked(self):
        return bool(self.registers.read(board.BOARD, self.first + board.STATE) & board.STATE_LINK)

    def delay(self, rx=None, tx=None):
        """Sets the taps of 25 ps at the inputs (`rx`) and of the sent clock (`tx`); returns both as they are."""
        number = self.first + board.DELAY
        now = self.registers.read(board.BOARD, number)
        taps = [now & 127 if rx is None else rx, now >> 8 & 127 if tx is None else tx]
        if (rx, tx) != (None, None):
            self.registers.write(board.BOARD, number, taps[1] << 8 | taps[0])
            until(lambda: not self.registers.read(board.BOARD, number) & board.DELAY_BUSY, "the delay")
        return taps


def octets(mac):
    """'02:00:00:00:00:01' as the two words of a card's registers: octet 0 is the lowest."""
    value = bytes.fromhex(mac.replace(":", ""))
    if len(value) != 6:
        raise Wrong(f"{mac} is no MAC address")
    return int.from_bytes(value[:4], "little"), int.from_bytes(value[4:], "little")


class Card:
    """A card, which forwards to the other one."""

    def __init__(self, registers, number):
        self.registers, self.number = registers, number

    def read(self, register):
        return self.registers.read(self.number, register)

    def write(self, register, value):
        self.registers.write(self.number, register, value)

    def load(self, mac, routes):
        """Resets the card, gives it its address and `routes`, {IPv4 network: MAC of the next hop}, and starts it."""
        room = -(-(self.read(card.STATUS) >> card.STATUS_ROUTES_SHIFT & 0xFF) // ROUTES_A_BANK)
        if len(routes) > room:
            raise Wrong(f"card {self.number}: {len(routes)} routes, but there is room for {room}")
        self.write(card.CMD, card.CMD_RESET)
        until(lambda: not self.read(card.CMD) & card.CMD_RESET, f"the reset of card {self.number}")
        low, high = octets(mac)
        self.write(card.MAC_LOW, low)
        self.write(card.MAC_HIGH, high | self.number << CARD_SHIFT)
        self.write(card.PEER_BASE, APERTURE + APERTURE_SIZE * (1 - self.number))
        # The first route that matches wins, so the longest prefix comes first.
        networks = sorted((ipaddress.ip_network(network) for network in routes), key=lambda network: -network.prefixlen)
        for bank, network in enumerate(networks):
            low, high = octets(routes[str(network)])
            self.write(card.CMD, bank << card.CMD_BANK_SHIFT)
            self.write(card.ROUTE, int(network.network_address))
            self.write(card.ROUTE + 1, int(network.netmask))
            self.write(card.NEXTHOP_MAC, low)
            self.write(card.NEXTHOP_MAC + 1, high)
        self.write(card.CMD, card.CMD_RX | card.CMD_TX | card.CMD_FAST | card.CMD_COMMIT)

    def counter(self, name):
        self.write(card.DROP_CNT, card.COUNTERS.index(name))
        return self.read(card.DROP_CNT)

    def counters(self):
        """{name: value}, with what is forwarded by each route and what is queued for the host."""
        found = {name: self.counter(name) for name in card.COUNTERS}
        command = self.read(card.CMD) & ~(0x1F << card.CMD_BANK_SHIFT)
        routes = self.read(card.STATUS) >> card.STATUS_ROUTES_SHIFT & 0xFF
        for bank in range(-(-routes // ROUTES_A_BANK)):
            self.write(card.CMD, command | bank << card.CMD_BANK_SHIFT)
            found[f"route {bank}"] = self.read(card.FWD_CNT)
        self.write(card.CMD, command)
        return found | {"to the host": self.read(card.FWD_HOST)}


def load(registers, text):
    """Loads both cards from TOML: see docs/hero-board.md."""
    cards = tomllib.loads(text).get("card", [])
    if len(cards) != board.CARDS:
        raise Wrong(f"the file has {len(cards)} tables [[card]], the board {board.CARDS} cards")
    for number, each in enumerate(cards):
        routes = {str(ipaddress.ip_network(route["to"])): route["next_hop"] for route in each.get("route", [])}
        Card(registers, number).load(each["mac"], routes)
