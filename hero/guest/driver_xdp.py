"""Steps of driver_guest.py: XDP."""

import re
from pathlib import Path

from hero.guest.steps import SHARED, ask, counters, inside, interfaces, ping, run, step


XDP = """
#include <linux/bpf.h>
#define SEC(name) __attribute__((section(name), used))
static long (*redirect)(unsigned int ifindex, unsigned long flags) = (void *)23;
SEC("xdp_pass") int do_pass(struct xdp_md *x) { return XDP_PASS; }
SEC("xdp_drop") int do_drop(struct xdp_md *x) { return XDP_DROP; }
SEC("xdp_back") int do_back(struct xdp_md *x)
{
    unsigned char *d = (void *)(long)x->data, *end = (void *)(long)x->data_end, t;
    if (d + 34 > end || d[12] != 8 || d[13] != 0)
        return XDP_PASS;
    for (int i = 0; i < 6; i++) { t = d[i]; d[i] = d[i + 6]; d[i + 6] = t; }
    for (int i = 26; i < 30; i++) { t = d[i]; d[i] = d[i + 4]; d[i + 4] = t; }
    return XDP_TX;
}
SEC("xdp_to") int do_to(struct xdp_md *x)
{
    unsigned char *d = (void *)(long)x->data, *end = (void *)(long)x->data_end;
    if (d + 34 > end || d[12] != 8 || d[13] != 0)
        return XDP_PASS;
    d[0] = MAC0; d[1] = MAC1; d[2] = MAC2; d[3] = MAC3; d[4] = MAC4; d[5] = MAC5;
    return redirect(IFINDEX, 0);
}
char _license[] SEC("license") = "GPL";
"""


def xdp_program(target):
    """Compiles the programs; the last one sends to a card."""
    name = interfaces()[target]
    mac = ask(inside(target, "cat /sys/class/net/wire/address")).strip().split(":")
    defines = " ".join(f"-DMAC{k}=0x{octet}" for k, octet in enumerate(mac))
    (SHARED / "xdp.c").write_text(XDP)
    index = Path(f"/sys/class/net/{name}/ifindex").read_text().strip()
    ask(f"clang -O2 -g -target bpf -I/usr/include/x86_64-linux-gnu {defines} -DIFINDEX={index} -c {SHARED}/xdp.c -o {SHARED}/xdp.o")


@step
def xdp():
    """Native XDP: pass, drop, back, redirect."""
    names = interfaces()
    xdp_program(2)
    name, said = names[0], []
    for section, target in (("pass", "10.0.0.1"), ("drop", None), ("back", "10.0.0.99"), ("to", "10.0.2.2")):
        run(f"ip -force link set dev {name} xdpdrv obj {SHARED}/xdp.o sec xdp_{section}")
        before = counters(name)
        if section == "back":
            ask(inside(0, f"ip neigh replace 10.0.0.99 dev wire lladdr {Path(f'/sys/class/net/{name}/address').read_text().strip()}"))
        if target:
            # what comes back by XDP_TX is an echo request from the other side, which the host answers, and so on
            text = ask(inside(0, f"ping -q -c 3 -i 0.5 -W 60 {target}"), check=section != "back")
        else:
            text = ask(inside(0, "ping -q -c 3 -i 0.5 -W 1 10.0.0.1"), check=False)
            assert " 0 received" in text, text
        after = counters(name)
        said.append(section + ": " + ", ".join(f"{key} +{after[key] - before[key]}" for key in after
                                               if "xdp" in key and after[key] != before[key]) + " " + re.search(r"\d+ packets.*loss", text)[0])
    run(f"ip link set dev {name} xdpdrv off")
    ping(0, "10.0.1.2")
    return "; ".join(said) + f"; sent by {names[2]}: {counters(names[2])['tx_xdp']}"
