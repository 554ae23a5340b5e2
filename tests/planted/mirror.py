"""Faults of the mirror: what it reads of Linux, and what it makes of that. R2, R3: faults that a review has found."""

from faults import about, fault

ROUTE, OBJECT = "mirror/src/message/route.rs", "mirror/src/message/nexthop.rs"
WORLD, MODEL, FAMILY, CONTENT = "mirror/src/world.rs", "mirror/src/model.rs", "mirror/src/family.rs", "mirror/src/nexthops/content.rs"
PREFIX, CHOICE, SYSCTL = "mirror/src/prefix_routes.rs", "mirror/src/choice.rs", "mirror/src/sysctl.rs"

# Routes.
about("routes")
fault("metric", ROUTE, "libc::RTA_PRIORITY => route.metric = attribute.u32()?,", "libc::RTA_PRIORITY => route.metric = attribute.u32()?.min(0),",
      "the metric of a route is ignored")
fault("route-tos", ROUTE, "        tos: head[3],", "        tos: 0,", "a route for one TOS holds for all")
fault("path-weight", ROUTE, "weight: u32::from(one[3]) + 1,", "weight: 1,", "weights of paths are ignored")
fault("path-weight-by-one", ROUTE, "weight: u32::from(one[3]) + 1,", "weight: u32::from(one[3]).max(1),", "weights of paths are one less")
fault("encapsulation", ROUTE, "RTA_ENCAP | RTA_ENCAP_TYPE | RTA_NEWDST => hop.encap = true,", "RTA_NEWDST => hop.encap = true,",
      "encapsulations of routes are lost")
fault("throw", ROUTE, "libc::RTN_THROW => RouteType::Throw,", "libc::RTN_THROW => RouteType::Blackhole,", "a throw route drops")
fault("unreachable", ROUTE, "libc::RTN_UNREACHABLE => RouteType::Unreachable,", "libc::RTN_UNREACHABLE => RouteType::Blackhole,",
      "an unreachable route drops without an answer")
fault("prohibit", ROUTE, "libc::RTN_PROHIBIT => RouteType::Prohibit,", "libc::RTN_PROHIBIT => RouteType::Blackhole,",
      "a prohibit route drops without an answer")
fault("route-mtu-by-one", ROUTE, "route.target.mtu = Some(metric.u32()?).filter(", "route.target.mtu = Some(metric.u32()? + 1).filter(",
      "the MTU of a route is one more")
fault("route-mtu", CONTENT, "let limits = [link, key.mtu,", "let limits = [link, 0,", "the MTU of a route is ignored")
fault("device-mtu6", CONTENT, "settings.map_or(0, |settings| settings.mtu6)", "settings.map_or(0, |_| 0)", "the IPv6 MTU of a device is ignored")
fault("host-mtu", FAMILY, "let mtu = target.mtu.unwrap_or(0);", "let mtu = target.mtu.map_or(0, |_| 0);",
      "the MTU of a route is ignored for hosts on the link")
fault("append", PREFIX, "theirs < ours || (theirs == ours && (append || P::V6))", "theirs < ours || (theirs == ours && P::V6)",
      "an appended route comes before the others of its metric")
fault("source-specific", ROUTE, "source_specific: head[2] != 0,", "source_specific: false,", "an IPv6 route for one source holds for all")
fault("wide-local", FAMILY, "Table::Main => !self.rib.hidden(prefix),", "Table::Main => true,", "a local prefix does not hide routes of table main")
about("advertisements")
fault("preference", ROUTE, "RTA_PREF => route.preference = (attribute.u8()? & 3) ^ MEDIUM,", "RTA_PREF => drop(attribute.u8()?),",
      "R3b: the preference of IPv6 routes is ignored")
fault("two-advertisements", PREFIX, "&& (has_ways_of(hops, &new, route) || has_ways_of(hops, route, &new))",
      "&& is_multipath(hops, &new) && is_multipath(hops, route)", "R3a: the advertisement of a second router replaces that of the first")
fault("input-device", CHOICE, "false => Best::Depends,", "false => Best::Route(*first),", "R3c: of equal IPv6 routes the first counts, not the input's own device")
# Next-hop objects.
about("objects")
fault("encapsulated-member", WORLD, "members.iter().filter_map(single).collect()", "members.iter().filter_map(single).filter(|hop| !hop.encap).collect()",
      "R2: members of groups that encapsulate are left out")
