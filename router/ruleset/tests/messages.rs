//! Messages made by hand: what this kernel may not have, large rulesets, and messages that are wrong.

mod common;

use std::time::{Duration, Instant};

use bora_ruleset::{Answer, Class, Decision, Question, Refusal, Ruleset, Transit};
use common::messages::*;
use proptest::prelude::*;

const QUESTION: Question = Question {
    v6: false,
    local_first: true,
};
const FORWARD: u32 = 2;

fn analysis(messages: &[(u16, Vec<u8>)]) -> Transit {
    read(messages).analyse(QUESTION)
}

/// The analysis of a forward chain with these rules before `drop`, without which all would be accepted.
fn before_drop(rules: &[Vec<Vec<u8>>]) -> Transit {
    let mut messages = vec![base("f", FORWARD, 0)];
    messages.extend(rules.iter().map(|expressions| rule("f", expressions)));
    messages.push(rule(
        "f",
        &[payload(1, 12, &[192, 0, 2, 1]).concat(), verdict(0, None)],
    ));
    analysis(&messages)
}

#[test]
fn twenty_thousand_rules_take_no_time() {
    const CHAINS: usize = 2000;
    let mut messages = vec![base("f", FORWARD, 0)];
    let name = |number: usize| format!("c{number}");
    let jump = |from: &str, to: usize| {
        let condition = payload(1, 12, &[10, 0, (to / 256) as u8, to as u8]).concat();
        rule(from, &[condition, verdict(-3, Some(&name(to)))])
    };
    for chain in 0..CHAINS {
        messages.push(jump("f", chain));
        // each jumps to later ones, so that without memory there would be more ways than atoms
        for later in [1, 2, 3, 5, 7, 11, 13, 17].map(|step| chain + step) {
            if later < CHAINS && later / 15 == chain / 15 {
                messages.push(jump(&name(chain), later));
            }
        }
        let mark = expression(
            "immediate",
            &[
                number(1, 1),
                nested(2, &[attribute(1, &(chain as u32).to_ne_bytes())]),
            ],
        );
        let set = expression("meta", &[number(2, 3), number(3, 1)]);
        messages.push(rule(
            &name(chain),
            &[payload(1, 16, &[10, 0, 0, 1]).concat(), mark, set],
        ));
        for _ in 0..6 {
            messages.push(rule(
                &name(chain),
                &[payload(1, 16, &[10, 0, 0, 1]).concat(), verdict(0, None)],
            ));
        }
    }
    messages.push(rule("f", &[verdict(1, None)]));
    let count = messages.iter().filter(|(kind, _)| *kind == NEWRULE).count();
    assert!(count >= 20_000, "{count}");
    let start = Instant::now();
    let ruleset = read(&messages);
    let read = start.elapsed();
    let transit = ruleset.analyse(QUESTION);
    let all = start.elapsed();
    eprintln!("{count} rules: read in {read:?}, with the analysis {all:?}");
    // a second; without memory it would not end, and a busy machine has its time
    assert!(all < Duration::from_secs(60), "{all:?}");
    assert_eq!(transit.established.answer(), Answer::Constant);
    assert!(transit.established.obstacles.len() > CHAINS);
}

#[test]
fn loops_and_jumps_to_nowhere_vary() {
    for chains in [2, 40] {
        let mut messages = vec![base("f", FORWARD, 0), rule("f", &[verdict(-3, Some("c0"))])];
        for from in 0..chains {
            for to in 0..chains {
                let name = format!("c{to}");
                let words = [load("ct", 1), compare(&[0]), verdict(-3, Some(&name))];
                messages.push(rule(&format!("c{from}"), &words));
            }
        }
        assert_eq!(analysis(&messages).established.answer(), Answer::Varying);
    }
    let nowhere = analysis(&[
        base("f", FORWARD, 0),
        rule("f", &[verdict(-4, Some("nowhere"))]),
    ]);
    assert_eq!(nowhere.established.answer(), Answer::Varying);
    let mut deep = vec![base("f", FORWARD, 0), rule("f", &[verdict(-3, Some("c0"))])];
    for chain in 0..5000 {
        deep.push(rule(
            &format!("c{chain}"),
            &[verdict(-3, Some(&format!("c{}", chain + 1)))],
        ));
    }
    assert_eq!(analysis(&deep).established.answer(), Answer::Varying);
}

