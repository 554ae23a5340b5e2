"""A small BGP speaker that announces and withdraws routes at a rate, which BIRD cannot be told to do.

Runs as a process of its own (`python3 speaker.py`) that reads its task as JSON. Routes go round: by peer 0, by peer 1, withdrawn.
A few (`moving`) change between the two peers once a second and are never withdrawn.
"""

import json
import socket
import struct
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from lib.netns import inside  # noqa: E402

PORT = 179
OPEN, UPDATE, NOTIFICATION, KEEPALIVE = 1, 2, 3, 4
HOLD_SECONDS = 180
MOST_OCTETS = 4000  # octets of prefixes in a message, which has at most 4096 (RFC 4271 4.1)
TICK = 0.01
MOVE_SECONDS = 1.0


def packed(prefix, length):
    """A prefix as UPDATE messages have it."""
    return bytes([length]) + prefix[:(length + 7) // 8]


def message(kind, body=b""):
    """A BGP message (RFC 4271 4.1)."""
    return b"\xff" * 16 + struct.pack("!HB", 19 + len(body), kind) + body


def announcements(prefixes, system, gateway):
    """UPDATE messages for packed prefixes; `gateway` None: that withdraw them."""
    whole = b"".join(prefixes)
    if gateway is None:
        bodies = [struct.pack("!H", len(part)) + part + b"\0\0" for part in parts(prefixes)]
    else:
        attributes = (b"\x40\x01\x01\x00" + b"\x40\x02\x04\x02\x01" + struct.pack("!H", system)
                      + b"\x40\x03\x04" + socket.inet_aton(gateway))
        bodies = [b"\0\0" + struct.pack("!H", len(attributes)) + attributes + part for part in parts(prefixes)]
    assert whole
    return b"".join(message(UPDATE, body) for body in bodies)


def parts(prefixes):
    """The prefixes joined, as much as a message takes at a time."""
    part = b""
    for one in prefixes:
        if len(part) + len(one) > MOST_OCTETS:
            yield part
            part = b""
        part += one
    yield part


class Speaker:
    """A session with the router."""

    def __init__(self, task):
        self.task = task
        with inside(task["namespace"]):
            self.socket = socket.socket()
        self.socket.bind((task["address"], 0))
        self.socket.settimeout(30)
        self.socket.connect((task["router"], PORT))
        identifier = socket.inet_aton(task["address"])
        self._send(message(OPEN, struct.pack("!BHH", 4, task["system"], HOLD_SECONDS) + identifier + b"\0"))
        self.ended = None
        self.keep_alive()
        threading.Thread(target=self._read, daemon=True).start()

    def _send(self, octets):
        self.socket.sendall(octets)

    def keep_alive(self):
        """Tells the router that the session lives."""
        self._send(message(KEEPALIVE))
        self.alive = time.monotonic()

    def _read(self):
        """What the router says is not used, unless it ends the session."""
        self.socket.settimeout(None)
        stream = self.socket.makefile("rb")
        while head := stream.read(19):
            length, kind = struct.unpack("!HB", head[16:])
            body = stream.read(length - 19)
            if kind == NOTIFICATION:
                self.ended = f"code {body[0]}, subcode {body[1]}"
        self.ended = self.ended or "closed"

    def run(self):
        """Changes routes at the rate; returns how many changes it sent, in how many seconds."""
        task, gateways = self.task, self.task["gateways"]
        prefixes, moving = ([packed(bytes.fromhex(prefix), length) for prefix, length in task[kind]] for kind in ("prefixes", "moving"))
        begin = moved = time.monotonic()
        sent = at = turn = moves = 0
        while (now := time.monotonic()) - begin < task["seconds"]:
            if self.ended:
                raise RuntimeError(f"the router has ended the session: {self.ended}")
            due = int((now - begin) * task["rate"]) - sent
            part = prefixes[at:at + min(due, task["rate"] // 10)]
            if part:
                self._send(announcements(part, task["system"], [*gateways, None][turn % 3]))
                sent, at = sent + len(part), at + len(part)
            if at == len(prefixes):
                at, turn = 0, turn + 1
            if now - moved >= MOVE_SECONDS:
                self._send(announcements(moving, task["system"], gateways[moves % 2]))
                sent, moves, moved = sent + len(moving), moves + 1, now
            if now - self.alive > HOLD_SECONDS / 6:
                self.keep_alive()
            time.sleep(TICK)
        return sent, time.monotonic() - begin


def main():
    """Says `speaking`, waits for a line, changes routes, prints what it did, and keeps the session until the input ends."""
    speaker = Speaker(json.loads(sys.stdin.readline()))
    time.sleep(1)
    if speaker.ended:
        sys.exit(f"no BGP session: {speaker.ended}")
    print("speaking", flush=True)
    sys.stdin.readline()
    sent, seconds = speaker.run()
    print(json.dumps({"sent": sent, "seconds": seconds}), flush=True)
    while sys.stdin.readline():
        speaker.keep_alive()


if __name__ == "__main__":
    main()
