"""What a neighbour keeps with the router, whatever else comes in: a session of BGP's kind, one of BFD's, and pings."""

import dataclasses
import socket
import struct
import threading
import time

from lib.netns import inside
from lib.ping import ping

BGP, BFD = 179, 3784
KEEPALIVE, HOLD = 0.05, 3.0  # seconds; 3 s is the shortest hold time that BGP has (RFC 4271 4.2)
HELLO = 0.02
PINGS = 0.005


@dataclasses.dataclass
class Kept:
    """What became of the sessions."""

    pings: int = 0
    answered: int = 0
    hellos: int = 0
    missed_in_a_row: int = 0
    bgp: str = "did not start"

    @property
    def good(self):
        """The TCP session is up, BFD with a multiplier of 3 is up, and less than 1 % of the pings are lost."""
        return self.bgp == "up" and self.hellos > 0 and self.missed_in_a_row < 3 and self.answered >= 0.99 * self.pings


class Sessions:
    """Sessions of host `link` of a test network (lib.topology), whose host gets an address; `finish()`
    returns `Kept`."""

    def __init__(self, net, link=1):
        self.host, self.router = net.namespaces[1 + link], net.router
        self.ours, self.theirs = net.host4(link), net.router4(link)
        self.host.batch([f"link set h{link} arp on", f"address replace {self.ours}/24 dev h{link}"])
        self.kept, self._stop, self._errors = Kept(), threading.Event(), []
        self._threads = [threading.Thread(target=self._noting, args=(run,), daemon=True) for run in (self._bgp, self._bfd, self._ping)]
        for thread in self._threads:
            thread.start()

    def finish(self):
        """Ends them."""
        self._stop.set()
        for thread in self._threads:
            thread.join(20)
        assert not self._errors, self._errors
        return self.kept

    def _noting(self, run):
        try:
            run()
        except (OSError, AssertionError) as error:
            self._errors.append(error)

    def _ping(self):
        """Pings have TTL 1, too: it is enough to reach the router."""
        while not self._stop.is_set():
            self.kept.answered += len(ping(self.host, self.theirs, count=100, interval=PINGS, patience=0.5, ttl=1))
            self.kept.pings += 100

    def _bgp(self):
        """A connection whose packets have TTL 1, as those of external BGP; each side must hear of the other within the hold time."""
        with inside(self.router.name):
            server = socket.create_server((self.theirs, BGP))
        server.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        with inside(self.host.name):
            client = socket.socket()
        client.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        client.settimeout(HOLD)
        server.settimeout(HOLD)
        with server, client:
            try:
                client.connect((self.theirs, BGP))
                peer, _ = server.accept()
                peer.settimeout(HOLD)
                with peer:
                    self.kept.bgp = "up"
                    while not self._stop.is_set():
                        for one, other in ((client, peer), (peer, client)):
                            one.send(b"k")
                            other.recv(1)
                        time.sleep(KEEPALIVE)
            except TimeoutError:
                self.kept.bgp = "down: the hold time is over"

    def _bfd(self):
        with inside(self.router.name):
            router = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            router.bind((self.theirs, BFD))
        with inside(self.host.name):
            host = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with router, host:
            host.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 255)
            sent, came = 0, []
            router.settimeout(0.001)
            last = None
            while last is None or time.monotonic() < last:
                if last is None:
                    host.sendto(struct.pack("!I", sent), (self.theirs, BFD))
                    sent += 1
                    time.sleep(HELLO)
                    last = time.monotonic() + 0.5 if self._stop.is_set() else None
                try:
                    came.append(struct.unpack("!I", router.recv(4))[0])
                except TimeoutError:
                    continue
            # what is still to be read is not lost
            ends = [-1, *came, sent]
            self.kept.hellos = len(came)
            self.kept.missed_in_a_row = max(after - before - 1 for before, after in zip(ends, ends[1:]))
