//! Workers go by the latest tables, whatever waits for them, and keep what has not changed.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use bora_buffer::{Region, SharedFrames};
use bora_forward::Classifier;
use bora_forward::classify::{Action, Rule, RuleSet};
use bora_port::{Queue, memory};
use bora_worker::{Command, Mode, Published, Tables, Worker, WorkerConfig};

use common::{port_without_xdp, tables, worker_config};

fn drop_all() -> Arc<Classifier> {
    let rules = vec![Rule {
        action: Action::Drop,
        ..Rule::default()
    }];
    let set = RuleSet {
        rules,
        ..RuleSet::default()
    };
    Arc::new(set.compile().unwrap())
}

fn wait(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_worker_adopts_the_latest_tables_even_if_its_commands_are_full() {
    let region = Arc::new(Region::new(4096, 2048).unwrap());
    let reserve = SharedFrames::of_new_region(&region);
    let (_writer, handle) = tables(&[]);
    let (near, _far) = memory::pair(64);
    let ports = vec![port_without_xdp(0, Queue::Memory(near))];
    let published = Published::new(Tables {
        classifier: drop_all(),
        ..Tables::default()
    });
    let config = WorkerConfig {
        tables: published.clone(),
        ..worker_config(&region, &reserve, &handle, ports)
    };
    let (commands, counters) = (config.commands.clone(), config.counters.clone());
    // nobody takes commands yet
    while commands.push(Command::Profile(Duration::ZERO)).is_ok() {}
    counters.rules[0].packets.set(7);
    let changed = |budget, rule_set| Tables {
        classifier: drop_all(),
        mode: Mode::Poll,
        budget,
        rule_set,
        ..Tables::default()
    };
    for budget in 1..100 {
        published.publish(changed(budget, 0));
    }
    let worker = std::thread::spawn(move || Worker::new(config).unwrap().run());
    let adopted = || counters.generation.load(Acquire);
    wait("the latest tables are adopted", || {
        adopted() == published.generation()
    });
    assert_eq!((adopted(), published.latest().1.budget), (100, 99));

    let again = published.publish(changed(5, 0));
    wait("the same rules, compiled anew", || adopted() == again);
    assert_eq!(counters.rules[0].packets.get(), 7);

    let others = published.publish(changed(5, 1));
    wait("other rules", || adopted() == others);
    assert_eq!(counters.rules[0].packets.get(), 0);

    wait("room for a command", || commands.is_empty());
    commands.push(Command::Stop).unwrap();
    worker.join().unwrap();
}
