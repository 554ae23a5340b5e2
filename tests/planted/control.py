"""Faults of the control side: rules of policy routing, the sysctls of ports."""

from faults import about, fault

RULE, COMPILE, SETTINGS = "mirror/src/message/rule.rs", "daemon/src/policy/compile.rs", "daemon/src/ports/settings.rs"

about("rules")
fault("rule-iif", RULE, "FRA_IIFNAME => rule.iif = Some(attribute.text()),", "FRA_IIFNAME => {}", "iif of a rule is ignored")
fault("rule-oif", COMPILE, "if rule.oif.is_some() || rule.mark.0", "if rule.mark.0", "a rule for an output holds for what is forwarded")
fault("rule-mark", RULE, "FRA_FWMARK => rule.mark.0 = attribute.u32()?,", "FRA_FWMARK => {}", "a rule for a mark holds without it")
fault("rule-tos", RULE, "        tos: head[3],", "        tos: 0,", "tos of a rule is ignored")
fault("rule-from", RULE, "FRA_SRC => rule.src = Some((attribute.ip()?, src_len)),", "FRA_SRC => {}", "the sources of a rule are ignored")
fault("rule-to", RULE, "FRA_DST => rule.dst = Some((attribute.ip()?, dst_len)),", "FRA_DST => {}", "the destinations of a rule are ignored")
fault("rule-protocol", RULE, "FRA_IP_PROTO => rule.protocol = first(attribute)?,", "FRA_IP_PROTO => {}", "the protocol of a rule is ignored")
fault("rule-sport", RULE, "FRA_SPORT_RANGE => rule.sport = Some(pair(attribute, u16::from_ne_bytes)?),", "FRA_SPORT_RANGE => {}", "source ports of a rule are ignored")
fault("rule-dport", RULE, "FRA_DPORT_RANGE => rule.dport = Some(pair(attribute, u16::from_ne_bytes)?),", "FRA_DPORT_RANGE => {}", "destination ports of a rule are ignored")
fault("rule-not", RULE, "invert: u32_at(head, 8) & FIB_RULE_INVERT != 0,", "invert: u32_at(head, 8) & FIB_RULE_INVERT > 9,", "`not` of a rule is ignored")
fault("rule-order", COMPILE, "for (at, rule) in rules.list.iter().enumerate() {", "for (at, rule) in rules.list.iter().enumerate().collect::<Vec<_>>().into_iter().rev() {",
      "the last rule comes first")
fault("rule-unreachable", COMPILE, "RuleAction::Unreachable => give(hops.unreachable),", "RuleAction::Unreachable => give(hops.blackhole),",
      "a rule that says unreachable drops without an answer")
fault("rule-goto", COMPILE, "steps[at].action = Action::Goto(starts[target]);", "steps[at].action = Action::Goto(starts[target] + 1);", "goto leaves its target out")
fault("suppress-prefixlength", COMPILE, "if suppress.is_some_and(|length| length > 0) {", "if suppress.is_some_and(|length| length > 100) {",
      "suppress_prefixlength is taken for 0")
about("sysctls")
fault("strict-source-check", SETTINGS, "1 => RpFilter::Strict,", "1 => RpFilter::Loose,", "the strict source check is a loose one")
fault("no-source-check", SETTINGS, "_ => RpFilter::Loose,", "_ => RpFilter::Off,", "there is no loose source check")
