"""The ledger of a run: every frame sent, its possible outcomes, and the actual one.

It checks the properties P2 (nothing is lost after it was enqueued), P3 (order per source, priority and output)
and P4 (each drop has a named verdict or a full queue, and is counted) from outside: by frames and counters alone."""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass

from . import registers as reg
from .card import DROP, FAST, HOST, peer
from .frames import MIN_FRAME

FULL = ("input_full", "peer_full", "host_full")


@dataclass
class Record:
    """A frame under way. `source`: (place, card). `verdicts`: its possible outcomes, normally one.
    `optional`: it may be lost because of a fault."""

    serial: int
    source: tuple
    verdicts: tuple
    optional: bool = False
    arrived: object = None
    began: float = 0  # time when it entered, and when it came out
    ended: float = 0


class Ledger:
    """`cards`: the models, by index. Frames must be unique (`frames.stamp`), at least those that leave at the same place.
    With `queue_words`, the depth of a queue, and `now`, which returns the time, a frame may be dropped by a full queue only
    if the frames under way by that queue could fill it."""

    def __init__(self, cards, queue_words=None, now=lambda: 0):
        self.cards, self.queue_words, self.now = cards, queue_words, now
        self.input_may_be_full = False  # the reader of the input FIFO is slower than the line
        self.records = defaultdict(list)  # by source
        self.waiting = defaultdict(deque)  # by the frame that will be seen
        self.last = {}  # serial, by source, priority and output
        self.came = set()
        self.arrivals = []  # records in order of arrival
        self.errors = []
        self.serial = 0
        self.seen_on_wire = Counter()
        self.seen_at_host = Counter()

    def sent(self, card, frame, *verdicts, bad_fcs=False):
        """A frame goes into `card` from its wire; `verdicts` when there may be more than one."""
        return self._record(("wire", card), verdicts or (self.cards[card].verdict(frame, bad_fcs),))

    def from_host(self, card, frame):
        """The driver gives `card` a frame to transmit; the card pads it."""
        return self.expect(("host", card), card, frame.ljust(MIN_FRAME, b"\0"))

    def expect(self, source, card, frame):
        """A frame from elsewhere, `source`, that must leave on the wire of `card` as it is."""
        return self._record(source, (), ("wire", card, frame))

    def on_wire(self, card, frame):
        """`card` sent a frame (without FCS)."""
        self.seen_on_wire[card] += 1
        forwarded = ("fast", card, frame[:6] + bytes(6) + frame[12:])
        own = frame[6:12] == self.cards[card].mac
        self._seen(forwarded if own and forwarded in self.waiting else ("wire", card, frame))

    def at_host(self, card, high, frame):
        """The driver of `card` got a frame in the ring of that priority."""
        self.seen_at_host[card] += 1
        self._seen(("host", card, bool(high), frame))

    def forgive(self, card):
        """`card` was reset: frames inside it or on their way to it may be lost. Its counters start again."""
        for source, records in self.records.items():
            for record in records:
                touches = source[1] == card or any(v.kind == FAST and peer(source[1], v.dest) == card for v in record.verdicts)
                record.optional |= touches and record.arrived is None
        for place in ("wire", "host"):
            self.records[place, card] = [r for r in self.records[place, card] if r.optional and r.arrived is None]
        self.seen_on_wire[card] = self.seen_at_host[card] = 0

    def open(self):
        """Records of frames that have not come out yet, oldest first."""
        missing = (r for records in self.records.values() for r in records if r.arrived is None and not r.optional)
        return sorted((r for r in missing if not self._drop_only(r)), key=lambda r: r.serial)

    def check(self, card, counters, forwarded):
        """Compares a card's counters with the ledger, once all is quiet. `counters`: by name; `forwarded`: by route,
        last the host's. Returns the complaints, those of the whole run included."""
        tally = Tally(self, card, counters, forwarded)
        return self.errors + [f"card {card}: {text}" for text in tally.complaints()]

    def _record(self, source, verdicts, *outcomes):
        self.serial += 1
        record = Record(self.serial, source, verdicts, began=self.now())
        self.records[source].append(record)
        for verdict in verdicts:
            if verdict.kind != DROP:
                self.waiting[self._outcome(source[1], verdict)].append((record, verdict))
        for outcome in outcomes:
            self.waiting[outcome].append((record, None))
        return record

    def _outcome(self, card, verdict):
        if verdict.kind == HOST:
            return ("host", card, verdict.high, verdict.frame)
        # The source MAC is the output card's at that time.
        return ("fast", peer(card, verdict.dest), verdict.frame[:6] + bytes(6) + verdict.frame[12:])

    def _seen(self, outcome):
        queue = self.waiting.get(outcome, ())
        while queue and queue[0][0].arrived is not None:  # came out as another of its verdicts
            queue.popleft()
        if not queue:
            place, card, *_, frame = outcome
            what = "came a second time" if outcome in self.came else "nobody sent it"
            self.errors.append(f"{place} {card}, {len(frame)} octets: {what}: {frame[:40].hex()} ... {frame[-8:].hex()}")
            return
        self.came.add(outcome)
        record, verdict = queue.popleft()
        record.arrived, record.ended = verdict or True, self.now()
        self.arrivals.append(record)
        stream = (record.source, bool(verdict and verdict.high), outcome[:2])
        if self.last.get(stream, 0) > record.serial:
            self.errors.append(f"out of order: {stream}: {record.serial} after {self.last[stream]}")
        self.last[stream] = record.serial

    @staticmethod
    def _drop_only(record):
        return bool(record.verdicts) and all(v.kind == DROP for v in record.verdicts)


