"""Faults of the engine's stages, and of the FIB that they read."""

from faults import about, fault

LOOKUP, REWRITE, MULTIPATH, POLICY, SOURCE, INPUT = (
    f"forward/src/{name}.rs" for name in ("lookup", "rewrite", "multipath", "policy", "source", "input"))

about("routes")
# a veth may leave checksums to the receiver, so its packets take the slow path, one by one; `fast` is what a card's take
fault("engine-hop-limit", "wire/src/ipv6.rs", "let hops = self.hop_limit().saturating_sub(1);", "let hops = self.hop_limit().saturating_sub(2);", "the engine takes two from the hop limit")
fault("fast-hop-limit", REWRITE, "headers[9] = headers[9].wrapping_sub(1);", "headers[9] = headers[9].wrapping_sub(2);", "the engine's fast path takes two from the hop limit")
fault("engine-checksum", "wire/src/checksum.rs", "let (two, carry) = word.overflowing_add((2 << 16) - 1);", "let (two, carry) = word.overflowing_add((3 << 16) - 1);",
      "the engine's checksum is wrong after the TTL is one less")
fault("engine-mtu", LOOKUP, "    if meta.l3_length() > mtu {", "    if meta.l3_length() > mtu + 1 {", "the engine sends packets that are one octet too long")
fault("fast-mtu", REWRITE, "| (length > adjacency.mtu)", "| (length > adjacency.mtu + 1)", "the engine's fast path sends packets that are one octet too long")
fault("engine-trailer", REWRITE, "    packet.truncate(ETHERNET + usize::from(meta.l3_length()));\n    let octets", "    let octets", "the engine forwards what is behind the IP packet")
fault("fast-trailer", REWRITE, "        packet.truncate(ETHERNET + usize::from(length));\n", "", "the engine's fast path forwards what is behind the IP packet")
fault("engine-redirect", LOOKUP, "if u32::from(port.0) == input.way_back(meta.family()) {", "if u32::from(port.0) + 9 == input.way_back(meta.family()) {", "the engine lets Linux send no redirects")
fault("fast-redirect", INPUT, "(self.way_back(family) != u32::from(port.0)) & !self.partial_checksum()", "!self.partial_checksum()", "the engine's fast path lets Linux send no redirects")
about("objects")
fault("hash-icmp-error", MULTIPATH, "let header = told_of4(outer, octets).unwrap_or(outer);", "let header = told_of6(&[0; 40], octets).map_or(outer, |_| outer);",
      "ICMP errors take the path of their own addresses")
fault("hash-policy", MULTIPATH, "1 => Self::L4,", "1 => Self::L3,", "ports do not count in the hash")
fault("hash-fields", MULTIPATH, "const DST_PORT: u32 = 1 << 5;", "const DST_PORT: u32 = 1 << 4;", "the wrong fields count in the hash of policy 3")
fault("share", "fib/src/nexthop.rs", "let bound = ((sum << 31) + total / 2) / total;", "let bound = (((sum << 31) + total / 2) / total) & !0xffff_ff;", "shares of paths are not exact")
fault("bucket", "fib/src/nexthop.rs", ".map(|bucket| buckets[bucket]),", ".map(|bucket| buckets[buckets.len() - 1 - bucket]),", "buckets of resilient groups are in the wrong order")
about("rules")
fault("engine-rule-tos", POLICY, "tos: octets[1],", "tos: octets[1] & 3,", "rules do not see the TOS")
fault("engine-rule-ports", POLICY, "key.ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];", "key.ports = [u16::from_be_bytes([c, d]), u16::from_be_bytes([a, b])];",
      "rules see the ports in the wrong order")
fault("engine-rule-protocol", POLICY, "(self.protocol == 0 || key.protocol == self.protocol)", "(self.protocol == 0 || key.protocol >= self.protocol)", "rules hold for other protocols, too")
fault("engine-rule-not", POLICY, "same != self.invert", "same | self.invert", "`not` of a rule is ignored")
fault("engine-goto", POLICY, "at = at.max(later);", "at = at.max(later.min(at));", "goto is ignored")
fault("engine-suppress", POLICY, "found.or(default.filter(|&default| leads_nowhere(fib, default)))", "found.or(default)", "suppress_prefixlength 0 is ignored")
about("sysctls")
fault("engine-source-check", SOURCE, "RpFilter::Strict => Some(ingress.port),", "RpFilter::Strict => None,", "the engine's source check is a loose one")
fault("engine-way-back", SOURCE, "let members = group.members().map(|member| way_back(fib, member, port));", "let members = group.members().take(1).map(|member| way_back(fib, member, port));",
      "of several ways back only the first counts")
