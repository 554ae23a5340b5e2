//! Checks all interleavings of publication and reclamation, with the real `epoch.rs` on loom's
//! atomics:
//! `RUSTFLAGS="--cfg loom" cargo test -p bora-fib --test loom --release`
#![allow(unexpected_cfgs)]
#![cfg(loom)]

#[allow(dead_code)]
#[path = "../src/epoch.rs"]
mod epoch;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use epoch::Epochs;

/// A root word that names one of two nodes. Loom's cells report every access that races with a
/// change, for example if a node is written again while a reader is inside.
struct Model {
    epochs: Epochs,
    word: AtomicUsize,
    nodes: [UnsafeCell<usize>; 2],
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            epochs: Epochs::new(2),
            word: AtomicUsize::new(0),
            nodes: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    /// Reads the value, which must not be older than `least`.
    fn look(&self, least: usize) -> usize {
        let node = self.word.load(Ordering::Acquire);
        // SAFETY: what loom checks here.
        let value = self.nodes[node].with(|value| unsafe { *value });
        assert!(value >= least);
        value
    }

    fn write(&self, node: usize, value: usize) {
        // SAFETY: what loom checks here.
        self.nodes[node].with_mut(|place| unsafe { *place = value });
        self.word.store(node, Ordering::Release);
    }

    /// Publishes value 1 in the other node, and reuses the first for value 2 if readers allow.
    fn update(&self) {
        self.write(1, 1);
        let tag = self.epochs.advance();
        if self.epochs.passed() >= tag {
            self.write(0, 2);
        }
    }
}

/// Up to three preemptions; more take hours, and the protocol has no longer chains.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn a_node_is_reused_only_after_every_reader() {
    check(|| {
        let model = Model::new();
        let slots: Vec<_> = (0..2).map(|_| model.epochs.register().unwrap()).collect();
        let readers: Vec<_> = slots
            .into_iter()
            .map(|slot| {
                let model = model.clone();
                thread::spawn(move || {
                    let seen = model.look(0);
                    model.epochs.quiesce(slot);
                    model.look(seen);
                    model.epochs.unregister(slot);
                })
            })
            .collect();
        model.update();
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn a_reader_that_comes_back_or_is_new_is_waited_for() {
    check(|| {
        let model = Model::new();
        let slot = model.epochs.register().unwrap();
        model.epochs.offline(slot);
        let back = {
            let model = model.clone();
            thread::spawn(move || {
                model.epochs.online(slot);
                model.look(0);
                model.epochs.offline(slot);
            })
        };
        let new = {
            let model = model.clone();
            thread::spawn(move || {
                let slot = model.epochs.register().unwrap();
                model.look(0);
                model.epochs.unregister(slot);
            })
        };
        model.update();
        back.join().unwrap();
        new.join().unwrap();
    });
}
