//! Compiled rules against a plain interpreter of what Linux does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bora_fib::{FibConfig, FibReader, NextHop, NextHopId, Prefix4, Prefix6, Reason, TableId};
use bora_forward::Family;
use bora_forward::policy::Key;
use bora_mirror::message::{Rule, RuleAction};
use bora_mirror::{Rules, SharedHops};
use proptest::prelude::*;

use super::compile::{Facts, Interface, compile};
use super::concern_flows;

/// Linux's tables 254, 100 and 101, and some routes in each: address, length, next hop.
type Routes = Vec<(usize, u128, u8, usize)>;
const TABLES: [u32; 3] = [254, 100, 101];
/// Routes to neighbours, then those that lead nowhere.
const WAYS: usize = 4;

struct World {
    reader: FibReader,
    tables: [TableId; 3],
    hops: SharedHops,
    /// [`WAYS`] next hops, blackhole, unreachable, throw.
    ids: Vec<NextHopId>,
    /// As given, the last of equal ones.
    routes: Routes,
    v6: bool,
}

fn bits(v6: bool) -> u8 {
    if v6 { 128 } else { 32 }
}

fn mask(v6: bool, address: u128, length: u8) -> u128 {
    let all = u128::MAX >> (128 - bits(v6));
    address & all & !all.checked_shr(length.into()).unwrap_or(0)
}

impl World {
    fn new(v6: bool, mut routes: Routes) -> Self {
        let (mut fib, handle) = bora_fib::new(FibConfig::default()).unwrap();
        let mut punt = |reason| {
            fib.add_next_hop(NextHop::Punt { reason, port: None })
                .unwrap()
        };
        let hops = SharedHops {
            local: punt(Reason::Local),
            unsupported: punt(Reason::Unsupported),
            unreachable: punt(Reason::Unreachable),
            prohibit: punt(Reason::Prohibit),
            exception: punt(Reason::RouteException),
            blackhole: fib.add_next_hop(NextHop::Blackhole).unwrap(),
            throw: fib
                .add_next_hop(NextHop::Punt {
                    reason: Reason::Unsupported,
                    port: None,
                })
                .unwrap(),
        };
        let way = NextHop::Punt {
            reason: Reason::NoNeighbour,
            port: Some(bora_fib::PortId(1)),
        };
        let mut ids: Vec<_> = (0..WAYS)
            .map(|_| fib.add_next_hop(way.clone()).unwrap())
            .collect();
        ids.extend([hops.blackhole, hops.unreachable, hops.throw]);
        let further = |_| {
            if v6 {
                fib.add_table6()
            } else {
                fib.add_table4()
            }
        };
        let further = [0, 1].map(further).map(Result::unwrap);
        let tables = [TableId::MAIN, further[0], further[1]];
        for route in &mut routes {
            route.2 %= bits(v6) + 1;
            route.1 = mask(v6, route.1, route.2);
            let (table, id) = (tables[route.0], ids[route.3]);
            if v6 {
                fib.insert6_in(table, Prefix6::masked(route.1, route.2), id)
                    .unwrap();
            } else {
                fib.insert4_in(table, Prefix4::masked(route.1 as u32, route.2), id)
                    .unwrap();
            }
        }
        let reader = handle.reader().unwrap();
        Self {
            reader,
            tables,
            hops,
            ids,
            routes,
            v6,
        }
    }

    /// The longest match in a table: length and next hop.
    fn look_up(&self, table: usize, dst: u128) -> Option<(u8, NextHopId)> {
        let holds = |route: &&(usize, u128, u8, usize)| {
            route.0 == table && mask(self.v6, dst, route.2) == route.1
        };
        let found = self.routes.iter().filter(holds).max_by_key(|route| route.2);
        found.map(|route| (route.2, self.ids[route.3]))
    }

