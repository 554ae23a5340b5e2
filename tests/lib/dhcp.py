"""A host that gets its address by DHCP."""

import re

SCRIPT = """#!/bin/sh
[ "$1" = bound ] || exit 0
ip address add $ip/24 dev $interface
ip route replace default via $router
"""


def lease(host, device, folder):
    """The address that a host gets; it also takes the route. Needs busybox."""
    script = folder / "udhcpc"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    said = host.exec("busybox", "udhcpc", "-f", "-n", "-q", "-t", "10", "-T", "1", "-i", device, "-s", str(script), timeout=60)
    return re.search(r"lease of (\S+) obtained", said.stdout + said.stderr)[1]
