"""Runs in a guest: a PPPoE server over Bora's ports. Linux ends the sessions; Bora leaves their frames to it, and loses none.

    h0 ==== r0 [router] r1 ==== h1      10.0.1.0/24, plain IP
                        r2 ==== h2      10.0.2.0/24, plain IP

The router is the server of a subscriber at h0: pppoe-server, which reads frames by a packet socket. The subscriber uses the kernel's
PPPoE. Meanwhile h2 talks to h1 through the router: Bora forwards that.
"""

import subprocess
import time
from pathlib import Path

from vm import topic_guest

LINKS = 3
TIERS = ("express", "engine")
LOCAL, REMOTE = "10.64.0.1", "10.64.1.1"
PINGS = 100
OPTIONS = Path("/tmp/pppoe-options")


class Lan(topic_guest.Lan):
    """Router and hosts that answer."""

    def __init__(self):
        super().__init__(LINKS)
        self.programs = []
        try:
            for link in range(LINKS):
                self.connect(link)
            for link in (1, 2):
                self.hosts[link].batch([f"link set h{link} arp on", f"address add 10.0.{link}.2/24 dev h{link}",
                                        f"route add default via 10.0.{link}.1"])
                self.router.ip("address", "add", f"10.0.{link}.1/24", "dev", f"r{link}")
            self.hosts[0].ip("link", "set", "h0", "arp", "on")
        except BaseException:
            self.close()
            raise

    def dial(self):
        """Starts server and subscriber; returns when the session is up."""
        OPTIONS.write_text("noauth\nnodefaultroute\nlcp-echo-interval 5\nlcp-echo-failure 6\n")
        self._popen(self.router, "pppoe-server", "-F", "-I", "r0", "-L", LOCAL, "-R", REMOTE, "-N", "4", "-O", str(OPTIONS), "-X", "/run/pppoe.pid")
        subscriber = self.hosts[0]
        self._popen(subscriber, "pppd", "plugin", "rp-pppoe.so", "h0", "noauth", "nodetach", "nodefaultroute", "maxfail", "0", "unit", "7")
        self.wait("a session", lambda: REMOTE in subscriber.ip("-4", "address").stdout and LOCAL in self.router.ip("-4", "address").stdout)
        subscriber.ip("route", "replace", "default", "dev", "ppp7")

    def _popen(self, space, *command):
        self.programs.append(space.popen(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def session(self):
        """The number of the host's PPP interface, which another session would not have."""
        names = self.hosts[0].ip("-o", "link").stdout.splitlines()
        (line,) = [line for line in names if line.split()[1].startswith("ppp")]
        return line.split(":")[0]

    def ping(self):
        """Pings from h1 to the subscriber and, at the same time, from h2 to h1; how many of each were answered."""
        commands = [(self.hosts[1], REMOTE), (self.hosts[2], "10.0.1.2")]
        running = [space.popen("ping", "-q", "-n", "-s", "1000", "-i", "0.05", "-c", str(PINGS), "-W", "5", to, stdout=subprocess.PIPE, text=True)
                   for space, to in commands]
        texts = [one.communicate(timeout=200)[0] for one in running]
        return [int(text.split(" received")[0].rsplit(" ", 1)[1]) for text in texts]

    def close(self):
        for one in self.programs:
            one.terminate()
            one.wait(20)
        super().close()


def check(lan, path, say):
    """With Bora: all pings are answered, the session's frames are counted as no IP, the others are Bora's; the session survives its end."""
    lan.start(path)
    time.sleep(2)
    before = lan.bora.show("drops")
    answers = lan.ping()
    after = lan.bora.check_conservation(10) and lan.bora.show("drops")
    change = {reason: count - before["punts"].get(reason, 0) for reason, count in after["punts"].items()}
    sent = after["sent"] - before["sent"]
    dropped = {reason: count for reason, count in after["drops"].items() if count != before["drops"].get(reason, 0)}
    assert answers == [PINGS, PINGS], f"{path}: {answers} answers; {lan.state()}"
    plain = sent + change.get("no_lease", 0)  # a busy machine lets a lease run out
    assert change.get("not_ip", 0) >= PINGS and plain >= 2 * PINGS and sent >= PINGS and not dropped, f"{path}: {change}, {sent} sent, {dropped} dropped"
    session = lan.session()
    lan.kill()
    assert lan.ping() == [PINGS, PINGS], f"after the end of {path}"
    assert session == lan.session(), f"another session after the end of {path}"
    say(f"{path}: {answers} pings answered; left to Linux: {change}; {sent} sent by Bora, none dropped; the session outlives Bora")


def body(how, say):
    """Linux alone first, then each tier."""
    for module in ("ppp_generic", "pppoe"):
        subprocess.run(["modprobe", module], check=True)
    lan = Lan()
    try:
        lan.dial()
        answers = lan.ping()
        assert answers == [PINGS, PINGS], f"Linux alone: {answers}"
        say(f"Linux alone: {answers} pings answered")
        for path in TIERS[:1] if how == "short" else TIERS:
            check(lan, path, say)
    finally:
        lan.close()