    /// fib_rules_lookup().
    fn interpret(&self, rules: &[Rule], key: &Key, iif: &str, vrf: Option<u32>) -> NextHopId {
        let mut at = 0;
        while let Some(rule) = rules.get(at) {
            at += 1;
            if self.matches(rule, key, iif, vrf) == rule.invert {
                continue;
            }
            let table = match rule.action {
                RuleAction::Goto(priority) => {
                    if let Some(target) = rules.iter().position(|rule| rule.priority == priority) {
                        at = target;
                    }
                    continue;
                }
                RuleAction::Nop => continue,
                RuleAction::Blackhole => return self.hops.blackhole,
                RuleAction::Unreachable => return self.hops.unreachable,
                RuleAction::Prohibit => return self.hops.prohibit,
                RuleAction::Table(_) if rule.l3mdev => vrf.unwrap_or(0),
                RuleAction::Table(table) => table,
                RuleAction::Unknown => unreachable!(),
            };
            let Some(table) = TABLES.iter().position(|&known| known == table) else {
                continue; // local and default are empty
            };
            match self.look_up(table, key.dst) {
                None => {}
                Some((_, id)) if id == self.hops.throw => {}
                Some((_, id)) if [self.hops.blackhole, self.hops.unreachable].contains(&id) => {
                    return id;
                }
                Some((length, _))
                    if rule.suppress.is_some_and(|most| u32::from(length) <= most) => {}
                Some((_, id)) => return id,
            }
        }
        NextHopId::NO_ROUTE
    }

    /// fib_rule_match(), fib4_rule_match() and fib6_rule_match().
    fn matches(&self, rule: &Rule, key: &Key, iif: &str, vrf: Option<u32>) -> bool {
        let inside = |prefix: Option<(IpAddr, u8)>, address: u128| {
            prefix.is_none_or(|(of, length)| {
                let of = match of {
                    IpAddr::V4(of) => of.to_bits().into(),
                    IpAddr::V6(of) => of.to_bits(),
                };
                mask(self.v6, address, length) == mask(self.v6, of, length)
            })
        };
        let among = |ports: Option<(u16, u16)>, port: u16| {
            ports.is_none_or(|(first, last)| first <= port && port <= last)
        };
        rule.iif.as_deref().is_none_or(|name| name == iif)
            && rule.oif.is_none()
            && (rule.mark.0 & rule.mark.1) == 0
            && (!rule.l3mdev || vrf.is_some())
            && rule.users.is_none_or(|(first, _)| first == 0)
            && inside(rule.src, key.src)
            && inside(rule.dst, key.dst)
            && (rule.tos == 0 || rule.tos == key.tos & 0x1c)
            && rule.dscp.is_none_or(|dscp| dscp == key.tos >> 2)
            && (rule.protocol == 0 || rule.protocol == key.protocol)
            && among(rule.sport, key.ports[0])
            && among(rule.dport, key.ports[1])
    }
}

fn address(v6: bool) -> impl Strategy<Value = u128> {
    let near = if v6 { 0x2001_0db8 << 96 } else { 0x0a00_0000 };
    (any::<u128>(), 0..u32::from(bits(v6))).prop_map(move |(noise, keep)| {
        let noise = mask(v6, noise, bits(v6));
        near ^ noise.checked_shr(keep).unwrap_or(0)
    })
}

fn ip(v6: bool, address: u128) -> IpAddr {
    if v6 {
        Ipv6Addr::from_bits(address).into()
    } else {
        Ipv4Addr::from_bits(address as u32).into()
    }
}

fn prefix(v6: bool) -> impl Strategy<Value = Option<(IpAddr, u8)>> {
    prop::option::weighted(0.4, (address(v6), 1..=bits(v6)))
        .prop_map(move |found| found.map(|(near, length)| (ip(v6, near), length)))
}

fn some<T: std::fmt::Debug + Clone + 'static>(values: Vec<T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.2, prop::sample::select(values))
}