#[test]
fn expressions_before_a_drop() {
    let accept = || verdict(1, None);
    let flow_add = expression("flow_offload", &[text(1, "ft")]);
    let limit = expression("limit", &[attribute(1, &5u64.to_be_bytes())]);
    let quota = expression("objref", &[number(1, 2), text(2, "q")]);
    let counter = expression("objref", &[number(1, 1), text(2, "c")]);
    let helper = expression("objref", &[number(1, 3), text(2, "h")]);
    let established = [load("ct", 0), compare(&2u32.to_ne_bytes())].concat();
    let dying = [
        load("ct", 2),
        expression(
            "bitwise",
            &[
                number(1, 1),
                number(2, 1),
                number(3, 4),
                nested(4, &[attribute(1, &512u32.to_ne_bytes())]),
                nested(5, &[attribute(1, &[0; 4])]),
            ],
        ),
        compare(&512u32.to_ne_bytes()),
    ];
    for (rules, expected) in [
        (vec![vec![accept()]], Answer::Unconditional),
        (
            vec![vec![established.clone(), accept()]],
            Answer::Unconditional,
        ),
        (
            vec![vec![counter, helper, established, accept()]],
            Answer::Unconditional,
        ),
        (vec![vec![flow_add.clone()]], Answer::Constant),
        (vec![vec![flow_add], vec![accept()]], Answer::Unconditional),
        (vec![dying.to_vec()], Answer::Constant),
        (
            vec![
                [dying.to_vec(), vec![verdict(0, None)]].concat(),
                vec![accept()],
            ],
            Answer::Unconditional,
        ),
        (vec![vec![limit.clone(), accept()]], Answer::Varying),
        (vec![vec![quota, accept()]], Answer::Varying),
        (vec![vec![limit], vec![accept()]], Answer::Unconditional),
        (
            vec![vec![expression("inner", &[])], vec![accept()]],
            Answer::Varying,
        ),
        (
            vec![vec![expression("new", &[])], vec![accept()]],
            Answer::Varying,
        ),
        (
            vec![vec![expression("notrack", &[])], vec![accept()]],
            Answer::Unconditional,
        ), // tracked already
        (
            vec![vec![expression("synproxy", &[])], vec![accept()]],
            Answer::Varying,
        ),
        (
            vec![vec![expression("fwd", &[number(1, 1)])], vec![accept()]],
            Answer::Varying,
        ),
        (
            vec![vec![expression("payload", &[number(5, 1)])], vec![accept()]],
            Answer::Varying,
        ),
        (
            vec![
                vec![load("meta", 15), compare(&[10]), verdict(0, None)],
                vec![accept()],
            ],
            Answer::Unconditional,
        ),
        (
            vec![vec![load("meta", 1), compare(&[8, 0]), accept()]],
            Answer::Unconditional,
        ),
        (
            vec![vec![load("meta", 2), compare(&[0; 4]), accept()]],
            Answer::Varying,
        ), // priority
        (
            vec![vec![payload(1, 8, &[64]).concat(), accept()]],
            Answer::Varying,
        ), // TTL
        (
            vec![vec![payload(2, 0, &[0, 80]).concat(), accept()]],
            Answer::Constant,
        ),
        (
            vec![vec![payload(1, 9, &[1]).concat(), accept()]],
            Answer::Constant,
        ), // ICMP, so the drop decides
        (
            vec![vec![payload(0, 6, &[2; 6]).concat(), accept()]],
            Answer::Varying,
        ), // ether saddr
    ] {
        let transit = before_drop(&rules);
        assert_eq!(
            transit.established.answer(),
            expected,
            "{}",
            common::text(&transit)
        );
    }
}

