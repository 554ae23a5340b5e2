"""Brings a card up and reads its counters. Descriptors are in host.py, names of registers in ../tb/golden."""

from hero.tb.golden import registers as reg

HOST = 3  # destination


def peer(card, destination):
    """The card that is destination 0-2 of `card`."""
    return destination if destination < card else destination + 1


def destination(card, of):
    """The destination number that `card` uses for the card `of`."""
    return of if of < card else of - 1


def mac(card):
    """The MAC address that `Card.start` sets."""
    return bytes([2, 0x48, 0x45, 0x52, 0x4F, card])


def words_of_mac(address):
    return int.from_bytes(address[:4], "little"), int.from_bytes(address[4:], "little")


class Card:
    def __init__(self, hero, number):
        self.hero, self.number = hero, number
        self.cmd = 0

    def read(self, register):
        return self.hero.read(self.number, register)

    def write(self, register, value):
        self.hero.write(self.number, register, value)

    def reset(self):
        self.write(reg.CMD, reg.CMD_RESET)
        for _ in range(1000):
            if not self.read(reg.CMD) & reg.CMD_RESET:
                break
            self.hero.run(100)
        else:
            raise RuntimeError(f"card {self.number} does not come back from its reset")
        self.cmd = 0

    def start(self, cmd=reg.CMD_RX | reg.CMD_TX | reg.CMD_FAST):
        """Writes the addresses of the card and of its peers, then `cmd`."""
        low, high = words_of_mac(mac(self.number))
        self.write(reg.MAC_LOW, low)
        self.write(reg.MAC_HIGH, high | self.number << 16)
        for d in range(3):
            self.write(reg.PEER_BASE + d, 0x8000_0000 + peer(self.number, d) * 0x10_0000)
        self.command(cmd)

    def command(self, cmd):
        self.cmd = cmd
        self.write(reg.CMD, cmd)

    def _in_bank(self, bank):
        self.write(reg.CMD, self.cmd | bank << reg.CMD_BANK_SHIFT)

    def commit(self):
        self.write(reg.CMD, self.cmd | reg.CMD_COMMIT)

    def route(self, number, prefix, length, next_hop):
        """Route `number` (destination `number` mod 3): an IPv4 prefix (a number) and the next hop's MAC. Needs commit."""
        bank, d = divmod(number, 3)
        self._in_bank(bank)
        self.write(reg.ROUTE + 2 * d, prefix)
        self.write(reg.ROUTE + 2 * d + 1, (0xFFFF_FFFF << (32 - length)) & 0xFFFF_FFFF)
        for k, word in enumerate(words_of_mac(next_hop)):
            self.write(reg.NEXTHOP_MAC + 2 * d + k, word)
        self._in_bank(0)

    def route6(self, number, prefix, length, d, next_hop):
        """Route `number` of IPv6: a prefix (a number), the destination, and the next hop's MAC. Needs commit."""
        self._in_bank(reg.ROUTE6_BANK + number)
        for word in range(4):
            self.write(reg.ROUTE6_ADDRESS + word, prefix >> 96 - 32 * word & 0xFFFF_FFFF)
        self.write(reg.ROUTE6_RULE, d << reg.ROUTE6_RULE_DEST_SHIFT | length)
        for k, word in enumerate(words_of_mac(next_hop)):
            self.write(reg.ROUTE6_MAC + k, word)
        self._in_bank(0)

    def class_of(self, d, pattern=(0, 0, 0), care=(0, 0, 0)):
        """Frames to destination `d` are of high priority where they match. (destination, source, tos << 8 | protocol).
        Needs commit. Without arguments all match."""
        for k in range(3):
            self.write(reg.CLASS + 6 * d + k, pattern[k])
            self.write(reg.CLASS + 6 * d + 3 + k, care[k])

    def counter(self, name):
        self.write(reg.DROP_CNT, reg.COUNTERS.index(name))
        return self.read(reg.DROP_CNT)

    def counters(self):
        """All counters of DROP_CNT that are not 0, by name."""
        counted = {name: self.counter(name) for name in reg.COUNTERS}
        return {name: value for name, value in counted.items() if value}

    def drops(self):
        return {name: value for name, value in self.counters().items() if name in reg.DROPS}

    def forwarded(self):
        """Frames enqueued by the routes of bank 0, and to the host."""
        return [self.read(reg.FWD_CNT + k) for k in range(4)]