fn rule(v6: bool) -> impl Strategy<Value = Rule> {
    let actions = vec![
        RuleAction::Table(254),
        RuleAction::Table(254),
        RuleAction::Table(255),
        RuleAction::Table(100),
        RuleAction::Table(101),
        RuleAction::Table(101),
        RuleAction::Nop,
        RuleAction::Blackhole,
        RuleAction::Unreachable,
        RuleAction::Prohibit,
        RuleAction::Goto(4),
        RuleAction::Goto(7),
    ];
    let names = || some(vec!["a".to_owned(), "b".to_owned()]);
    let tos = if v6 {
        vec![0u8]
    } else {
        vec![0x10u8, 0x04, 0x40]
    };
    let packet = (
        (prefix(v6), prefix(v6)),
        (some(tos), some(vec![4u8, 8, 46])),
        some(vec![6u8, 17]),
        (
            some(vec![(1u16, 99u16), (53, 53)]),
            some(vec![(1, 99), (80, 80)]),
        ),
    );
    let rest = (
        names(),
        prop::option::weighted(0.1, Just("a".to_owned())),
        some(vec![(0u32, u32::MAX), (1, u32::MAX)]),
        (any::<bool>(), prop::bool::weighted(0.1)),
        (
            prop::sample::select(actions),
            prop::option::weighted(0.3, Just(0u32)),
        ),
    );
    (packet, rest).prop_map(|(packet, rest)| {
        let ((src, dst), (tos, dscp), protocol, (sport, dport)) = packet;
        let (iif, oif, mark, (invert, l3mdev), (action, suppress)) = rest;
        let is_table = matches!(action, RuleAction::Table(_));
        Rule {
            src,
            dst,
            tos: tos.filter(|_| dscp.is_none()).unwrap_or(0),
            dscp,
            protocol: protocol.unwrap_or(0),
            sport,
            dport,
            iif: iif.filter(|_| !l3mdev),
            oif,
            mark: mark.unwrap_or_default(),
            invert: invert && dst.is_some() && !l3mdev,
            l3mdev: l3mdev && is_table,
            action,
            suppress: suppress.filter(|_| is_table),
            ..Rule::default()
        }
    })
}

#[test]
fn rules_that_only_flows_can_meet() {
    let with = |rule: Rule| Rules {
        list: vec![Rule::default(), rule],
        unread: None,
    };
    assert!(!concern_flows(&with(Rule::default())));
    assert!(concern_flows(&Rules::default()), "rules that are not read");
    let marked = Rule {
        mark: (0, 0x100),
        ..Rule::default()
    };
    let by_output = Rule {
        oif: Some("lan0".into()),
        ..Rule::default()
    };
    for rule in [marked, by_output] {
        assert!(concern_flows(&with(rule)));
    }
}

fn check(
    v6: bool,
    routes: Routes,
    mut list: Vec<Rule>,
    keys: Vec<Key>,
    vrf: bool,
) -> Result<(), TestCaseError> {
    let world = World::new(v6, routes);
    for (priority, rule) in (0u32..).zip(&mut list) {
        rule.priority = priority;
        // Linux allows only targets behind the rule
        if matches!(rule.action, RuleAction::Goto(target) if target <= priority) {
            rule.action = RuleAction::Nop;
        }
        if vrf {
            rule.iif = None; // see `iif_of_a_vrf_is_linux_s`
        }
    }
    let rules = Rules { list, unread: None };
    let outer = [(0, 1), (0, 2), (1u128 << 125, 3)];
    let covers =
        |route: &(usize, u128, u8, usize)| route.0 == 0 && outer.contains(&(route.1, route.2));
    let facts = Facts {
        main_is_alone: true,
        tells_default: !v6 || !world.routes.iter().any(covers),
        hops: world.hops,
    };
    let from = Interface {
        name: "a",
        vrf: vrf.then_some(("red", 101)),
    };
    let known = |number| {
        let at = TABLES.iter().position(|&table| table == number)?;
        (at > 0).then_some(world.tables[at])
    };
    let compiled = compile(&rules, v6, from, &facts, &known);
    if facts.tells_default {
        prop_assert_eq!(&compiled.left, &vec![]);
    }
    let family = if v6 { Family::V6 } else { Family::V4 };
    for key in keys {
        let main = world
            .look_up(0, key.dst)
            .map_or(NextHopId::NO_ROUTE, |found| found.1);
        let found = match &compiled.list {
            Some(list) => list.decide(&key, main, family, &world.reader),
            None if main == world.hops.throw => NextHopId::NO_ROUTE,
            None => main,
        };
        let expected = world.interpret(&rules.list, &key, "a", vrf.then_some(101));
        if found != world.hops.unsupported || facts.tells_default {
            prop_assert_eq!(found, expected, "{:?} {:?}", key, compiled);
        }
    }
    Ok(())
}

