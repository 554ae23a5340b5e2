//! From Linux's rules (net/core/fib_rules.c, net/ipv4/fib_rules.c, net/ipv6/fib6_rules.c) to a list for the
//! packets of one interface: what the interface decides is decided here, and not for each packet.

use std::net::IpAddr;

use bora_fib::TableId;
use bora_forward::policy::{Action, Known, List, Selector, Step};
use bora_mirror::message::{Rule, RuleAction};
use bora_mirror::{Mirror, Rules, SharedHops};

const LOCAL: u32 = 255;
const MAIN: u32 = 254;
const DEFAULT: u32 = 253;
/// The bits of the TOS octet that a rule's `tos` is compared with (IPTOS_RT_MASK).
const TOS_MASK: u8 = 0x1c;
/// All but ECN.
const DSCP_MASK: u8 = 0xfc;

/// What the compiler needs to know of the main table of an IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// [`Mirror::main_is_alone`].
    pub(super) main_is_alone: bool,
    /// [`Mirror::main_tells_default`].
    pub(super) tells_default: bool,
    pub(super) hops: SharedHops,
}

impl Facts {
    pub(super) fn of(mirror: &Mirror, v6: bool) -> Self {
        Self {
            main_is_alone: mirror.main_is_alone(v6),
            tells_default: mirror.main_tells_default(v6),
            hops: mirror.shared_hops(),
        }
    }
}

/// The interface whose packets a list is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface<'a> {
    pub(super) name: &'a str,
    /// Name and table of its VRF.
    pub(super) vrf: Option<(&'a str, u32)>,
}

/// The result for one interface and IP version.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Compiled {
    /// `None`: the main table alone decides.
    pub(super) list: Option<List>,
    /// Rules that are left to Linux: priority, why.
    pub(super) left: Vec<(u32, &'static str)>,
    /// `bpf_fib_lookup` may be wrong: kernels differ in whether a rule is for these packets, or it ignores
    /// something.
    pub(super) unsure: bool,
    /// `bpf_fib_lookup` may be wrong where the packet's own interface and ports are not those of the
    /// question.
    pub(super) unsure_back: bool,
}

/// Compiles the rules of an IP version. `tables`: the further tables of the FIB by Linux's numbers.
pub(super) fn compile(
    rules: &Rules,
    v6: bool,
    from: Interface<'_>,
    facts: &Facts,
    tables: &dyn Fn(u32) -> Option<TableId>,
) -> Compiled {
    let linux = Action::Give(facts.hops.unsupported);
    let mut made = Compiled::default();
    if rules.unread.is_some() {
        made.list = Some(list(vec![step(None, linux)], facts));
        made.unsure = true;
        return made;
    }
    if is_linux_own(rules, v6, from) {
        return made;
    }
    let compiler = Compiler {
        v6,
        from,
        facts,
        tables,
    };
    let (mut steps, mut starts, mut gotos) = (Vec::new(), Vec::new(), Vec::new());
    for (at, rule) in rules.list.iter().enumerate() {
        starts.push(steps.len());
        made.unsure_back |= rule.iif.is_some() || rule.sport.is_some() || rule.dport.is_some();
        let Some(selected) = compiler.selected(rule) else {
            continue;
        };
        made.unsure |= selected == Err(KERNELS_DIFFER);
        // the kernel's look-up for BPF programs ignores it (fib6_rule_action_alt())
        made.unsure |= v6 && (rule.suppress.is_some() || rule.unknown.is_some());
        let target = |priority| {
            let later = rules.list.iter().enumerate().skip(at + 1);
            let mut later = later.filter(|(_, rule)| rule.priority == priority);
            later.next().map(|(at, _)| at)
        };
        let action = selected.and_then(|selector| Ok((selector, compiler.action(rule)?)));
        match action {
            Ok((selector, Do::This(action))) => steps.push(step(selector, action)),
            Ok((_, Do::GoOn)) => {}
            Ok((selector, Do::Goto(priority))) => {
                if let Some(target) = target(priority) {
                    gotos.push((steps.len(), target));
                    steps.push(step(selector, Action::Goto(usize::MAX)));
                }
            }
            Err(why) => {
                made.left.push((rule.priority, why));
                // the packets that it may be for
                let selector = compiler.selector(rule).filter(|_| !rule.invert);
                steps.push(step(selector, linux));
            }
        }
    }
    for (at, target) in gotos {
        steps[at].action = Action::Goto(starts[target]);
    }
    let main = Action::Table {
        table: TableId::MAIN,
        no_default: false,
    };
    if steps != [step(None, main)] {
        made.list = Some(list(steps, facts));
    }
    made
}

const KERNELS_DIFFER: &str = "kernels differ in what `iif` means for interfaces of a VRF";

fn step(selector: Option<Selector>, action: Action) -> Step {
    Step { selector, action }
}

fn list(steps: Vec<Step>, facts: &Facts) -> List {
    let known = Known {
        local: facts.hops.local,
        linux: facts.hops.unsupported,
        throw: facts.hops.throw,
    };
    List::new(steps, known)
}

/// Whether these are Linux's own rules, for packets of an interface that has no VRF.
fn is_linux_own(rules: &Rules, v6: bool, from: Interface<'_>) -> bool {
    let plain = |rule: &Rule| match rule.action {
        RuleAction::Table(table) => {
            let same = Rule {
                priority: rule.priority,
                action: rule.action,
                ..Rule::default()
            };
            (*rule == same).then_some(table)
        }
        _ => None,
    };
    let concerned = |rule: &&Rule| !rule.l3mdev || rule.invert || from.vrf.is_some();
    let tables: Vec<_> = rules.list.iter().filter(concerned).map(plain).collect();
    let own: &[_] = if v6 {
        &[LOCAL, MAIN]
    } else {
        &[LOCAL, MAIN, DEFAULT]
    };
    tables
        .iter()
        .copied()
        .eq(own.iter().map(|&table| Some(table)))
}

