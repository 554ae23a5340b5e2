//! Programs of rules in the XDP program beside what `bora-ruleset` says of them (as root).

use bora_ruleset::{
    Action, Conditions, Decision, Entry, FIELDS, Field, NO_WORD, Program as Rules, Ranges, Start,
};
use bora_xdp::{Program, RulePages, RulesAnswer};
use fastrand::Rng;

/// Programs that are tried, and packets for each.
const PROGRAMS: usize = 300;
const PACKETS: usize = 200;

fn loaded() -> Option<Program> {
    if !rustix::process::geteuid().is_root() {
        bora_testing::skip("loading BPF programs needs root");
        return None;
    }
    Some(Program::load(1, 0, false).unwrap())
}

/// Largest value of a field.
fn most(field: Field, v6: bool) -> u128 {
    match field {
        Field::Source | Field::Destination if v6 => u128::MAX,
        Field::Source | Field::Destination => u32::MAX.into(),
        Field::Protocol => 255,
        Field::FirstWord | Field::SecondWord => NO_WORD,
        Field::Input | Field::Output => 4095,
    }
}

/// A value that is often near others.
fn value(random: &mut Rng, field: Field, v6: bool) -> u128 {
    let most = most(field, v6);
    match random.usize(0..4) {
        0 => random.u128(..) % most,
        1 => most - random.u128(..4).min(most),
        _ => random.u128(..24) << (random.u32(..2) * (most.ilog2() / 2)),
    }
    .min(most)
}

fn ranges(random: &mut Rng, field: Field, v6: bool, count: usize) -> Ranges {
    let range = |_| {
        let low = value(random, field, v6);
        let high = match random.bool() {
            true => low,
            false => low.saturating_add(random.u128(..40)).min(most(field, v6)),
        };
        (low, high)
    };
    let union = Ranges::union((0..count).map(range).collect());
    match random.usize(0..4) {
        0 => union.inverted(most(field, v6)),
        _ => union,
    }
}

fn rules(random: &mut Rng, v6: bool) -> Rules {
    let count = [3, 20, 100, 1000][random.usize(0..4)];
    let fields: Vec<Field> = Field::ALL.into_iter().filter(|_| random.bool()).collect();
    let mut entries: Vec<Entry> = Vec::new();
    for number in 0..count {
        let mut conditions = Conditions::default();
        for &field in &fields {
            if random.usize(0..3) == 0 {
                let count = random.usize(1..20);
                conditions.add(field, &ranges(random, field, v6, count));
            }
        }
        let to = random.usize(number..count);
        let action = match random.usize(0..10) {
            0 => Action::Accept,
            1 => Action::Drop,
            2 => Action::Linux,
            3 => Action::Jump(to),
            4 => Action::Goto(to),
            5 => Action::Return,
            6 => Action::Notrack,
            _ => Action::Continue,
        };
        let counts = random.bool();
        entries.push(Entry {
            conditions,
            action,
            counts,
            place: None,
        });
    }
    entries.push(Entry {
        conditions: Conditions::default(),
        action: Action::Return,
        counts: false,
        place: None,
    });
    let starts = (0..random.usize(1..4)).map(|_| Start {
        entry: random.usize(0..count),
        untracked: random.usize(0..4) == 0,
        accepts: random.usize(0..3) > 0,
        routed: random.bool(),
    });
    Rules {
        starts: starts.collect(),
        entries,
    }
}

/// A packet that meets some conditions.
fn packet(random: &mut Rng, rules: &Rules, v6: bool) -> [u128; FIELDS] {
    Field::ALL.map(|field| {
        let entry = &rules.entries[random.usize(0..rules.entries.len())];
        let borders = entry
            .conditions
            .of(field)
            .into_iter()
            .flat_map(Ranges::iter);
        let mut borders: Vec<u128> = borders
            .flat_map(|(low, high)| [low, high, high.saturating_add(1), low.saturating_sub(1)])
            .collect();
        borders.push(value(random, field, v6));
        borders[random.usize(0..borders.len())].min(most(field, v6))
    })
}

#[test]
fn the_program_decides_as_the_rules_say() {
    let Some(mut program) = loaded() else { return };
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let (mut seen, none) = ([0; 3], Rules::default());
    for _ in 0..PROGRAMS {
        let v6 = random.bool();
        let rules = rules(&mut random, v6);
        let both = if v6 { [&none, &rules] } else { [&rules, &none] };
        program.follow(&RulePages::new(both).unwrap()).unwrap();
        for _ in 0..PACKETS {
            let values = packet(&mut random, &rules, v6);
            let (decision, path) = rules.decide(&values);
            let expected = match decision {
                Decision::Forward => RulesAnswer::Forward,
                Decision::Drop(_) => RulesAnswer::Drop,
                Decision::Linux => RulesAnswer::Linux,
            };
            seen[expected as usize] += 1;
            let found = program.ask_rules(v6, &values).unwrap();
            assert_eq!(
                found,
                (expected, path),
                "seed {seed}: {values:?} of {rules:#?}"
            );
        }
    }
    assert!(seen.iter().all(|&count| count > 1000), "{seen:?}");
}

#[test]
fn a_hundred_thousand_networks_are_one_entry() {
    let Some(mut program) = loaded() else { return };
    let mut random = Rng::with_seed(3);
    for v6 in [false, true] {
        let range = |_| {
            let low = random.u128(..) >> if v6 { 0 } else { 96 };
            (low, low.saturating_add(255).min(most(Field::Source, v6)))
        };
        let networks = Ranges::union((0..100_000).map(range).collect());
        let mut conditions = Conditions::default();
        conditions.add(Field::Source, &networks);
        let entry = |conditions, action| Entry {
            conditions,
            action,
            counts: true,
            place: None,
        };
        let rules = Rules {
            entries: vec![
                entry(conditions, Action::Drop),
                entry(Conditions::default(), Action::Return),
            ],
            starts: vec![Start {
                entry: 0,
                untracked: false,
                accepts: true,
                routed: false,
            }],
        };
        let none = Rules::default();
        let both = if v6 { [&none, &rules] } else { [&rules, &none] };
        let pages = RulePages::new(both).unwrap();
        eprintln!("{} octets", pages.octets());
        program.follow(&pages).unwrap();
        let borders: Vec<u128> = networks
            .iter()
            .flat_map(|(low, high)| [low, high, high.saturating_add(1)])
            .collect();
        for border in borders.iter().step_by(97) {
            let mut values = [0; FIELDS];
            values[0] = *border.min(&most(Field::Source, v6));
            let expected = match networks.has(values[0]) {
                true => RulesAnswer::Drop,
                false => RulesAnswer::Forward,
            };
            assert_eq!(
                program.ask_rules(v6, &values).unwrap().0,
                expected,
                "{values:?}"
            );
        }
    }
}