fn keys(v6: bool) -> impl Strategy<Value = Vec<Key>> {
    let ports = || prop::sample::select(vec![0u16, 1, 53, 80, 99, 100, 5000]);
    let tos = prop::sample::select(vec![0u8, 0x10, 0x13, 0x20, 0x30, 0x40, 0xb8, 0x44]);
    let protocol = prop::sample::select(vec![1u8, 6, 17, 50]);
    let key = (address(v6), address(v6), tos, protocol, [ports(), ports()]);
    let key = key.prop_map(|(src, dst, tos, protocol, ports)| Key {
        src,
        dst,
        tos,
        protocol,
        ports,
    });
    prop::collection::vec(key, 24)
}

fn routes() -> impl Strategy<Value = Routes> {
    let near = prop_oneof![address(false), address(true)];
    let route = (
        0..3usize,
        near,
        prop_oneof![Just(0u8), 0..=128u8],
        0..WAYS + 3,
    );
    prop::collection::vec(route, 0..24).prop_map(|mut routes| {
        // two routes for one prefix would be one, and the tables would have to say which
        routes.sort();
        routes.dedup_by_key(|route| (route.0, route.2 % 33, route.1 >> 20));
        routes
    })
}

/// Leaves one route of each prefix.
fn unique(v6: bool, routes: Routes) -> Routes {
    let mut seen = std::collections::BTreeSet::new();
    let place = |route: &(usize, u128, u8, usize)| {
        let length = route.2 % (bits(v6) + 1);
        (route.0, mask(v6, route.1, length), length)
    };
    routes
        .into_iter()
        .filter(|route| seen.insert(place(route)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn ipv4_goes_where_linux_sends_it(
        routes in routes(),
        rules in prop::collection::vec(rule(false), 1..9),
        keys in keys(false),
        vrf in any::<bool>(),
    ) {
        check(false, unique(false, routes), rules, keys, vrf)?;
    }

    #[test]
    fn ipv6_goes_where_linux_sends_it(
        routes in routes(),
        rules in prop::collection::vec(rule(true), 1..9),
        keys in keys(true),
        vrf in any::<bool>(),
    ) {
        check(true, unique(true, routes), rules, keys, vrf)?;
    }
}

fn facts(hops: SharedHops) -> Facts {
    Facts {
        main_is_alone: true,
        tells_default: true,
        hops,
    }
}

fn table(priority: u32, table: u32) -> Rule {
    Rule {
        priority,
        action: RuleAction::Table(table),
        ..Rule::default()
    }
}

#[test]
fn linux_own_rules_need_no_list() {
    let world = World::new(false, vec![]);
    let mut facts = facts(world.hops);
    facts.main_is_alone = false; // the merged tables say that, too
    let list = vec![table(0, 255), table(32766, 254), table(32767, 253)];
    let mut rules = Rules { list, unread: None };
    let none = |_| None;
    let from = Interface {
        name: "a",
        vrf: None,
    };
    assert_eq!(compile(&rules, false, from, &facts, &none).list, None);
    let vrf = Rule {
        priority: 1000,
        l3mdev: true,
        action: RuleAction::Table(0),
        ..Rule::default()
    };
    rules.list.insert(1, vrf);
    assert_eq!(compile(&rules, false, from, &facts, &none).list, None);
    facts.main_is_alone = true;
    let in_vrf = Interface {
        name: "a",
        vrf: Some(("red", 100)),
    };
    let compiled = compile(&rules, false, in_vrf, &facts, &|_| Some(world.tables[1]));
    assert_eq!(compiled.list.unwrap().steps().len(), 2);
}

#[test]
fn iif_is_decided_for_each_interface() {
    let world = World::new(false, vec![]);
    let rule = Rule {
        iif: Some("b".into()),
        ..table(5, 100)
    };
    let rules = Rules {
        list: vec![table(0, 255), rule, table(32766, 254)],
        unread: None,
    };
    let known = |_| Some(world.tables[1]);
    let of = |name, vrf| {
        compile(
            &rules,
            false,
            Interface { name, vrf },
            &facts(world.hops),
            &known,
        )
    };
    assert_eq!(of("a", None).list, None);
    assert_eq!(of("b", None).list.unwrap().steps().len(), 2);
}

#[test]
fn iif_of_a_vrf_is_linux_s() {
    let world = World::new(false, vec![]);
    for iif in ["a", "red"] {
        let rule = Rule {
            iif: Some(iif.into()),
            ..table(5, 100)
        };
        let rules = Rules {
            list: vec![rule, table(32766, 254)],
            unread: None,
        };
        let from = Interface {
            name: "a",
            vrf: Some(("red", 101)),
        };
        let made = compile(&rules, false, from, &facts(world.hops), &|_| {
            Some(world.tables[1])
        });
        assert!(made.unsure && made.left.len() == 1);
        let found =
            made.list
                .unwrap()
                .decide(&Key::default(), world.ids[0], Family::V4, &world.reader);
        assert_eq!(found, world.hops.unsupported);
    }
}

#[test]
fn what_cannot_be_compiled_is_left_to_linux_and_nothing_else() {
    let world = World::new(false, vec![(0, 0, 0, 0)]);
    let source = Some((IpAddr::from([10, 1, 0, 0]), 16));
    let odd = [
        Rule {
            unknown: Some("a test"),
            ..table(5, 100)
        },
        Rule {
            users: Some((0, 9)),
            ..table(5, 100)
        },
        Rule {
            suppress: Some(8),
            ..table(5, 100)
        },
        Rule {
            action: RuleAction::Unknown,
            priority: 5,
            ..Rule::default()
        },
        table(5, 77),
    ];
    for rule in odd {
        let list = vec![
            Rule {
                src: source,
                ..rule
            },
            table(32766, 254),
        ];
        let rules = Rules { list, unread: None };
        let known = |number| (number == 100).then_some(world.tables[1]);
        let from = Interface {
            name: "a",
            vrf: None,
        };
        let made = compile(&rules, false, from, &facts(world.hops), &known);
        let list = made.list.unwrap();
        let decide = |src| {
            let key = Key {
                src,
                ..Key::default()
            };
            list.decide(&key, world.ids[0], Family::V4, &world.reader)
        };
        assert_eq!(decide(0x0a01_0203), world.hops.unsupported, "{rules:?}");
        assert_eq!(decide(0x0a02_0203), world.ids[0], "{rules:?}");
        assert_eq!(made.left.len(), 1);
    }
    let rules = Rules {
        list: vec![],
        unread: Some("a test".into()),
    };
    let from = Interface {
        name: "a",
        vrf: None,
    };
    let list = compile(&rules, false, from, &facts(world.hops), &|_| None)
        .list
        .unwrap();
    let found = list.decide(&Key::default(), world.ids[0], Family::V4, &world.reader);
    assert_eq!(found, world.hops.unsupported);
}
