"""Runs in a guest: Bora between two igb cards that DPDK drives, with Linux's hosts on the cards at their other ends.

    h0 ==== card 1 [Bora] card 2 ==== h3        10.0.N.0/24 and 2001:db8:N::/64 are those of card N
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lib.bora import Bora  # noqa: E402
from lib.netns import Namespace, Root, run  # noqa: E402
from lib.ping import ping  # noqa: E402
from vm import machine, topic_guest  # noqa: E402
from vm.network import find_card  # noqa: E402

COUNT = 200
LINK_SECONDS = 60


def write(path, text):
    """Writes to a file of the kernel's."""
    Path(path).write_text(text)


def give_to_dpdk(name, driver):
    """Takes a card from Linux's driver; returns its PCI address."""
    device = Path(f"/sys/class/net/{name}/device").resolve()
    write(device / "driver_override", driver)
    write(device / "driver/unbind", device.name)
    write("/sys/bus/pci/drivers_probe", device.name)
    assert (device / "driver").resolve().name == driver, f"{device.name} is not bound to {driver}"
    return device.name


def host(card, link):
    """A namespace with a card, as a host on a link of the router."""
    namespace = Namespace(f"h{link}")
    namespace.set_sysctl("net/ipv6/conf/default/accept_dad", 0)
    run("ip", "link", "set", find_card("igb", card), "netns", namespace.name, "name", "eth0")
    namespace.batch([
        "link set eth0 up",
        f"address add 10.0.{link}.2/24 dev eth0",
        f"address add 2001:db8:{link}::2/64 dev eth0 nodad",
        f"route add default via 10.0.{link}.1",
        f"route add default via 2001:db8:{link}::1",
    ])
    return namespace


def wait_for_links(router):
    """Waits until both twins have a carrier."""
    deadline = time.monotonic() + LINK_SECONDS
    while any("LOWER_UP" not in router.ip("link", "show", f"d{link}").stdout for link in range(2)):
        assert time.monotonic() < deadline, "no link"
        time.sleep(0.2)


def forward(case, say):
    """Everything; `say` takes a line of results."""
    for name in ("ip_forward", "conf/all/rp_filter"):
        write(f"/proc/sys/net/ipv4/{name}", str(int(name == "ip_forward")))
    write("/proc/sys/net/ipv6/conf/all/forwarding", "1")
    driver = {"iommu": "vfio-pci", "no-iommu": "uio_pci_generic"}[case]
    run("modprobe", driver)
    hosts = [host(0, 0), host(3, 1)]
    macs = [machine.mac("igb", card) for card in (1, 2)]
    cards = [give_to_dpdk(find_card("igb", card), driver) for card in (1, 2)]
    router = Root()
    for start in range(2):
        bora = Bora(router, [f"dpdk:{card},queue_pairs=2,name=d{link}" for link, card in enumerate(cards)], "engine")
        bora.start()
        for link in range(2):
            router.batch([f"link set d{link} up", f"address replace 10.0.{link}.1/24 dev d{link}",
                          f"address replace 2001:db8:{link}::1/64 dev d{link} nodad"])
        wait_for_links(router)
        shown = [(port["mac"], port["wire"]) for port in bora.show("ports")]
        say(f"start {start}: {shown}")
        assert [mac for mac, _ in shown] == macs, f"not the cards' addresses: {macs}"
        for target in ("10.0.1.2", "2001:db8:1::2"):
            assert any(ping(hosts[0], target, 3) for _ in range(5)), f"{target} does not answer; {bora.show('ports')}"
            bora.wait_in_sync(20)
            for size in (56, 1000, 1450):
                back = len(ping(hosts[0], target, COUNT, size=size, interval=0.01, patience=10))
                assert back == COUNT, f"{target}, {size} octets: {back} of {COUNT}; {bora.show('ports')}"
        totals = bora.check_conservation(10)
        say(f"{totals}; {[port['card'] for port in bora.show('ports')]}")
        assert totals["sent"] > 12 * COUNT, totals
        if start == 0:
            bora.kill()
        else:
            bora.stop()


topic_guest.main(forward)
