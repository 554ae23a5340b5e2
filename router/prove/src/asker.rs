//! Asks both about packets, and again about those that they differ on.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use bora_fib::PortId;
use bora_worker::Tables;
use bora_xdp::Questions;
use serde::Serialize;

use crate::answer::{BoraAnswer, LinuxAnswer, Path};
use crate::decide::Decider;
use crate::doubt::{Doubt, Doubted, PATIENCE};
use crate::exchange::ProveError;
use crate::judge::{Outcome, judge};
use crate::linux::Linux;
use crate::program::ask_program;
use crate::question::{Input, Question};
use crate::surroundings::Surroundings;
use crate::words;

/// How long Bora may be behind Linux before a difference cannot be judged: a million routes take seconds.
const LATE: Duration = Duration::from_secs(120);
/// Age at which neighbours and links are read again before a difference is judged.
const OLD: Duration = Duration::from_millis(15);
/// Differences that are kept; the others are counted.
const KEPT: usize = 100;

/// One thing that Bora does otherwise than Linux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The packet.
    pub packet: String,
    /// What it comes in by.
    pub input: String,
    /// What is different.
    pub what: &'static str,
    /// Linux's answer, with the route behind it.
    pub linux: String,
    /// Bora's answer.
    pub bora: String,
    /// Destination address of the packet.
    #[serde(skip)]
    pub destination: IpAddr,
    /// Prefix of Linux's route.
    #[serde(skip)]
    pub prefix: Option<(IpAddr, u8)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            packet,
            input,
            what,
            linux,
            bora,
            ..
        } = self;
        write!(
            f,
            "{what}: a packet by {input} {packet}; Linux: {linux}; Bora: {bora}"
        )
    }
}

/// How far a walk has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Questions that both have answered.
    pub compared: u64,
    /// Questions, about.
    pub total: u64,
    /// Answers of Bora that are Linux's.
    pub same: u64,
    /// Packets that Bora leaves to Linux, by reason.
    pub left_to_linux: BTreeMap<&'static str, u64>,
    /// Questions on which they differ.
    pub differ: u64,
    /// Questions whose answers changed all the time.
    pub unsettled: u64,
    /// Questions whose input is gone.
    pub gone: u64,
    /// Addresses that all readers of the FIB have looked up.
    pub looked_up: u64,
    /// Questions to be asked again.
    pub waiting: usize,
    /// A sum of hashes over Linux's answers: equal on two routers with the same tables and names of interfaces.
    pub hash: u64,
}

/// A question to be asked again.
#[derive(Debug)]
struct Again {
    question: Question,
    /// When it was first asked, and last.
    asked: (Instant, Instant),
    doubt: Doubt<(LinuxAnswer, BoraAnswer)>,
}

/// Asks, compares and keeps account.
pub struct Asker {
    linux: Linux,
    decider: Decider,
    program: Option<Questions>,
    inputs: Vec<Input>,
    /// A packet of IPv4 and one of IPv6 that come in by each input.
    templates: Vec<[Question; 2]>,
    around: (Surroundings, Instant),
    /// When Bora had followed all that Linux had told.
    caught_up: Instant,
    again: VecDeque<Again>,
    progress: Progress,
    differences: Vec<Difference>,
}

impl Asker {
    /// Asks about packets; `program`: the XDP program, if there is one. To be told by [`Asker::adopt`] what decides.
    ///
    /// # Errors
    /// Linux cannot be asked, or an answer cannot be read.
    pub fn new(
        mut linux: Linux,
        decider: Decider,
        program: Option<Questions>,
    ) -> Result<Self, ProveError> {
        let around = (Surroundings::read(&mut linux)?, Instant::now());
        Ok(Self {
            linux,
            decider,
            program,
            inputs: Vec::new(),
            templates: Vec::new(),
            around,
            caught_up: Instant::now(),
            again: VecDeque::new(),
            progress: Progress::default(),
            differences: Vec::new(),
        })
    }

    /// Packets come in by these inputs from now on, and workers decide by these tables. Questions that wait to be asked again are
    /// forgotten if the inputs are others.
    pub fn adopt(&mut self, inputs: Vec<Input>, tables: Tables, caught_up: Instant) {
        if inputs != self.inputs {
            self.inputs = inputs;
            self.again.clear();
            self.choose_templates();
        }
        self.adopt_tables(tables, caught_up);
    }

    fn choose_templates(&mut self) {
        let around = &self.around.0;
        let inputs = self.inputs.iter().enumerate();
        let templates = inputs.map(|(place, input)| {
            [false, true].map(|v6| around.template(place, input.ifindex, v6))
        });
        self.templates = templates.collect();
    }