#[test]
fn chains_count_only_where_transit_passes() {
    let drop = || rule("f", &[verdict(0, None)]);
    let transit = analysis(&[base("f", 1, 0), drop()]); // input
    assert_eq!(
        (transit.chains.len(), transit.established.answer()),
        (0, Answer::Unconditional)
    );
    let transit = analysis(&[base("f", FORWARD, 0), drop()]);
    assert_eq!(transit.established.answer(), Answer::Constant);
    let obstacle = &transit.established.obstacles[0];
    assert_eq!(
        (obstacle.class, obstacle.place.rule),
        (Class::Constant, Some((1, 7)))
    );
    assert_eq!(obstacle.to_string(), "rule 1 of chain inet t f (drop)");
    assert_eq!(
        transit.established.answer_of(|base| base != 0),
        Answer::Unconditional
    );
    // a dormant table, which may be told after its chains
    let dormant = (NEWTABLE, message(&[text(1, "t"), number(2, 1)]));
    assert!(
        analysis(&[base("f", FORWARD, 0), drop(), dormant])
            .chains
            .is_empty()
    );
}

/// The verdict map `m` of four octets.
fn verdict_map() -> Vec<u8> {
    message(&[
        text(1, "t"),
        text(2, "m"),
        number(3, 8),
        number(5, 4),
        number(6, 0xffff_ff00),
    ])
}

#[test]
fn an_unread_map_varies() {
    let lookup = expression("lookup", &[text(1, "m"), number(2, 1), number(3, 0)]);
    let mut messages = vec![
        base("f", FORWARD, 0),
        (NEWSET, verdict_map()),
        rule("f", &[load("ct", 0), lookup]),
    ];
    let ruleset = read(&messages);
    let wanted: Vec<_> = ruleset
        .wanted_sets()
        .map(|(table, set)| (table.name.as_str(), set))
        .collect();
    assert_eq!(wanted, [("t", "m")]);
    assert_eq!(
        ruleset.analyse(QUESTION).established.answer(),
        Answer::Varying
    );
    messages.push((
        NEWSETELEM,
        message(&[text(1, "t"), text(2, "m"), nested(3, &[])]),
    ));
    let ruleset = read(&messages);
    assert_eq!(ruleset.wanted_sets().count(), 0);
    assert_eq!(
        ruleset.analyse(QUESTION).established.answer(),
        Answer::Unconditional
    );
}

#[test]
fn a_set_that_packets_change_varies() {
    let set = message(&[text(1, "t"), text(2, "s"), number(3, 0), number(5, 4)]);
    let elements = message(&[text(1, "t"), text(2, "s"), nested(3, &[])]);
    let lookup = || expression("lookup", &[text(1, "s"), number(2, 1)]);
    let source = || payload(1, 12, &[0; 4])[0].clone();
    let add = expression("dynset", &[text(1, "s"), number(3, 0), number(4, 1)]);
    let known = vec![
        base("f", FORWARD, 0),
        (NEWSET, set),
        (NEWSETELEM, elements),
        rule("f", &[source(), lookup(), verdict(0, None)]),
    ];
    assert_eq!(
        analysis(&known).established.answer(),
        Answer::Unconditional,
        "it is empty"
    );
    // without the flag that it is dynamic; the rule that changes it is told before it, or behind it
    let input = [base("i", 1, 0), rule("i", &[source(), add])];
    for messages in [
        [&input[..], &known[..]].concat(),
        [&known[..], &input[..]].concat(),
    ] {
        assert_eq!(
            analysis(&messages).established.answer(),
            Answer::Varying,
            "{}",
            common::text(&analysis(&messages))
        );
        assert_eq!(read(&messages).further_sets().count(), 0);
    }
}