fault("object-encapsulation", OBJECT, "NHA_ENCAP_TYPE | NHA_ENCAP => encap = true,", "NHA_ENCAP_TYPE | NHA_ENCAP => {}", "encapsulations of next-hop objects are lost")
fault("group-weight", OBJECT, "let weight = u32::from(bytes[4]) +", "let weight = 0 * u32::from(bytes[4]) +", "weights of next-hop groups are ignored")
fault("resilient", OBJECT, "NHA_GROUP_TYPE => resilient = attribute.u16()? == NEXTHOP_GRP_TYPE_RES,", "NHA_GROUP_TYPE => resilient = attribute.u16()? > 9,",
      "a resilient group is taken for one that hashes by thresholds")
fault("blackhole-object", WORLD, "Some(Some(NextHopObject::Blackhole)) => Some(Special::Blackhole),", "Some(Some(NextHopObject::Blackhole)) => None,",
      "a route to a blackhole object is no route")
fault("unasked-member", WORLD, ".is_none_or(Neighbour::valid)\n    }\n\n    /// The bit", ".is_some_and(Neighbour::valid)\n    }\n\n    /// The bit",
      "a member of a group whose neighbour nobody has asked for gets no flows")
# Neighbours and links.
about("neighbours")
fault("neighbour-moves", MODEL, "neighbour.and_then(Neighbour::usable),", "neighbour.and_then(Neighbour::usable).map(|_| [0; 6]),",
      "a neighbour's new MAC is not followed")
fault("neighbour-stays", MODEL, "let now = now.or((!gone).then_some(neighbour));", "let now = now.or((!gone && neighbour.valid()).then_some(neighbour)).or(self.world.neighbours.get(&key).copied());",
      "a neighbour that failed or was deleted is kept")
fault("incomplete-neighbour", "mirror/src/message/mod.rs", "self.mac.filter(|_| self.state & NUD_VALID != 0)", "self.mac.or(Some([2, 0, 0, 0, 0, 9]))",
      "frames are sent to neighbours without an address")
about("links")
fault("linkdown", WORLD, "link.up && (link.carrier || !self.ignores_linkdown(device, v6))", "link.up && link.carrier",
      "paths without carrier are left out, without ignore_routes_with_linkdown, too")
about("neighbours")
fault("no-arp", WORLD, "link.mac.filter(|_| link.no_arp)", "link.mac", "frames for unknown neighbours carry the own MAC")
about("links")
fault("device-mtu", CONTENT, "let limits = [link, key.mtu, settings.map_or(0, |settings| settings.mtu6)];\n    let limits = limits.into_iter().filter(|&mtu| mtu != 0);\n    limits.fold(port.mtu,",
      "let limits = [0 * link, key.mtu, settings.map_or(0, |settings| settings.mtu6)];\n    let limits = limits.into_iter().filter(|&mtu| mtu != 0);\n    limits.fold(port.mtu.max(9000),",
      "the MTU of a device is ignored")
# Sysctls.
about("sysctls")
fault("forwarding", SYSCTL, 'let forwarding4 = v4("forwarding")? != 0;', 'let forwarding4 = v4("forwarding")? >= 0;', "forwarding=0 of an interface is ignored")
fault("forwarding6", SYSCTL, 'forwarding6: all.forwarding6? != 0 && v6("disable_ipv6")? == 0,', 'forwarding6: v6("forwarding")? != 0 && v6("disable_ipv6")? == 0,',
      "R15: an interface's own forwarding decides for IPv6")
fault("disable-ipv6", SYSCTL, 'all.forwarding6? != 0 && v6("disable_ipv6")? == 0,', "all.forwarding6? != 0,", "disable_ipv6 is ignored")
fault("rp-filter-of-all", SYSCTL, 'all.rp_filter?.max(v4("rp_filter")?)', 'all.rp_filter?.min(0).max(v4("rp_filter")?)', "rp_filter of all interfaces is ignored")
fault("send-redirects", SYSCTL, 'all.send_redirects4? != 0 || v4("send_redirects")? != 0', 'all.send_redirects4? != 0 && v4("send_redirects")? != 0',
      "send_redirects needs both sysctls")
fault("use-pmtu", "mirror/src/guard.rs", "if world.settings.forward_use_pmtu {", "if false && world.settings.forward_use_pmtu {", "R15: ip_forward_use_pmtu is ignored")