    /// Workers decide by these tables from now on. `caught_up`: when Bora had followed all that Linux had told; what it does otherwise
    /// before is late.
    pub fn adopt_tables(&mut self, tables: Tables, caught_up: Instant) {
        self.caught_up = caught_up;
        self.decider.adopt(&self.inputs, tables);
    }

    /// What has been asked so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What differs, the first hundred.
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }

    /// Takes what differs, so that more can be noted.
    pub fn take_differences(&mut self) -> Vec<Difference> {
        std::mem::take(&mut self.differences)
    }

    /// The socket that Linux answers on.
    pub(crate) fn linux(&mut self) -> &mut Linux {
        &mut self.linux
    }

    /// What packets come in by.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    pub(crate) fn expect(&mut self, questions: u64) {
        self.progress.total = questions;
    }

    /// A packet that comes in by an input, to be asked about with other addresses.
    pub fn template(&self, input: usize, v6: bool) -> Question {
        self.templates[input][usize::from(v6)]
    }

    /// When the next question is due that waits to be asked again.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.again.iter().map(|again| again.doubt.due()).min()
    }

    /// Asks both, and again what they differed on and is due.
    ///
    /// # Errors
    /// Linux cannot be asked, or an answer cannot be read.
    pub fn ask(&mut self, questions: &[Question]) -> Result<(), ProveError> {
        let said = self.compare(questions)?;
        let now = Instant::now();
        for (question, said) in questions.iter().zip(said) {
            match said {
                None => self.progress.gone += 1,
                Some((linux, bora, Outcome::Differs(_))) => self.again.push_back(Again {
                    question: *question,
                    asked: (now, now),
                    doubt: Doubt::new((linux, bora), now),
                }),
                Some((linux, _, outcome)) => self.count(question, &linux, &outcome),
            }
        }
        self.ask_again()?;
        self.progress.waiting = self.again.len();
        Ok(())
    }

    /// Has all readers of the FIB look up addresses, and compares what they find.
    ///
    /// # Errors
    /// The XDP program cannot be asked.
    pub(crate) fn compare_readers(&mut self, addresses: &[IpAddr]) -> Result<(), ProveError> {
        let mut found = self
            .decider
            .compare_readers(addresses, self.program.as_ref())?;
        for wait in PATIENCE {
            if found.is_empty() {
                break;
            }
            thread::sleep(wait); // the FIB may just be changing
            let again: Vec<IpAddr> = found.iter().map(|(address, _)| *address).collect();
            found = self
                .decider
                .compare_readers(&again, self.program.as_ref())?;
        }
        self.progress.looked_up += addresses.len() as u64;
        self.progress.differ += found.len() as u64;
        let room = KEPT.saturating_sub(self.differences.len());
        let differences = found.into_iter().take(room);
        self.differences
            .extend(differences.map(|(destination, bora)| Difference {
                packet: format!("to {destination}"),
                input: "any input".into(),
                what: "the readers of the FIB find other next hops",
                linux: "not asked".into(),
                bora,
                destination,
                prefix: None,
            }));
        Ok(())
    }

    /// Asks again what was different and is due.
    fn ask_again(&mut self) -> Result<(), ProveError> {
        let now = Instant::now();
        let due: Vec<Again> = { 0..self.again.len() }
            .filter_map(|_| {
                let one = self.again.pop_front()?;
                let is_known = one.asked.1 <= self.caught_up || one.asked.0 + LATE < now;
                match is_known && one.doubt.due() <= now {
                    true => Some(one),
                    false => {
                        self.again.push_back(one);
                        None
                    }
                }
            })
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        if self.around.1.elapsed() > OLD {
            self.around = (Surroundings::read(&mut self.linux)?, Instant::now());
            self.choose_templates();
        }
        let questions: Vec<Question> = due.iter().map(|again| again.question).collect();
        let said = self.compare(&questions)?;
        for (again, said) in due.into_iter().zip(said) {
            match said {
                None => self.progress.gone += 1,
                Some((linux, bora, Outcome::Differs(what))) => {
                    self.differs_again(again, (linux, bora), what);
                }
                Some((linux, _, outcome)) => self.count(&again.question, &linux, &outcome),
            }
        }
        Ok(())
    }

    fn differs_again(
        &mut self,
        again: Again,
        answers: (LinuxAnswer, BoraAnswer),
        what: &'static str,
    ) {
        let now = Instant::now();
        let is_late = again.asked.1 > self.caught_up;
        match again.doubt.again(answers, now) {
            _ if is_late => self.progress.unsettled += 1,
            Doubted::Unsettled => self.progress.unsettled += 1,
            Doubted::Differs(answers) => {
                self.progress.differ += 1;
                if self.differences.len() < KEPT {
                    let difference = self.describe(&again.question, &answers, what);
                    self.differences.push(difference);
                }
            }
            Doubted::Again(doubt) => {
                return self.again.push_back(Again {
                    asked: (again.asked.0, now),
                    doubt,
                    ..again
                });
            }
        }
        self.progress.compared += 1;
    }

    fn count(&mut self, question: &Question, linux: &LinuxAnswer, outcome: &Outcome) {
        self.progress.compared += 1;
        match outcome {
            Outcome::LeftToLinux(reason) => {
                *self
                    .progress
                    .left_to_linux
                    .entry(reason.name())
                    .or_default() += 1;
            }
            _ => self.progress.same += 1,
        }
        let hash = self.hash(question, linux);
        self.progress.hash = self.progress.hash.wrapping_add(hash);
    }

    /// A hash of a question and Linux's answer, by names of interfaces (FNV-1a).
    fn hash(&self, question: &Question, linux: &LinuxAnswer) -> u64 {
        let mut hash = Fnv::default();
        hash.add(self.inputs[question.input].name.as_bytes());
        hash.address(question.source);
        hash.address(question.destination);
        hash.add(&[question.tos, question.protocol.0]);
        match linux {
            LinuxAnswer::Own => hash.add(b"own"),
            LinuxAnswer::Refuse(error) => hash.add(&error.to_be_bytes()),
            LinuxAnswer::Forward(route) => {
                for path in &route.paths {
                    hash.add(self.around.0.name_of(path.device).as_bytes());
                    path.gateway
                        .into_iter()
                        .for_each(|gateway| hash.address(gateway));
                    hash.add(&path.weight.to_be_bytes());
                    hash.add(&[path.alive.into()]);
                }
                hash.add(&route.mtu.unwrap_or(0).to_be_bytes());
                hash.add(&route.table.to_be_bytes());
            }
        }
        hash.0
    }

    fn describe(
        &self,
        question: &Question,
        (linux, bora): &(LinuxAnswer, BoraAnswer),
        what: &'static str,
    ) -> Difference {
        let prefix = match &linux {
            LinuxAnswer::Forward(route) => route.prefix,
            LinuxAnswer::Own | LinuxAnswer::Refuse(_) => None,
        };
        let around = &self.around.0;
        let link = |index| match around.name_of(index) {
            "" => format!("interface {index}"),
            name => name.to_owned(),
        };
        let port = |port: PortId| {
            let known = self.inputs.iter().find(|input| input.number == port);
            known.map_or_else(|| format!("port {}", port.0), |known| known.name.clone())
        };
        Difference {
            destination: question.destination,
            prefix,
            packet: question.to_string(),
            input: self.inputs[question.input].name.clone(),
            what,
            linux: words::of_linux(linux, &link),
            bora: words::of_bora(bora, &port),
        }
    }

    /// Asks both, and judges.
    fn compare(&mut self, questions: &[Question]) -> Result<Vec<Said>, ProveError> {
        let (inputs, around) = (&self.inputs, &self.around.0);
        let by_linux = self.linux.ask(questions, inputs)?;
        let mut by_bora = self.decider.ask(questions, inputs);
        if let Some(program) = &mut self.program {
            for ((question, linux), answer) in questions.iter().zip(&by_linux).zip(&mut by_bora) {
                let linux = (linux.as_ref(), around);
                ask_program(program, question, &inputs[question.input], linux, answer);
            }
        }
        let has_choice = |at: &usize| {
            let sends = matches!(
                by_bora.get(*at),
                Some(BoraAnswer::Forward { .. } | BoraAnswer::Express { .. })
            );
            let several = |linux: &LinuxAnswer| matches!(linux, LinuxAnswer::Forward(route) if route.paths.len() > 1);
            let tells = around.tells_paths_v6 || questions[*at].destination.is_ipv4();
            sends && tells && by_linux[*at].as_ref().is_some_and(several)
        };
        let places: Vec<usize> = (0..questions.len()).filter(has_choice).collect();
        let chosen: Vec<Question> = places.iter().map(|&at| questions[at]).collect();
        let paths = self.linux.ask_paths(&chosen, inputs)?;
        let mut paths: BTreeMap<usize, Option<Path>> = places.into_iter().zip(paths).collect();
        let all = questions.iter().zip(by_linux).zip(by_bora).enumerate();
        let said = all.map(|(at, ((question, linux), bora))| {
            let linux = linux?;
            let path = paths.remove(&at).flatten();
            let outcome = judge(question, inputs, around, &linux, path.as_ref(), &bora);
            Some((linux, bora, outcome))
        });
        Ok(said.collect())
    }
}

/// What both said and what comes of it; nothing where the input is gone.
type Said = Option<(LinuxAnswer, BoraAnswer, Outcome)>;

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, octets: &[u8]) {
        for &octet in octets {
            self.0 = (self.0 ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.add(&address.octets()),
            IpAddr::V6(address) => self.add(&address.octets()),
        }
    }
}
