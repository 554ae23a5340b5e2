"""The golden model of a card: the verdict on a frame, from the frame and the registers alone.

The model has no clocks, queues or bus. So a frame with the verdict `FAST` or `HOST` may still be dropped because a queue is
full, which `checker` allows and counts."""

from dataclasses import dataclass, field

from . import frames, registers as reg

DROP, FAST, HOST = "drop", "fast", "host"


@dataclass(frozen=True)
class Verdict:
    """`kind`: DROP, FAST or HOST. `reason`: of a drop, one of `registers.VERDICTS`. `dest`: 0-2 peer, 3 host.
    `frame`: the frame that leaves (for FAST: except its source MAC, which is the output card's)."""

    kind: str
    reason: str = ""
    dest: int = 3
    route: int = 0
    high: bool = False
    frame: bytes = b""


@dataclass
class Rule:
    """A ternary match: bits that are set in `mask` are compared."""

    pattern: int = 0
    mask: int = 0
    live: bool = False

    def matches(self, value):
        return self.live and (value ^ self.pattern) & self.mask == 0


@dataclass
class Prefix:
    """A route of IPv6. `dest` 3: the host."""

    address: int = 0
    length: int = 128
    dest: int = 0
    next_hop: int = 0
    live: bool = False

    def matches(self, address):
        return self.live and (address ^ self.address) >> 128 - min(self.length, 128) == 0


@dataclass
class Header:
    """The fields of an IPv4 header that the verdict depends on."""

    options: bool
    checksum_ok: bool
    ttl: int
    tos: int
    proto: int
    src: int
    dst: int

    @property
    def key(self):
        return self.dst << 48 | self.src << 16 | self.tos << 8 | self.proto

    def is_of(self, rule):
        """Whether a class matches it."""
        return rule.matches(self.key)


@dataclass
class Header6:
    """The fields of an IPv6 header that the verdict depends on. `ttl`: hop limit, `tos`: traffic class, `proto`: next header."""

    ttl: int
    tos: int
    proto: int
    src: int
    dst: int
    checksum_ok = True  # it has none

    @property
    def options(self):
        """Whether only the host knows what to do with it: hop-by-hop options, and addresses that are never routed. ::/64 holds
        the unspecified address, loopback and IPv4-mapped addresses."""
        return self.proto == 0 or any(a >> 118 == 0x3FA or a >> 120 == 0xFF or a >> 64 == 0 for a in (self.src, self.dst))

    def is_of(self, rule):
        """Whether a class matches it: one that counts no bit of the addresses, which are those of IPv4."""
        return rule.mask >> 16 == 0 and rule.matches(rule.pattern & ~0xFFFF | self.tos << 8 | self.proto)


def parse(frame):
    """The IPv4 header of a frame; None if it has another EtherType or an impossible header."""
    if len(frame) < 34 or int.from_bytes(frame[12:14], "big") != frames.IPV4 or frame[14] >> 4 != 4:
        return None
    size = 4 * (frame[14] & 15)
    total = int.from_bytes(frame[16:18], "big")
    if size < 20 or not size <= total <= len(frame) - 14:
        return None
    head = frame[14 : 14 + size]
    number = lambda at, octets: int.from_bytes(head[at : at + octets], "big")
    return Header(size > 20, frames.checksum(head) == 0, head[8], head[1], head[9], number(12, 4), number(16, 4))


def parse6(frame):
    """The IPv6 header of a frame; None if it has another EtherType or an impossible header."""
    if len(frame) < 54 or int.from_bytes(frame[12:14], "big") != frames.IPV6 or frame[14] >> 4 != 6:
        return None
    number = lambda at, octets: int.from_bytes(frame[at : at + octets], "big")
    if 54 + number(18, 2) > len(frame):
        return None
    return Header6(frame[21], number(14, 2) >> 4 & 0xFF, frame[20], number(22, 16), number(38, 16))


def edit6(frame, next_hop):
    """A forwarded frame of IPv6: the next hop's MAC, hop limit - 1."""
    return next_hop + frame[6:21] + bytes([frame[21] - 1]) + frame[22:]


def edit(frame, next_hop):
    """A forwarded frame: the next hop's MAC, TTL - 1, the header checksum recomputed (no options)."""
    head = frame[14:22] + bytes([frame[22] - 1, frame[23], 0, 0]) + frame[26:34]
    return next_hop + frame[6:14] + head[:10] + frames.checksum(head).to_bytes(2, "big") + head[12:] + frame[34:]