def words_of(verdict):
    """Words of 8 octets that its frame takes in a queue."""
    return (len(verdict.frame) + 7) // 8


class Tally:
    """The sums of one source card."""

    def __init__(self, ledger, card, counters, forwarded):
        self.ledger, self.counters, self.forwarded = ledger, counters, forwarded
        self.records = ledger.records["wire", card]
        self.transmitted = ledger.records["host", card]
        self.seen_on_wire = ledger.seen_on_wire[card]
        self.optional = sum(r.optional and r.arrived is None for r in self.records)
        self.certain = Counter()
        self.possible = Counter()
        self.delivered = Counter()  # by route; of them `uncertain`: forgiven ones, counted perhaps before a reset
        self.uncertain = Counter()
        self.undelivered = 0
        for record in self.records:
            self._add(record)

    def _add(self, record):
        reasons = [v.reason for v in record.verdicts]
        if len(reasons) == 1 and not record.optional:
            self.certain[reasons[0]] += 1
        self.possible.update(set(reasons) | ({"disabled"} if record.optional else set()))
        if record.arrived is not None:
            where = record.arrived.route if record.arrived.kind == FAST else len(self.forwarded) - 1
            self.delivered[where] += 1
            self.uncertain[where] += record.optional
        elif not record.optional and "" in reasons:
            self.undelivered += 1

    def complaints(self):
        yield from self._conservation()
        yield from self._verdicts()
        yield from self._forwarded()
        if self.ledger.queue_words:
            yield from self._without_need()
        full = sum(self.counters[name] for name in FULL)
        if not any(r.optional for r in self.records):
            if self.counters["received"] != len(self.records):
                yield f"{len(self.records)} frames sent to it, counted {self.counters['received']}"
            if self.undelivered > full:
                yield f"{self.undelivered} frames are missing, only {full} fell to full queues"
            if self.counters["sent"] != self.seen_on_wire:
                yield f"{self.seen_on_wire} frames seen on its wire, counted {self.counters['sent']}"
        missing = sum(r.arrived is None and not r.optional for r in self.transmitted)
        if missing:
            yield f"{missing} frames of the host never came out"

    def _conservation(self):
        told = sum(self.forwarded) + sum(self.counters[name] for name in reg.VERDICTS)
        if self.counters["received"] != told:
            yield f"received {self.counters['received']} but enqueued or dropped {told}"

    def _verdicts(self):
        """Drops must happen exactly to the frames with that verdict, unless a full input FIFO drops them first."""
        for name in reg.VERDICTS:
            if name in FULL:
                continue
            counted = self.counters[name]
            if counted > self.possible[name]:
                yield f"{name}: counted {counted}, at most {self.possible[name]} deserved it"
            if counted + self.counters["input_full"] < self.certain[name]:
                yield f"{name}: counted {counted}, {self.certain[name]} deserved it"

    def _without_need(self):
        """Finds frames dropped by a full queue that cannot have been full: the frames that had entered for it and had not come
        out, and the dropped one, would have fitted. Frames dropped by the input FIFO never came to a queue."""
        if self.counters["input_full"] and not self.ledger.input_may_be_full:
            yield f"{self.counters['input_full']} frames fell to an input FIFO that is read in time"
        excused = self.counters["input_full"]
        for record in self.records:
            if record.arrived is not None or record.optional or len(record.verdicts) != 1 or not record.verdicts[0].frame:
                continue
            queue = record.verdicts[0].dest, record.verdicts[0].high
            before = (r for r in self.records if r.serial < record.serial and r.ended > record.began and r.arrived is not True)
            words = sum(words_of(r.arrived) for r in before if (r.arrived.dest, r.arrived.high) == queue)
            if words + words_of(record.verdicts[0]) > self.ledger.queue_words:
                continue
            excused -= 1
            if excused < 0:
                yield f"frame {record.serial} fell to a full queue, in which were {words} words at most"

    def _forwarded(self):
        for where, count in enumerate(self.forwarded):
            arrived = self.delivered[where]
            if not arrived - self.uncertain[where] <= count <= arrived + self.optional:
                name = "host" if where == len(self.forwarded) - 1 else f"route {where}"
                yield f"{name}: enqueued {count}, came out {arrived}"
