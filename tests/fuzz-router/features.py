"""What this machine's kernel and tools have of what configurations are made of."""

import shlex

from lib.netns import Namespace, run

PROBES = {
    "bridge": "ip link add x0 type bridge",
    "macvlan": "ip link add x1 link r0 type macvlan mode bridge",
    "vlan": "ip link add x2 link r0 type vlan id 5",
    "vrf": "ip link add x3 type vrf table 10",
    "dummy": "ip link add x4 type dummy",
    "bond": "ip link add x5 type bond",
    "ipip": "ip link add x6 type ipip local 10.9.0.1 remote 10.9.0.2",
    "gre": "ip link add x7 type gre local 10.9.0.1 remote 10.9.0.2",
    "vxlan": "ip link add x8 type vxlan id 5 remote 10.9.0.2 dstport 4789",
    "nexthop": "ip nexthop add id 5 via 10.9.0.2 dev r0",
    "resilient": "ip nexthop add id 6 group 5 type resilient buckets 4",
    "mpls": "ip route add 10.10.0.0/16 encap mpls 100 via 10.9.0.2",
    "seg6": "ip -6 route add 2001:db8:5::/48 encap seg6 mode encap segs 2001:db8::7 dev r0",
    "seg6local": "ip -6 route add 2001:db8:6::/48 encap seg6local action End dev r0",
    "encap ip": "ip route add 10.11.0.0/16 encap ip id 3 dst 10.9.0.9 dev r0",
    "via inet6": "ip route add 10.12.0.0/16 via inet6 fe80::9 dev r0",
    "xfrm": "ip xfrm policy add src 10.0.0.0/8 dst 10.1.0.0/16 dir fwd action block",
    "xfrm default": "ip xfrm policy setdefault fwd block",
    "xfrm state": "ip xfrm state add src 10.9.0.1 dst 10.9.0.2 proto esp spi 5 mode tunnel enc ecb(cipher_null) '' auth digest_null ''",
    "subtrees": "ip -6 route add 2001:db8:7::/48 from 2001:db8:8::/48 dev r0",
    "flowtable": "nft add table inet x; add flowtable inet x t { hook ingress priority 0; devices = { r0 }; }",
    "clsact": "tc qdisc add dev r0 clsact",
    "mirred": "tc filter add dev r0 ingress protocol ip u32 match ip dst 10.0.0.0/8 action mirred egress redirect dev h0",
    "gact": "tc filter add dev r0 ingress protocol ip u32 match ip dst 10.0.0.0/8 action drop",
    "tbf": "tc qdisc add dev r0 root tbf rate 100mbit burst 100k latency 50ms",
    "nft": "nft add table inet x",
    "conntrack": "nft add table inet x; add chain inet x c; add rule inet x c ct state new accept",
    "nat": "nft add table inet x; add chain inet x p { type nat hook postrouting priority 100; }; add rule inet x p masquerade",
    "reject": "nft add table inet x; add chain inet x c; add rule inet x c reject",
    "egress": "nft add table netdev x; add chain netdev x e { type filter hook egress device r0 priority 0; }",
    "bridge nft": "nft add table bridge x; add chain bridge x f { type filter hook forward priority 0; }",
    "rule ports": "ip rule add ipproto udp dport 5-7 lookup 100",
    "hash seed": "sysctl -w net.ipv4.fib_multipath_hash_seed=7",
}


def probe():
    """The names of what there is."""
    space = Namespace("probe")
    try:
        space.ip("link", "add", "r0", "type", "veth", "peer", "name", "h0")
        space.batch(["link set r0 up", "link set h0 up", "address add 10.9.0.1/24 dev r0", "address add 2001:db8::1/64 dev r0 nodad"])
        found = set()
        for name, line in PROBES.items():
            program, _, rest = line.partition(" ")
            words = [program, rest] if program == "nft" else line.split()
            if run("ip", "netns", "exec", space.name, *words, check=False).returncode == 0:
                found.add(name)
        return found
    finally:
        space.close()
