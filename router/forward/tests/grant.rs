//! Request, grant, burst, with messages that take their time: nothing lost, nothing reordered,
//! nobody starved, and an end.

mod support;

use std::collections::VecDeque;

use bora_buffer::Packet;
use bora_forward::Class;
use bora_forward::schedule::grant::{Arbiter, Burst, Grant, Input, Request, Room};
use bora_forward::schedule::{MAX_FRAME, Output, OutputConfig};
use proptest::prelude::*;
use support::{Memory, Random};

/// One worker's end and the rings between it and the owner.
struct Worker {
    input: Input,
    queues: Output,
    grants: VecDeque<Grant>,
    bursts: VecDeque<Burst>,
    packets: VecDeque<Packet>,
    offered: u64,
    dropped: u64,
}

impl Worker {
    fn new() -> Self {
        Self {
            input: Input::default(),
            queues: Output::new(&OutputConfig::default().unshaped()).unwrap(),
            grants: VecDeque::new(),
            bursts: VecDeque::new(),
            packets: VecDeque::new(),
            offered: 0,
            dropped: 0,
        }
    }

    fn offer(&mut self, memory: &mut Memory, class: u8, length: u64) {
        self.offered += 1;
        let packet = memory.packet(length as usize, self.offered);
        if let Err(packet) = self.queues.push(Class(class), packet) {
            self.dropped += 1;
            memory.give(packet);
        }
    }

    /// Its side of a round: asks, and answers what has come.
    fn step(&mut self) {
        self.bursts.extend(self.input.request(&self.queues));
        if let Some(grant) = self.grants.pop_front() {
            let mut out = Vec::new();
            let burst = self.input.burst(grant, &mut self.queues, &mut out);
            assert!(burst.octets <= grant.octets && burst.packets <= grant.packets);
            assert_eq!(burst.packets as usize, out.len());
            assert!(!out.is_empty(), "a grant lets a packet through");
            assert!(out.iter().all(|packet| packet.mark() == grant.class.0));
            self.packets.extend(out);
            self.bursts.push_back(burst);
        }
        assert!(
            self.grants.len() + self.bursts.len() <= 2,
            "too many messages"
        );
    }
}

/// The owner with room for so much of each class; what it has delivered, by input.
struct Owner {
    arbiter: Arbiter,
    capacity: Room,
    held: VecDeque<Packet>,
    delivered: Vec<[u64; 2]>,
    octets: Vec<u64>,
    newest: Vec<[u64; 2]>,
    waiting: Vec<Option<Request>>,
}

impl Owner {
    fn new(inputs: usize, quantum: u32, capacity: Room) -> Self {
        Self {
            arbiter: Arbiter::new(inputs, quantum, &OutputConfig::default()),
            capacity,
            held: VecDeque::new(),
            delivered: vec![[0; 2]; inputs],
            octets: vec![0; inputs],
            newest: vec![[0; 2]; inputs],
            waiting: vec![None; inputs],
        }
    }

    fn room(&self, class: usize) -> Room {
        let of_class = |packet: &&Packet| usize::from(packet.mark()) == class;
        let held = || self.held.iter().filter(of_class);
        let octets: u64 = held().map(|packet| packet.length() as u64).sum();
        Room {
            octets: self.capacity.octets - octets,
            packets: self.capacity.packets - held().count() as u32,
        }
    }

    fn take(&mut self, memory: &Memory, number: usize, worker: &mut Worker) {
        if let Some(burst) = worker.bursts.pop_front() {
            for _ in 0..burst.packets {
                let packet = worker.packets.pop_front().expect("before the burst");
                let class = usize::from(packet.mark());
                let octets = memory.region.octets(&packet)[..8].try_into().unwrap();
                let sequence = u64::from_be_bytes(octets);
                assert!(sequence > self.newest[number][class], "reordered");
                self.newest[number][class] = sequence;
                self.delivered[number][class] += 1;
                self.octets[number] += packet.length() as u64;
                self.held.push_back(packet);
            }
            let _ = [0, 1].map(|class| self.room(class)); // underflows if a burst exceeds its grant
            self.arbiter.burst(number, &burst);
            self.waiting[number] = burst.next;
        }
    }

    /// Grants what it can.
    fn grant(&mut self, workers: &mut [Worker]) {
        let rooms = [0, 1].map(|class| self.room(class));
        while let Some((number, grant)) = self.arbiter.grant(|class| rooms[class]) {
            let chosen = self.waiting[number].take().expect("granted without asking");
            assert!(chosen.octets[usize::from(grant.class.0)] >= grant.octets);
            workers[number].grants.push_back(grant);
        }
    }