#[test]
fn what_happens_before_a_sure_drop_does_not_vary() {
    let log = || expression("log", &[]);
    let limit = || expression("limit", &[attribute(1, &5u64.to_be_bytes())]);
    let port = || payload(2, 0, &[0, 80]).concat();
    let flag = || payload(2, 13, &[8]).concat();
    let (accept, drop) = (|| verdict(1, None), || verdict(0, None));
    let goto = || verdict(-4, Some("c"));
    let jump = || verdict(-3, Some("c"));
    for (rules, chain, expected) in [
        // an accepted flow never comes to what is logged
        (
            vec![vec![port(), accept()], vec![limit(), log()], vec![drop()]],
            vec![],
            Answer::Constant,
        ),
        (
            vec![vec![port(), goto()], vec![accept()]],
            vec![vec![limit(), log()], vec![limit(), drop()], vec![drop()]],
            Answer::Constant,
        ),
        (
            vec![
                vec![port(), accept()],
                vec![jump()],
                vec![limit(), drop()],
                vec![drop()],
            ],
            vec![
                vec![limit(), log()],
                vec![flag(), verdict(-5, None)],
                vec![log()],
            ],
            Answer::Constant,
        ),
        // one packet is accepted, and another one logged
        (
            vec![vec![limit(), accept()], vec![log()], vec![drop()]],
            vec![],
            Answer::Varying,
        ),
        (
            vec![vec![flag(), goto()], vec![accept()]],
            vec![vec![log()], vec![drop()]],
            Answer::Varying,
        ),
        (
            vec![vec![log()], vec![port(), accept()], vec![drop()]],
            vec![],
            Answer::Varying,
        ),
        (
            vec![vec![port(), jump()], vec![accept()]],
            vec![vec![log()], vec![flag(), drop()]],
            Answer::Varying,
        ),
        (
            vec![vec![port(), goto()], vec![accept()]],
            vec![vec![log()], vec![port(), accept()], vec![drop()]],
            Answer::Varying,
        ),
        // all else may accept
        (
            vec![vec![port(), accept()], vec![expression("queue", &[])]],
            vec![],
            Answer::Varying,
        ),
        (
            vec![
                vec![port(), accept()],
                vec![expression("new", &[])],
                vec![drop()],
            ],
            vec![],
            Answer::Varying,
        ),
    ] {
        let mut messages = vec![base("f", FORWARD, 0)];
        messages.extend(rules.iter().map(|expressions| rule("f", expressions)));
        messages.extend(chain.iter().map(|expressions| rule("c", expressions)));
        let transit = analysis(&messages);
        let text = common::text(&transit);
        assert_eq!(transit.established.answer(), expected, "{text}");
        assert!(!transit.chains[0].leaves_alone, "{text}");
    }
}

#[test]
fn an_ipset_varies() {
    // struct xt_set_info_match_v4, without conditions on counters
    let parts = [text(1, "set"), number(2, 4), attribute(3, &[0; 40])];
    let blocked = vec![expression("match", &parts), verdict(0, None)];
    let transit = before_drop(&[blocked]);
    assert_eq!(transit.established.answer(), Answer::Varying);
    let behind = before_drop(&[
        vec![verdict(1, None)],
        vec![expression("match", &parts), verdict(0, None)],
    ]);
    assert_eq!(behind.established.answer(), Answer::Unconditional);
}

#[test]
fn a_helper_is_given_to_new_connections_only() {
    const PREROUTING: u32 = 0;
    const RAW: i32 = -300;
    // struct xt_ct_target_info_v1: flags, zone, events twice, helper, timeout
    let target = |flags: u16, zone: u16| {
        let mut info = [flags.to_ne_bytes(), zone.to_ne_bytes()].concat();
        info.extend([0; 8]);
        info.extend(b"tftp\0");
        info.resize(72, 0);
        let parts = [text(1, "CT"), number(2, 2), attribute(3, &info)];
        rule("p", &[expression("target", &parts)])
    };
    for (flags, zone, expected) in [
        (0, 0, Answer::Unconditional),
        (1, 0, Answer::Varying), // --notrack
        (2, 0, Answer::Varying), // by the name NOTRACK
        (0, 1, Answer::Varying),
        (4, 0, Answer::Varying),  // zones of one direction
        (16, 0, Answer::Varying), // the zone is the mark
    ] {
        let transit = analysis(&[base("p", PREROUTING, RAW), target(flags, zone)]);
        assert_eq!(transit.established.answer(), expected, "{flags} {zone}");
        assert!(!transit.chains[0].leaves_alone);
    }
}