/// What to do with the packets that a rule is for.
enum Do {
    This(Action),
    GoOn,
    Goto(u32),
}

struct Compiler<'a> {
    v6: bool,
    from: Interface<'a>,
    facts: &'a Facts,
    tables: &'a dyn Fn(u32) -> Option<TableId>,
}

impl Compiler<'_> {
    /// The packets of this interface that a rule is for: `None` if none are, `Some(Ok(None))` if all are, an
    /// error if only Linux can say.
    fn selected(&self, rule: &Rule) -> Option<Result<Option<Selector>, &'static str>> {
        let unlike = self.is_unlike(rule);
        match unlike {
            Ok(true) => return rule.invert.then_some(Ok(None)),
            Err(why) => return Some(Err(why)),
            Ok(false) => {}
        }
        if let Some(why) = rule.unknown {
            return Some(Err(why));
        }
        if self.v6 && rule.tos != 0 {
            // before Linux 5.18 with ECN, since then without
            return Some(Err(
                "kernels differ in how they compare `tos`; `dscp` is the same on all",
            ));
        }
        let selector = self.selector(rule);
        match selector {
            None if rule.invert => None,
            selector => Some(Ok(selector)),
        }
    }

    /// Whether no packet of this interface is like the rule says, whatever is in the packet. Forwarded
    /// packets have no output interface yet, no mark, no tunnel, and user 0.
    fn is_unlike(&self, rule: &Rule) -> Result<bool, &'static str> {
        if rule.l3mdev && rule.invert {
            return Err("it is for packets of no VRF, and has no table for them");
        }
        if rule.oif.is_some() || rule.mark.0 & rule.mark.1 != 0 || rule.tunnel != 0 {
            return Ok(true);
        }
        if rule.l3mdev && self.from.vrf.is_none() {
            return Ok(true);
        }
        if rule.users.is_some_and(|(first, _)| first > 0) {
            return Ok(true);
        }
        if let Some(iif) = &rule.iif {
            let vrf = self.from.vrf.map(|(name, _)| name);
            let named = iif == self.from.name;
            if vrf.is_some() && (named || vrf == Some(iif.as_str())) {
                return Err(KERNELS_DIFFER);
            }
            if !named {
                return Ok(true);
            }
        }
        match rule.users {
            Some(_) => Err("it is for users, and packets that are forwarded count as root's"),
            None => Ok(false),
        }
    }

    /// What has to be looked at in each packet; `None`: nothing.
    fn selector(&self, rule: &Rule) -> Option<Selector> {
        let any = Selector::default();
        let bits = if self.v6 { 128 } else { 32 };
        let prefix = |prefix: Option<(IpAddr, u8)>| {
            let Some((address, length)) = prefix else {
                return (0, 0);
            };
            let number = match address {
                IpAddr::V4(address) => u128::from(address.to_bits()),
                IpAddr::V6(address) => address.to_bits(),
            };
            let all = u128::MAX >> (128 - bits);
            let host = all.checked_shr(length.into()).unwrap_or(0);
            (all & !host, number & !host)
        };
        let tos = match (rule.dscp, rule.tos) {
            (Some(dscp), _) => (DSCP_MASK, dscp << 2),
            (None, 0) => any.tos,
            (None, tos) if self.v6 => (DSCP_MASK, tos & DSCP_MASK),
            (None, tos) => (TOS_MASK, tos),
        };
        let selector = Selector {
            src: prefix(rule.src),
            dst: prefix(rule.dst),
            tos,
            protocol: rule.protocol,
            sport: rule.sport.unwrap_or(any.sport),
            dport: rule.dport.unwrap_or(any.dport),
            invert: false,
        };
        (!selector.is_any()).then_some(Selector {
            invert: rule.invert,
            ..selector
        })
    }

    fn action(&self, rule: &Rule) -> Result<Do, &'static str> {
        let hops = &self.facts.hops;
        let give = |next_hop| Ok(Do::This(Action::Give(next_hop)));
        match rule.action {
            RuleAction::Table(table) => {
                let vrf = self.from.vrf.map(|(_, table)| table);
                let table = vrf.filter(|_| rule.l3mdev).unwrap_or(table);
                self.look_up(table, rule.suppress)
            }
            RuleAction::Goto(priority) => Ok(Do::Goto(priority)),
            RuleAction::Nop => Ok(Do::GoOn),
            RuleAction::Blackhole => give(hops.blackhole),
            RuleAction::Unreachable => give(hops.unreachable),
            RuleAction::Prohibit => give(hops.prohibit),
            RuleAction::Unknown => Err("Bora does not know its action"),
        }
    }

    fn look_up(&self, table: u32, suppress: Option<u32>) -> Result<Do, &'static str> {
        if suppress.is_some_and(|length| length > 0) {
            return Err("suppress_prefixlength is more than 0");
        }
        let no_default = suppress.is_some();
        let main = [LOCAL, MAIN].contains(&table) || (table == DEFAULT && !self.v6);
        if main && !self.facts.main_is_alone {
            return Err("there are routes in table default, or odd ones in table local");
        }
        if table == MAIN && no_default && !self.facts.tells_default {
            return Err(
                "suppress_prefixlength, and a route for ::/1, ::/2 or 2000::/3 in table main",
            );
        }
        let table = match table {
            MAIN => TableId::MAIN,
            // what is the router's own goes to Linux in any case
            _ if main => return Ok(Do::GoOn),
            number => (self.tables)(number).ok_or("its table is not read yet")?,
        };
        Ok(Do::This(Action::Table { table, no_default }))
    }
}
