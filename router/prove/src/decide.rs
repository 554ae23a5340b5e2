//! Bora's answers: what the stages of its workers decide.

use std::net::IpAddr;
use std::sync::Arc;

use bora_buffer::{Frame, MAX_BATCH, Region};
use bora_contract::Reason;
use bora_fib::{FibReader, NextHop, NextHopId, PortId};
use bora_forward::{
    Batch, Classifier, Context, Gate, Ingress, Inputs, Meta, Tunnelling, Verdict, run,
};
use bora_wire::MacAddr;
use bora_worker::Tables;
use bora_xdp::Questions;

use crate::answer::BoraAnswer;
use crate::exchange::ProveError;
use crate::question::{CardRoute, Input, LENGTH, Question, Tags, tags_of};
use crate::readers;

/// Octets of a packet buffer; tunnels need room.
const FRAME: u32 = 2048;
/// All flows.
const FLOWS: u32 = 1 << 31;

/// A worker that only decides: it sends nothing and counts nothing.
pub struct Decider {
    region: Region,
    frames: Vec<Frame>,
    fib: FibReader,
    batch: Batch,
    tables: Tables,
    /// What packets come in by, made of the tables.
    rows: Inputs,
    no_rules: Arc<Classifier>,
    tunnelling: Tunnelling,
}

impl Decider {
    /// Decides by this FIB. The reader is offline between two calls of [`Decider::ask`].
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(mut fib: FibReader) -> Result<Self, ProveError> {
        let region = Region::new(MAX_BATCH as u32, FRAME);
        let region = region.map_err(|error| ProveError::Memory(error.to_string()))?;
        let reserve = bora_buffer::SharedFrames::of_new_region(&region);
        let mut pool = bora_buffer::Pool::new(reserve, MAX_BATCH);
        let mut frames = Vec::with_capacity(MAX_BATCH);
        pool.take_many(MAX_BATCH, &mut frames);
        fib.only_look();
        fib.offline();
        Ok(Self {
            region,
            frames,
            fib,
            batch: Batch::new(),
            tables: Tables::default(),
            rows: Inputs::new([], []),
            no_rules: Arc::default(),
            tunnelling: Tunnelling::new(0),
        })
    }

    /// Decides by these tables from now on.
    pub fn adopt(&mut self, inputs: &[Input], tables: Tables) {
        self.rows = rows(inputs, &tables);
        self.tables = tables;
    }

    /// What becomes of a frame that comes in by this port or device, and the frame as it is then; `None` if it is too long. Tags
    /// of what it comes in by must be taken off.
    pub fn decide(&mut self, input: PortId, frame: &[u8]) -> Option<(Verdict, Vec<u8>)> {
        self.push(frame.len(), |octets| octets.copy_from_slice(frame));
        self.fib.online();
        self.tunnelling = Tunnelling::new(0); // the first packet each time
        let rules = Arc::clone(&self.tables.classifier);
        self.run_stages(input, &rules);
        let verdict = self.batch.meta.first().copied().map(Meta::verdict);
        let packet = self.batch.packets.first();
        let left = packet.map(|packet| self.region.octets(packet).to_vec());
        self.fib.offline();
        self.empty();
        verdict.zip(left)
    }

    /// What Bora does with each of these packets. Rules of its configuration are left out, because Linux does not know them.
    pub(crate) fn ask(&mut self, questions: &[Question], inputs: &[Input]) -> Vec<BoraAnswer> {
        self.fib.online();
        let mut answers = Vec::with_capacity(questions.len());
        for (input, some) in by_input(questions) {
            self.ask_some(some, &inputs[input], &mut answers);
        }
        self.fib.offline();
        answers
    }

    /// What the readers of the FIB find for addresses of the main table, where they do not agree, in words.
    ///
    /// # Errors
    /// The XDP program cannot be asked.
    pub(crate) fn compare_readers(
        &mut self,
        addresses: &[IpAddr],
        program: Option<&Questions>,
    ) -> Result<Vec<(IpAddr, String)>, ProveError> {
        self.fib.online();
        let different = readers::compare(&self.fib, program, addresses);
        self.fib.offline();
        different
    }