@dataclass
class Card:
    """A card's rules and switches, set as the driver sets them: by writing registers."""

    index: int = 0
    routes: int = 3
    routes6: int = 0
    words: dict = field(default_factory=dict)

    def __post_init__(self):
        self.reset()

    def reset(self):
        """CMD.reset: all registers as after power-up."""
        self.words = {n: reg.reset_value(n) for n in reg.READ_WRITE}
        self.route = [Rule(0, 0xFFFFFFFF) for _ in range(self.routes)]
        self.classes = [Rule(0, (1 << 80) - 1) for _ in range(4)]
        self.next_hop = [0] * self.routes
        self.route6 = [Prefix() for _ in range(self.routes6)]

    def write(self, register, value):
        """A register write; registers without influence on verdicts are ignored."""
        if register == reg.CMD and value & reg.CMD_RESET:
            return self.reset()
        if register not in reg.READ_WRITE:
            return
        self.words[register] = value & reg.writable(register)
        if register in reg.RULES:
            self._rule(register, value)
        elif register == reg.CMD and value & reg.CMD_COMMIT:
            for rule in self.route + self.classes + self.route6:
                rule.live = True

    def read(self, register):
        """The value that a read-write register must have."""
        return self.words[register]

    def _rule(self, register, value):
        if register < reg.CLASS or register >= reg.NEXTHOP_MAC:
            number = self.bank - reg.ROUTE6_BANK
            if 0 <= number < self.routes6:
                self._route6(self.route6[number], register, value)
            self._route(register, value)
            return
        number, word = divmod(register - reg.CLASS, 6)
        rule = self.classes[number]
        rule.live = False
        shift, width = ((48, 32), (16, 32), (0, 16))[word % 3]
        name = "pattern" if word < 3 else "mask"
        clear = getattr(rule, name) & ~(((1 << width) - 1) << shift)
        setattr(rule, name, clear | (value & (1 << width) - 1) << shift)

    def _route(self, register, value):
        first = reg.ROUTE if register < reg.CLASS else reg.NEXTHOP_MAC
        dest, second = divmod(register - first, 2)
        number = 3 * self.bank + dest
        if number >= self.routes:
            return
        rule = self.route[number]
        rule.live = False
        if first == reg.NEXTHOP_MAC:
            old = self.next_hop[number]
            self.next_hop[number] = (
                old & 0xFFFFFFFF | (value & 0xFFFF) << 32 if second else old & 0xFFFF << 32 | value
            )
        elif second:
            rule.mask = value
        else:
            rule.pattern = value

    @staticmethod
    def _route6(rule, register, value):
        word = register - reg.ROUTE6_ADDRESS
        if word in range(4):
            shift = 96 - 32 * word
            rule.address = rule.address & ~(0xFFFFFFFF << shift) | value << shift
        elif register == reg.ROUTE6_RULE:
            rule.length, rule.dest = value & 0xFF, value >> reg.ROUTE6_RULE_DEST_SHIFT & 3
        elif register == reg.ROUTE6_MAC:
            rule.next_hop = rule.next_hop & 0xFFFF << 32 | value
        elif register == reg.ROUTE6_MAC + 1:
            rule.next_hop = rule.next_hop & 0xFFFFFFFF | (value & 0xFFFF) << 32
        else:
            return
        rule.live = False

    @property
    def bank(self):
        return self.words[reg.CMD] >> reg.CMD_BANK_SHIFT & 31

    @property
    def mac(self):
        return (self.words[reg.MAC_LOW] | (self.words[reg.MAC_HIGH] & 0xFFFF) << 32).to_bytes(6, "little")

    def verdict(self, frame, bad_fcs=False):
        """The verdict on a frame (without FCS) from the wire; `bad_fcs`: also for a frame with rx_er."""
        command = self.words[reg.CMD]
        own = frame[:6] == self.mac
        header = parse(frame) or (parse6(frame) if self.routes6 else None)
        limit = frames.MAX_VLAN_FRAME if frame[12:14] == b"\x81\x00" else frames.MAX_FRAME
        reasons = (
            (not command & reg.CMD_RX, "disabled"),
            (bad_fcs, "bad_fcs"),
            (len(frame) < frames.MIN_FRAME, "runt"),
            (len(frame) > limit, "giant"),
            (header is not None and not header.checksum_ok, "bad_checksum"),
            (not (own or frame[:1] and frame[0] & 1 or command & reg.CMD_PROMISCUOUS), "foreign_mac"),
        )
        for holds, reason in reasons:
            if holds:
                return Verdict(DROP, reason)
        if command & reg.CMD_FAST and own and header and not header.options and header.ttl > 1:
            found = self._find6(header.dst) if isinstance(header, Header6) else self._find(header.dst)
            if found:
                dest, route, next_hop = found
                change = edit6 if isinstance(header, Header6) else edit
                edited = change(frame, next_hop.to_bytes(6, "little"))
                return Verdict(FAST, "", dest, route, header.is_of(self.classes[dest]), edited)
        return Verdict(HOST, high=header is not None and header.is_of(self.classes[3]), frame=frame)

    def _find(self, dst):
        """(destination, route, next hop) of the lowest route that matches; None if there is none."""
        number = next((n for n, rule in enumerate(self.route) if dst and rule.matches(dst)), None)
        return None if number is None else (number % 3, number, self.next_hop[number])

    def _find6(self, dst):
        """What `_find` returns, for IPv6, whose routes are numbered after the others."""
        number = next((n for n, rule in enumerate(self.route6) if rule.matches(dst)), None)
        if number is None or self.route6[number].dest == 3:
            return None
        return self.route6[number].dest, self.routes + number, self.route6[number].next_hop


def peer(card, dest):
    """The card behind destination `dest` of `card` (also: behind source slot `dest`)."""
    return dest if dest < card else dest + 1


def slot(card, of):
    """The source slot (and destination number) that `card` has at card `of`."""
    return card if card < of else card - 1