#[test]
fn wrong_messages_are_refused() {
    let mut ruleset = Ruleset::default();
    let register = |number_: u32| {
        rule(
            "f",
            &[expression(
                "cmp",
                &[number(1, number_), nested(3, &[attribute(1, &[0; 5])])],
            )],
        )
    };
    for (kind, payload) in [
        (NEWTABLE, vec![1, 0]),
        (NEWTABLE, message(&[])),
        (NEWCHAIN, message(&[text(1, "t")])),
        (
            NEWCHAIN,
            message(&[text(1, "t"), text(3, "f"), nested(4, &[number(1, 9)])]),
        ),
        register(5),
        register(0),
        register(23), // the last four octets
        rule("f", &[expression("cmp", &[number(1, 1)])]),
        rule(
            "f",
            &[expression("payload", &[number(1, 1), number(4, 65)])],
        ),
        rule("f", &[attribute(1, &[9, 0])]),
    ] {
        let payload: Vec<u8> = payload;
        let read = ruleset.read(kind, &payload);
        let short = payload.len() == 16 && kind == NEWRULE;
        assert!(read.is_err() || short, "{kind} {payload:?}");
    }
    assert!(
        ruleset.read(999, &[]).is_ok(),
        "other messages are not looked at"
    );
}

fn kinds() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![NEWTABLE, NEWCHAIN, NEWRULE, NEWSET, NEWSETELEM])
}

/// A small ruleset that has some of all.
fn sample() -> Vec<(u16, Vec<u8>)> {
    let element = nested(
        1,
        &[
            nested(1, &[attribute(1, &2u32.to_ne_bytes())]),
            nested(2, &[nested(2, &[number(1, 1)])]),
        ],
    );
    vec![
        base("f", FORWARD, 0),
        rule("f", &[verdict(-3, Some("c"))]),
        rule(
            "c",
            &[
                payload(1, 12, &[10, 0, 0, 1]).concat(),
                verdict(-4, Some("d")),
            ],
        ),
        (NEWSET, verdict_map()),
        (
            NEWSETELEM,
            message(&[text(1, "t"), text(2, "m"), nested(3, &[element])]),
        ),
        rule(
            "f",
            &[
                load("ct", 0),
                expression("lookup", &[text(1, "m"), number(2, 1), number(3, 0)]),
            ],
        ),
        rule(
            "d",
            &[expression(
                "match",
                &[text(1, "conntrack"), number(2, 3), attribute(3, &[0; 164])],
            )],
        ),
        rule(
            "d",
            &[expression(
                "range",
                &[
                    number(1, 1),
                    nested(3, &[attribute(1, &[1])]),
                    nested(4, &[attribute(1, &[2])]),
                ],
            )],
        ),
    ]
}