    fn ask_some(&mut self, questions: &[Question], input: &Input, answers: &mut Vec<BoraAnswer>) {
        for question in questions {
            self.push(LENGTH, |octets| question.write(input, octets));
        }
        self.run_stages(input.number, &Arc::clone(&self.no_rules));
        let first = answers.len();
        answers.extend(self.batch.meta.iter().map(|meta| match meta.verdict() {
            Verdict::Punt(reason) => BoraAnswer::Linux(reason),
            // workers do not know this input: nothing comes to them by it
            Verdict::Drop(Reason::PortDown) => BoraAnswer::Linux(Reason::PortDown),
            Verdict::Drop(reason) => BoraAnswer::Drop(reason),
            // with its next hop, below
            Verdict::Forward(_) | Verdict::Pending => BoraAnswer::Linux(Reason::Unsupported),
        }));
        for (place, id) in self.batch.next_hops() {
            if let Verdict::Forward(port) = self.batch.meta[place].verdict() {
                let octets = self.region.octets(&self.batch.packets[place]);
                let mac = octets.first_chunk().copied().map_or(MacAddr::ZERO, MacAddr);
                answers[first + place] = self.sent((port, mac), tags_of(octets), id);
            }
        }
        self.empty();
        for (question, answer) in questions.iter().zip(&mut answers[first..]) {
            // cards are in front of everything
            let mut routes = input.card.iter();
            if let Some(route) = routes.find(|route| route.covers(question.destination)) {
                *answer = by_card(route);
            }
        }
    }

    /// Adds a packet to the batch, if it finds room.
    fn push(&mut self, length: usize, write: impl FnOnce(&mut [u8])) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        let mut packet = match frame.into_packet(&self.region, length) {
            Ok(packet) => packet,
            Err(frame) => return self.frames.push(frame),
        };
        write(self.region.octets_mut(&mut packet));
        self.batch.packets.push(packet);
    }

    /// Decides about the packets of the batch, which come in by `input`.
    fn run_stages(&mut self, input: PortId, classifier: &Classifier) {
        self.batch.came_by(input);
        let tables = &self.tables;
        let context = Context {
            region: &self.region,
            fib: &self.fib,
            inputs: &self.rows,
            devices: &tables.devices,
            min_frames: &[0],
            classifier,
            policies: &tables.policies,
            hash4: tables.hash.0,
            hash6: tables.hash.1,
            tunnelling: &self.tunnelling,
        };
        run(&mut self.batch, &context, &[], |_| {});
        self.tunnelling.take_sent(|_, _, _| {});
    }

    /// Takes the packets out of the batch.
    fn empty(&mut self) {
        let packets = self.batch.packets.drain(..);
        self.frames
            .extend(packets.map(|packet| packet.into_frame(&self.region)));
    }

    /// The answer for a packet that leaves by a next hop.
    fn sent(&self, chosen: (PortId, MacAddr), tags: Tags, id: NextHopId) -> BoraAnswer {
        let members = match self.fib.next_hop(id) {
            NextHop::Group(group) => group
                .shares()
                .unwrap_or_else(|| group.members().map(|member| (member, 0)).collect()),
            _ => vec![(id, FLOWS)],
        };
        let mut ways = Vec::with_capacity(members.len());
        let mut mtu = 0;
        for (member, share) in members {
            match self.fib.next_hop(member) {
                NextHop::Forward(way) => {
                    let mac = way.l2.first_chunk().copied().map_or(MacAddr::ZERO, MacAddr);
                    if (way.port, mac) == chosen {
                        mtu = way.mtu;
                    }
                    ways.push((way.port, mac, share));
                }
                NextHop::Tunnel(tunnel) => {
                    return BoraAnswer::Tunnel {
                        device: tunnel.port,
                        mtu: tunnel.mtu,
                    };
                }
                _ => {}
            }
        }
        BoraAnswer::Forward {
            chosen,
            tags,
            ways,
            mtu,
        }
    }
}

fn by_card(route: &CardRoute) -> BoraAnswer {
    BoraAnswer::Forward {
        chosen: (route.out, route.mac),
        tags: Tags::default(),
        ways: vec![(route.out, route.mac, FLOWS)],
        mtu: route.mtu,
    }
}

/// What packets come in by, as if no XDP program were in front: the stages make its checks of addresses then.
fn rows(inputs: &[Input], tables: &Tables) -> Inputs {
    let ports = tables.ports.iter().flatten().map(|port| &port.ingress);
    let rows = ports.chain(&*tables.devices).map(|row| {
        let input = inputs.iter().find(|input| input.number == row.port);
        let [kernel4, kernel6] = input.map_or([false; 2], |input| input.to_linux);
        let gate = Gate {
            up: true,
            kernel4,
            kernel6,
            promiscuous: true,
        };
        Ingress {
            // by an interface that is down no packets come, so that it needs no answer of its own
            gate: Some(Gate {
                up: true,
                ..row.gate.unwrap_or(gate)
            }),
            ..row.clone()
        }
    });
    let rows: Vec<Ingress> = rows.collect();
    Inputs::new(&rows, [])
}

/// Runs of questions of one input that follow each other, each of at most one batch.
fn by_input(questions: &[Question]) -> impl Iterator<Item = (usize, &[Question])> {
    let runs = questions.chunk_by(|one, other| one.input == other.input);
    runs.flat_map(|run| run.chunks(MAX_BATCH))
        .map(|some| (some[0].input, some))
}
