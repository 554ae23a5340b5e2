"""One card's registers by name (see ../README.md), and how to bring it up. Without descriptors: host.py."""

# Register numbers.
ID, CMD, STATUS, MAC, IRQ_UNMASKED, IRQ_MASK, IRQ_MASKED = 0, 1, 2, 3, 5, 6, 7
RXLO_DESC, RXHI_DESC, TX_LEN, TX_DESC, LEVELS, CPL_BASE = 8, 9, 10, 11, 12, 13
ROUTE, CLASS, NEXTHOP_MAC, PEER_BASE, REQ_IN, RSP_IN, FWD_CNT, DROP_CNT = 14, 20, 44, 50, 53, 56, 59, 63

CMD_RESET, CMD_RX, CMD_TX, CMD_FAST, CMD_PROMISCUOUS, CMD_COMMIT = 1, 2, 4, 8, 16, 32
BANK_SHIFT = 8
HOST = 3  # destination

IRQ_RXLO, IRQ_RXHI, IRQ_TX, IRQ_RXLO_EMPTY, IRQ_RXHI_EMPTY, IRQ_FAST, IRQ_BUS, IRQ_DROP = (1 << k for k in range(8))

# Counters of DROP_CNT.
DROPS = ("bad FCS", "runt", "giant", "bad IP checksum", "foreign MAC", "input FIFO full", "VOQ of a peer full",
         "VOQ of the host full", "receiver disabled", "burst without grant", "more than the grant", "burst timed out",
         "malformed burst", "transmit length", "bus error", "vector refused")
COUNTERS = DROPS + ("frames received", "frames sent", "grants given", "requests repeated", "bursts sent")


def peer(card, destination):
    """The card that destination 0-2 of a card is."""
    return destination if destination < card else destination + 1


def destination(card, of):
    """The destination by which `card` names the card `of`."""
    return of if of < card else of - 1


def mac(card):
    """The address that `Card.start` gives."""
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
        self.write(CMD, CMD_RESET)
        for _ in range(1000):
            if not self.read(CMD) & CMD_RESET:
                break
            self.hero.run(100)
        else:
            raise RuntimeError(f"card {self.number} does not come back from its reset")
        self.cmd = 0

    def start(self, cmd=CMD_RX | CMD_TX | CMD_FAST):
        """Addresses of the card and of its peers, then `cmd`."""
        low, high = words_of_mac(mac(self.number))
        self.write(MAC, low)
        self.write(MAC + 1, high | self.number << 16)
        for d in range(3):
            self.write(PEER_BASE + d, 0x8000_0000 + peer(self.number, d) * 0x10_0000)
        self.command(cmd)

    def command(self, cmd):
        self.cmd = cmd
        self.write(CMD, cmd)

    def _in_bank(self, bank):
        self.write(CMD, self.cmd | bank << BANK_SHIFT)

    def commit(self):
        self.write(CMD, self.cmd | CMD_COMMIT)

    def route(self, number, prefix, length, next_hop):
        """Route `number` (destination `number` mod 3): an IPv4 prefix (a number) and the next hop's MAC. Needs commit."""
        bank, d = divmod(number, 3)
        self._in_bank(bank)
        self.write(ROUTE + 2 * d, prefix)
        self.write(ROUTE + 2 * d + 1, (0xFFFF_FFFF << (32 - length)) & 0xFFFF_FFFF)
        for k, word in enumerate(words_of_mac(next_hop)):
            self.write(NEXTHOP_MAC + 2 * d + k, word)
        self._in_bank(0)

    def class_of(self, d, pattern=(0, 0, 0), care=(0, 0, 0)):
        """Frames to destination `d` are of high priority where they match. (destination, source, tos << 8 | protocol).
        Needs commit. Without arguments all match."""
        for k in range(3):
            self.write(CLASS + 6 * d + k, pattern[k])
            self.write(CLASS + 6 * d + 3 + k, care[k])

    def counter(self, name):
        self.write(DROP_CNT, COUNTERS.index(name))
        return self.read(DROP_CNT)

    def counters(self):
        """All counters of DROP_CNT that are not 0, by name."""
        counted = {name: self.counter(name) for name in COUNTERS}
        return {name: value for name, value in counted.items() if value}

    def drops(self):
        return {name: value for name, value in self.counters().items() if name in DROPS}

    def forwarded(self):
        """Frames enqueued by the routes of bank 0, and to the host."""
        return [self.read(FWD_CNT + k) for k in range(4)]