proptest! {
    #[test]
    fn random_messages_are_read_or_refused(
        messages in prop::collection::vec((kinds(), prop::collection::vec(any::<u8>(), 0..200)), 0..8),
    ) {
        let mut ruleset = Ruleset::default();
        for (kind, payload) in messages {
            let _ = ruleset.read(kind, &payload);
        }
        ruleset.analyse(QUESTION);
    }

    #[test]
    fn damaged_messages_are_read_or_refused(
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut messages = sample();
        for (message, at, octet) in damages {
            let payload = &mut message.get_mut(&mut messages).1;
            *at.get_mut(payload) = octet;
        }
        let mut ruleset = Ruleset::default();
        for (kind, payload) in messages {
            let _ = ruleset.read(kind, &payload);
        }
        for v6 in [false, true] {
            ruleset.analyse(Question { v6, local_first: false });
        }
    }

    #[test]
    fn random_tables_of_iptables_are_read_or_refused(
        v6: bool,
        info in prop::collection::vec(any::<u8>(), 0..100),
        mut entries in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..600),
        next in 0..300u16,
    ) {
        // lengths that fit lead further into it
        let (at, least) = if v6 { (140, 168u16) } else { (88, 112) };
        if entries.len() >= at + 4 {
            entries[at..at + 2].copy_from_slice(&(least + next % 64).to_ne_bytes());
            entries[at + 2..at + 4].copy_from_slice(&(least + next).to_ne_bytes());
        }
        let mut ruleset = Ruleset::default();
        let _ = ruleset.read_iptables(v6, "filter", &info, &entries);
        ruleset.analyse(Question { v6, local_first: true });
    }
}

#[test]
fn goto_does_not_come_back() {
    let chain = |code| {
        let messages = [
            base("f", FORWARD, 0),
            rule("f", &[verdict(code, Some("c"))]),
            rule("f", &[verdict(0, None)]),
            rule("c", &[expression("counter", &[])]),
        ];
        analysis(&messages).established.answer()
    };
    assert_eq!(
        (chain(-3), chain(-4)),
        (Answer::Constant, Answer::Unconditional)
    );
}

#[test]
fn a_destination_is_local_only_before_it_is_translated() {
    let local = [
        expression("fib", &[number(1, 1), number(2, 3), number(3, 2)]),
        compare(&2u32.to_ne_bytes()),
    ];
    let nat = (
        NEWCHAIN,
        message(&[
            text(1, "t"),
            text(3, "n"),
            nested(4, &[number(1, 1)]),
            text(7, "nat"),
        ]),
    );
    let answer = |hook, local_first, nat: &[(u16, Vec<u8>)]| {
        let words = [local.concat(), verdict(0, None)];
        let messages = [&[base("f", hook, 0), rule("f", &words)], nat].concat();
        let transit = read(&messages).analyse(Question {
            v6: false,
            local_first,
        });
        assert_eq!(
            transit.chains[0].leaves_alone,
            transit.established.obstacles.is_empty()
        );
        transit.established.answer()
    };
    assert_eq!(answer(0, true, &[]), Answer::Unconditional);
    assert_eq!(
        answer(0, true, std::slice::from_ref(&nat)),
        Answer::Constant
    );
    assert_eq!(answer(0, false, &[]), Answer::Constant);
    assert_eq!(answer(FORWARD, true, &[nat]), Answer::Unconditional);
}

#[test]
fn a_conversion_of_half_a_number_changes_nothing() {
    // nft 1.0.6 writes it for `meta l4proto . th dport @set`: one octet, of numbers of two
    let convert = [
        number(1, 1),
        number(2, 1),
        number(3, 1),
        number(4, 1),
        number(5, 2),
    ];
    let [load, compare] = payload(1, 9, &[17]);
    let udp = rule(
        "f",
        &[
            load,
            expression("byteorder", &convert),
            compare,
            verdict(0, None),
        ],
    );
    let ruleset = read(&[base("f", FORWARD, 0), udp]);
    let program = ruleset.compile(false, false, &[]).unwrap();
    let values = |protocol| [0, 0, protocol, 0, 0, 0, 0];
    assert_eq!(program.decide(&values(17)).0, Decision::Drop(0));
    assert_eq!(program.decide(&values(6)).0, Decision::Forward);
}

#[test]
fn too_many_rules_are_refused() {
    let drop = || rule("f", &[payload(1, 12, &[10]).concat(), verdict(0, None)]);
    let mut messages = vec![base("f", FORWARD, 0)];
    messages.extend((0..4095).map(|_| drop()));
    assert!(read(&messages).compile(false, false, &[]).is_ok());
    messages.push(drop());
    let refused = read(&messages).compile(false, false, &[]);
    assert_eq!(refused, Err(Refusal::TooMany));
}