    fn drain(&mut self, memory: &mut Memory, packets: u64) {
        for _ in 0..packets {
            let Some(packet) = self.held.pop_front() else {
                break;
            };
            memory.give(packet);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost_reordered_or_stuck(
        inputs in 1usize..6,
        quantum in 0u32..20_000,
        packets in 1u32..64,
        seed: u64,
    ) {
        let random = &mut Random(seed | 1);
        let mut memory = Memory::new(4096);
        let octets = u64::from(quantum.max(MAX_FRAME) + MAX_FRAME) + random.below(20_000);
        let mut owner = Owner::new(inputs, quantum, Room { octets, packets });
        let mut workers: Vec<Worker> = (0..inputs).map(|_| Worker::new()).collect();
        // an output with room for one packet takes some ten rounds for each
        for round in 0..60_000 {
            if round > 1000 && workers.iter().all(|worker| worker.queues.held() == 0 && worker.packets.is_empty() && worker.bursts.is_empty()) {
                break;
            }
            for (number, worker) in workers.iter_mut().enumerate() {
                if round < 1000 && random.one_in(2) {
                    let class = random.below(2) as u8;
                    worker.offer(&mut memory, class, 60 + random.below(1455));
                }
                // each end of each ring moves when it likes
                if random.one_in(2) {
                    worker.step();
                }
                if random.one_in(2) {
                    owner.take(&memory, number, worker);
                }
            }
            owner.grant(&mut workers);
            owner.drain(&mut memory, random.below(4));
        }
        for (number, worker) in workers.iter().enumerate() {
            prop_assert_eq!(worker.queues.held(), 0, "stuck");
            let delivered: u64 = owner.delivered[number].iter().sum();
            prop_assert_eq!(worker.offered, delivered + worker.dropped);
        }
    }

    /// Inputs that always have packets deliver the same octets within a quantum and a frame, when
    /// every granted burst is in.
    #[test]
    fn busy_inputs_share_evenly(
        lengths in prop::collection::vec(60u64..1515, 2..6),
        quantum in MAX_FRAME..20_000,
        seed: u64,
    ) {
        let random = &mut Random(seed | 1);
        let mut memory = Memory::new(8192);
        let capacity = Room { octets: 60_000, packets: 1024 };
        let mut owner = Owner::new(lengths.len(), quantum, capacity);
        let mut workers: Vec<Worker> = lengths.iter().map(|_| Worker::new()).collect();
        for _ in 0..300 {
            for ((number, worker), &longest) in workers.iter_mut().enumerate().zip(&lengths) {
                while worker.queues.held() < 800 {
                    worker.offer(&mut memory, 0, 60 + random.below(longest - 59));
                }
                worker.step();
                owner.take(&memory, number, worker);
                let (least, most) = (owner.octets.iter().min(), owner.octets.iter().max());
                let apart = most.unwrap() - least.unwrap();
                prop_assert!(apart <= u64::from(2 * quantum + MAX_FRAME), "{apart} on the way");
            }
            let (least, most) = (owner.octets.iter().min(), owner.octets.iter().max());
            let apart = most.unwrap() - least.unwrap();
            prop_assert!(apart <= u64::from(quantum + MAX_FRAME), "{apart}");
            owner.grant(&mut workers);
            owner.drain(&mut memory, 16);
        }
        prop_assert!(owner.octets.iter().all(|&octets| octets > 50_000), "{:?}", owner.octets);
    }

    /// From a request to its grant, each other input gets at most one grant at its priority.
    #[test]
    fn a_request_waits_for_one_turn_of_each_other(
        inputs in 2usize..8,
        class in 0usize..2,
        seed: u64,
    ) {
        let random = &mut Random(seed | 1);
        let mut arbiter = Arbiter::new(inputs, MAX_FRAME, &OutputConfig::default());
        let room = |_: usize| Room { octets: 1 << 20, packets: 4096 };
        let mut since: Vec<Option<Vec<u32>>> = vec![None; inputs]; // grants of others, while waiting
        let mut granted: Vec<Option<Grant>> = vec![None; inputs];
        for _ in 0..2000 {
            let input = random.below(inputs as u64) as usize;
            let mut request = Request::default();
            request.octets[class] = 60 + random.below(20_000) as u32;
            if let Some(grant) = granted[input].take() {
                let octets = grant.octets.saturating_sub(random.below(1514) as u32);
                arbiter.burst(input, &Burst { octets, packets: 1, next: Some(request) });
                since[input] = Some(vec![0; inputs]);
            } else if since[input].is_none() {
                arbiter.burst(input, &Burst { octets: 0, packets: 0, next: Some(request) });
                since[input] = Some(vec![0; inputs]);
            }
            if random.one_in(3) && let Some((chosen, grant)) = arbiter.grant(room) {
                since[chosen] = None;
                granted[chosen] = Some(grant);
                for grants in since.iter_mut().flatten() {
                    grants[chosen] += 1;
                    prop_assert!(grants[chosen] <= 1);
                }
            }
        }
    }
}

#[test]
fn high_priority_goes_first_and_keeps_nobody_out() {
    let mut memory = Memory::new(64);
    let mut worker = Worker::new();
    let mut arbiter = Arbiter::new(1, MAX_FRAME, &OutputConfig::default());
    for class in [0, 0, 1] {
        worker.offer(&mut memory, class, 1500);
    }
    let request = worker.input.request(&worker.queues).unwrap();
    let next = request.next.unwrap();
    assert_eq!(next.octets[..2], [3000, 1500]);
    assert_eq!(worker.input.request(&worker.queues), None, "asked already");
    arbiter.burst(0, &request);
    let some = Room {
        octets: 10_000,
        packets: 64,
    };
    let (_, grant) = arbiter.grant(|_| some).unwrap();
    assert_eq!((grant.class, grant.octets), (Class(1), 1500));
    let mut out = Vec::new();
    worker.offer(&mut memory, 1, 1500);
    let burst = worker.input.burst(grant, &mut worker.queues, &mut out);
    assert_eq!((burst.packets, out[0].mark()), (1, 1));
    arbiter.burst(0, &burst);
    // the output has enough of the high class, which may wait for its rate
    let full = |class: usize| if class == 1 { Room::default() } else { some };
    let (_, grant) = arbiter.grant(full).unwrap();
    assert_eq!((grant.class, grant.octets), (Class(0), 3000));
}
