"""Faults of the XDP program. P1, R5: faults that a review has found."""

from faults import about, fault

GATE, EXPRESS, PACKET, GUARD, FIB = (f"xdp/bpf/{name}.h" for name in ("gate", "express", "packet", "guard", "fib"))

about("routes")
fault("gate-ttl", GATE, "if (ip->ttl <= 1 && !to_us)", "if (ip->ttl < 1 && !to_us)", "a packet with TTL 1 is forwarded")
fault("gate-hop-limit", GATE, "if (ip->hop_limit <= 1)", "if (ip->hop_limit < 1)", "a packet with hop limit 1 is forwarded")
fault("ttl-checksum", PACKET, "bpf_htons(0x0100)", "bpf_htons(0x0200)", "the checksum is wrong after the TTL is one less")
fault("hop-limit-by-two", EXPRESS, "p->ip6->hop_limit--;", "p->ip6->hop_limit -= 2;", "the hop limit is two less")
fault("header-checksum", PACKET, "return (sum & 0xffff) + (sum >> 16) == 0xffff;", "return sum != 0;", "wrong header checksums are not seen")
fault("own-source", GATE, "if (is_own4(ip->saddr) ||", "if (", "packets that claim to come from the router are forwarded")
fault("gate-forwarding6", GATE, "if (!(in->flags & BORA_PORT_FORWARD6))", "if (!(in->flags & BORA_PORT_FORWARD6) && in->flags > 0xffff)", "IPv6 is forwarded where Linux forwards none")
fault("mac-check", PACKET, "bpf_cpu_to_be64(0xffffffffffff0000ull)", "bpf_cpu_to_be64(0xffffffff00000000ull)", "the last octets of the MAC are not compared")
fault("express-mtu", EXPRESS, "p->l3_length > adjacency->mtu ||", "p->l3_length > adjacency->mtu + 1 ||", "a packet may be one octet too long")
fault("hop-by-hop", GATE, "if (ip->nexthdr == IPPROTO_HOPOPTS)", "if (ip->nexthdr == IPPROTO_NONE)", "hop-by-hop options are not looked at")
about("rules")
fault("fragment-ports", PACKET, "if (!v6 && (p->ip4->frag_off & bpf_htons(IP_FRAGMENT_BITS)))\n\t\treturn;", "", "fragments have ports")
about("routes")
fault("truncated", GATE, "if (p->l3_length < sizeof(*ip) || p->l3_length > octets_from(p, ip))", "if (p->l3_length < sizeof(*ip))",
      "a packet may claim to be longer than its frame")
fault("trailer", EXPRESS, "if (have > want)", "if (have > 65536)", "what is behind the IP packet is forwarded")
about("sysctls")
fault("source-check", EXPRESS, "if (!v6 && in->rp_filter && !source_is_expected(", "if (!v6 && in->rp_filter > 9 && !source_is_expected(", "express makes no source check")
fault("strict-way-back", EXPRESS, "|| back->port == in->index))", "|| back->port < BORA_MAX_PORTS))", "the way back may be another port")
about("routes")
fault("redirect", EXPRESS, "(v6 || (in->flags & BORA_PORT_SEND_REDIRECTS4))", "(!v6 && (in->flags & BORA_PORT_SEND_REDIRECTS4))", "Linux sends no redirects of IPv6")
fault("loopback-source", PACKET, "host >> 24 == 127 ||", "host >> 24 == 126 ||", "packets of 127.0.0.0/8 are forwarded")
fault("link-local", PACKET, "first >> 22 == 0x3fa ||", "first >> 22 == 0x3fb ||", "packets of link-local sources are forwarded")
about("hooks")
fault("forward-hook", GUARD, "holds_transit(net, KERNEL_READ(net, nf.hooks_ipv4[HOOK_FORWARD]), &trusted[0][1]) ||", "", "rules in the forward hook are passed by")
fault("tc-ingress", GUARD, "nf_at_ingress_of(dev, v6) || tc_at_ingress(dev) || xfrm_holds(net)", "nf_at_ingress_of(dev, v6) || xfrm_holds(net)", "tc filters at the input are passed by")
fault("egress-hook", EXPRESS, "if (output_holds(in, out, *port))", "if (v6 && output_holds(in, out, *port))", "hooks at the output are passed by")
fault("ipsec-forward", GUARD, "return xfrm_decides(net, XFRM_OUT) || xfrm_decides(net, XFRM_FORWARD);", "return xfrm_decides(net, XFRM_OUT);",
      "IPsec policies for what is forwarded are passed by")
fault("ipsec-in-tunnel", GUARD, "return has_xfrm_policies(net, direction) || xfrm_blocks(net, direction);",
      "return direction != XFRM_IN && (has_xfrm_policies(net, direction) || xfrm_blocks(net, direction));", "P1: IPsec policies for what comes in are passed by in tunnels")
about("neighbours")
fault("neighbour-proxy", GATE, "return (const void *)(type + 1) <= end && *type >= 133 && *type <= 137;", "return (const void *)(type + 1) <= end && *type >= 133 && *type <= 134;",
      "R5: solicitations for a proxied address are forwarded")
about("objects")
fault("icmp-error-path", EXPRESS, "return is_icmp_error(p, v6);", "return is_icmp_error(p, v6) && v6;", "ICMP errors take the path of their own addresses")
about("routes")
fault("fib-last-bits", FIB, "word = fib_narrow_slot(word, (address & 3) << 4);", "word = fib_narrow_slot(word, (address & 1) << 4);", "a bit of IPv4 addresses is ignored")
fault("fib-default6", FIB, "inside ? FIB_INHERIT : FIB_DEFAULT", "inside ? FIB_DEFAULT : FIB_INHERIT", "the default route of IPv6 is the other half's")
about("objects")
fault("group-of-one", FIB, "hop = fib_word(BORA_FIB_HOPS_AT, (hop & ~BORA_FIB_MEMBER) % BORA_FIB_HOPS, 0);", "hop = fib_word(BORA_FIB_HOPS_AT, ((hop & ~BORA_FIB_MEMBER) + 1) % BORA_FIB_HOPS, 0);",
      "a group with one member leads to another next hop")
about("links")
fault("moved-port", GUARD, "return KERNEL_READ(net, ns.inum) != netns_inode;", "return KERNEL_READ(net, ns.inum) == 0;", "a port in another namespace still forwards")
