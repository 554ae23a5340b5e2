//! The full comparison of kernel and FIB, in steps: a thread makes a second FIB of fresh dumps, and the mirror's compares it with its own
//! while it goes on following Linux.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use bora_fib::{FibConfig, FibWriter, NextHop, NextHopId};

use crate::error::KernelError;
use crate::family::Family;
use crate::load::Loader;
use crate::mirror::{Mirror, SHARE};
use crate::model::{Model, Stale};
use crate::reading::Reading;
use crate::rib::{MERGED, Prefix, Tree};
use crate::status::Difference;
use crate::sysctl::Unread;
use crate::world::Port;

/// How often to compare while the tables change.
const ATTEMPTS: usize = 3;
/// How long to wait until the FIB is made of all that Linux has told.
const PATIENCE: Duration = Duration::from_secs(30);
/// Entries between two looks at the clock.
const PART: usize = 256;

type Made = Receiver<Result<Box<Model>, KernelError>>;

/// A comparison under way, for [`Mirror::verify_some`].
#[derive(Debug)]
pub struct Verification {
    attempts: usize,
    /// When the present state began, and the mirror's reconciliations so far.
    since: (Instant, u64),
    state: State,
}

enum State {
    /// The FIB has to follow what Linux has told so far.
    CatchUp,
    /// A thread makes the second FIB; [`Model::changes`] when it began.
    Load(Made, u64),
    Compare(Comparison),
    /// The FIB has to follow what Linux told meanwhile.
    Judge(Comparison),
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::CatchUp => "CatchUp",
            Self::Load(..) => "Load",
            Self::Compare(_) => "Compare",
            Self::Judge(_) => "Judge",
        })
    }
}

impl Mirror {
    /// Begins to compare the FIB with one that is made of fresh dumps.
    pub fn begin_verification(&self) -> Verification {
        Verification {
            attempts: 0,
            since: (Instant::now(), self.counters.reconciliations),
            state: State::CatchUp,
        }
    }

    /// Goes on comparing, for some milliseconds. Call it with [`Mirror::poll`] in between until it returns the differences,
    /// which the next calls of [`Mirror::poll`] correct. Altogether it takes as long as a start, or, while the tables change, up to
    /// [`ATTEMPTS`] starts, and as much memory.
    ///
    /// # Errors
    /// As [`Mirror::open`]; [`KernelError::Behind`] and [`KernelError::Overtaken`].
    pub fn verify_some(
        &mut self,
        verification: &mut Verification,
    ) -> Option<Result<Vec<Difference>, KernelError>> {
        match self.next_state(verification) {
            Ok(None) => None,
            Ok(Some(found)) => Some(Ok(found)),
            Err(error) => Some(Err(error)),
        }
    }

    /// Compares at once; for those who have nothing else to do.
    ///
    /// # Errors
    /// As [`Mirror::verify_some`].
    pub fn verify(&mut self) -> Result<Vec<Difference>, KernelError> {
        let mut verification = self.begin_verification();
        loop {
            if let Some(found) = self.verify_some(&mut verification) {
                return found;
            }
            self.poll(Duration::ZERO)?;
        }
    }

    fn next_state(
        &mut self,
        of: &mut Verification,
    ) -> Result<Option<Vec<Difference>>, KernelError> {
        match std::mem::replace(&mut of.state, State::CatchUp) {
            State::CatchUp => {
                if self.catches_up(of)? {
                    of.state = State::Load(self.make_second()?, self.model.changes());
                }
            }
            State::Load(made, before) => match made.try_recv() {
                Ok(Err(KernelError::Overtaken)) => of.is_overtaken()?,
                Ok(second) => {
                    let comparison = Comparison::begin(second?, &self.model, before);
                    of.state = State::Compare(comparison);
                }
                Err(TryRecvError::Empty) => {
                    self.awaits_second = true;
                    of.state = State::Load(made, before);
                }
                Err(TryRecvError::Disconnected) => {
                    return Err(KernelError::Behind("its thread has ended".into()));
                }
            },
            State::Compare(mut comparison) => {
                of.state = match comparison.step(&self.model) {
                    false => State::Compare(comparison),
                    true => State::Judge(comparison),
                };
                of.since = (Instant::now(), self.counters.reconciliations);
            }
            State::Judge(comparison) => {
                if !self.catches_up(of)? {
                    of.state = State::Judge(comparison);
                } else if comparison.is_right(&self.model) {
                    return Ok(Some(self.judge(comparison)));
                } else {
                    of.is_overtaken()?;
                }
            }
        }
        Ok(None)
    }

    /// Whether the FIB is made of what Linux has told; if not, sees to it.
    fn catches_up(&mut self, of: &Verification) -> Result<bool, KernelError> {
        if self.is_current() {
            return Ok(true);
        }
        let (since, before) = of.since;
        let tried = self.counters.reconciliations - before;
        match self.hasten() {
            Some(why) if tried >= ATTEMPTS as u64 => Err(KernelError::Behind(why.into())),
            _ if since.elapsed() >= PATIENCE => Err(KernelError::Overtaken),
            _ => Ok(false),
        }
    }

    fn judge(&mut self, mut comparison: Comparison) -> Vec<Difference> {
        let found = std::mem::take(&mut comparison.found);
        if !found.is_empty() {
            self.model.stale.all = true;
            self.model.stale.reason = "a verification found differences";
        }
        found
    }

    /// Has a thread make a second FIB.
    fn make_second(&self) -> Result<Made, KernelError> {
        let world = &self.model.world;
        let known = Known {
            ports: world.ports.clone(),
            exceptions: world.exceptions.clone(),
            path_mtus: world.path_mtus.clone(),
        };
        let (outbox, made) = channel();
        let waker = self.waker();
        let thread = std::thread::Builder::new().name("bora-verify".into());
        let started = thread.spawn(move || {
            bora_confine::thread(bora_confine::KERNEL);
            drop(outbox.send(second(known))); // or nobody waits for it any more
            waker.wake();
        });
        let what = "a comparison of all tables";
        let failed = |source| KernelError::Open { what, source };
        started.map_err(failed).map(|_| made)
    }
}

impl Verification {
    /// Changes overtook this attempt.
    fn is_overtaken(&mut self) -> Result<(), KernelError> {
        self.attempts += 1;
        self.since.0 = Instant::now();
        match self.attempts < ATTEMPTS {
            true => Ok(()),
            false => Err(KernelError::Overtaken),
        }
    }
}

/// What a model is made of that no dump shows.
struct Known {
    ports: BTreeMap<u32, Port>,
    exceptions: BTreeSet<IpAddr>,
    path_mtus: BTreeMap<Ipv4Addr, u32>,
}

/// Makes a model of fresh dumps, with a FIB of its own.
fn second(known: Known) -> Result<Box<Model>, KernelError> {
    let (fib, _readers) = bora_fib::new(FibConfig {
        max_readers: 1,
        ..FibConfig::default()
    })?;
    let mut model = Box::new(Model::new(fib)?);
    let mut loader = Loader::open()?;
    let stale = Stale {
        all: true,
        ..Stale::default()
    };
    let mut reading = Reading::begin(&mut loader, &mut model, stale, None);
    reading.step(&mut loader, &mut model, None)?;
    let unread = |rules: &crate::rules::Rules| rules.unread.is_some();
    if reading.outcome.overtaken || model.world.rules.iter().any(unread) {
        return Err(KernelError::Overtaken);
    }
    model.reread_settings(&Unread::everything());
    loader.noticed_stations(&mut model);
    model.world.path_mtus = known.path_mtus;
    model.set_exceptions(known.exceptions);
    model.set_ports(known.ports);
    model.sync();
    while model.hops.is_outdated() {
        model.sync();
    }
    Ok(model)
}

/// The second FIB, whose memory another thread frees: there may be much.
struct Second(Option<Box<Model>>);

impl Drop for Second {
    fn drop(&mut self) {
        let model = self.0.take();
        let thread = std::thread::Builder::new().name("bora-verify".into());
        drop(thread.spawn(move || drop(model))); // or this one does
    }
}

/// Where a comparison goes on.
struct Place {
    v6: bool,
    tree: Tree,
    /// Only looks for what is in our FIB and not in the second one.
    back: bool,
    from: usize,
}

/// Two FIBs that are compared.
struct Comparison {
    second: Second,
    /// [`Model::changes`] when the second FIB was made.
    before: u64,
    places: VecDeque<Place>,
    /// Texts of the next hops of the second FIB and of ours so far: many prefixes share one, and a group's text is long.
    texts: [HashMap<NextHopId, Arc<str>>; 2],
    found: Vec<Difference>,
}

/// An IP version of a FIB.
struct Side<'a, P: Prefix> {
    family: &'a Family<P>,
    fib: &'a FibWriter,
}

impl<'a, P: Prefix> Side<'a, P> {
    fn find(&self, tree: Tree, prefix: P) -> Option<NextHopId> {
        prefix.fib_get(self.fib, self.family.fib_of(tree)?)
    }
}

impl Comparison {
    fn begin(mut second: Box<Model>, ours: &Model, before: u64) -> Self {
        second.adopt_unresolved(ours);
        let mut places = VecDeque::new();
        for v6 in [false, true] {
            let trees = [&*second, ours].map(|model| model.trees(v6));
            let trees = trees.into_iter().flatten().collect::<BTreeSet<_>>();
            places.extend(trees.into_iter().flat_map(|tree| {
                [false, true].map(|back| Place {
                    v6,
                    tree,
                    back,
                    from: 0,
                })
            }));
        }
        Self {
            second: Second(Some(second)),
            before,
            places,
            texts: Default::default(),
            found: Vec::new(),
        }
    }

    /// Compares for a while; returns whether all is compared.
    fn step(&mut self, ours: &Model) -> bool {
        let until = Instant::now() + SHARE;
        let Some(mut second) = self.second.0.take() else {
            return true;
        };
        if !second.is_written() {
            second.sync_until(Some(until));
        } else {
            while !self.places.is_empty() && Instant::now() < until {
                self.compare_some(&second, ours);
            }
        }
        let is_done = second.is_written() && self.places.is_empty();
        self.second.0 = Some(second);
        is_done
    }

    fn compare_some(&mut self, second: &Model, ours: &Model) {
        let Some(place) = self.places.pop_front() else {
            return;
        };
        let fibs = [&second.hops.fib, &ours.hops.fib];
        let from = match place.v6 {
            false => self.compare_part(&place, sides([&second.v4, &ours.v4], fibs)),
            true => self.compare_part(&place, sides([&second.v6, &ours.v6], fibs)),
        };
        if let Some(from) = from {
            self.places.push_front(Place { from, ..place });
        }
    }

    /// Compares some prefixes of a table; returns where to go on.
    fn compare_part<P: Prefix>(&mut self, place: &Place, sides: [Side<'_, P>; 2]) -> Option<usize> {
        let (tree, [second, ours]) = (place.tree, &sides);
        let (of, other) = match place.back {
            false => (second, ours),
            true => (ours, second),
        };
        let table = of.family.fib_of(tree)?;
        let (entries, next) = P::fib_part(of.fib, table, place.from, PART);
        for (prefix, id) in entries {
            if ours.family.is_linuxs((tree, prefix)) {
                continue; // whatever its tables say
            }
            let there = other.find(tree, prefix);
            let ids = match place.back {
                false => [Some(id), there],
                true if there.is_none() => [None, Some(id)],
                true => continue, // it was compared forth
            };
            let [kernel, fib] = [0, 1].map(|side: usize| {
                let id = ids[side]?;
                let text = self.texts[side].entry(id);
                Some(Arc::clone(
                    text.or_insert_with(|| describe(sides[side].fib, id).into()),
                ))
            });
            if kernel != fib {
                let name = match tree {
                    MERGED => String::new(),
                    table => format!(" of table {table}"),
                };
                self.found.push(Difference {
                    prefix: format!("{prefix}{name}"),
                    kernel: kernel.as_deref().map(str::to_owned),
                    fib: fib.as_deref().map(str::to_owned),
                });
            }
        }
        next
    }

    /// Whether what differs cannot be what has just changed.
    fn is_right(&self, ours: &Model) -> bool {
        self.found.is_empty() || ours.changes() == self.before
    }
}

fn sides<'a, P: Prefix>(
    [second, ours]: [&'a Family<P>; 2],
    fibs: [&'a FibWriter; 2],
) -> [Side<'a, P>; 2] {
    let side = |family, fib| Side { family, fib };
    [side(second, fibs[0]), side(ours, fibs[1])]
}

impl Model {
    fn trees(&self, v6: bool) -> Vec<Tree> {
        match v6 {
            false => self.v4.ribs().map(|(tree, _)| tree).collect(),
            true => self.v6.ribs().map(|(tree, _)| tree).collect(),
        }
    }
}

/// A next hop as text, its members resolved: ids of two FIBs do not compare.
fn describe(fib: &FibWriter, id: NextHopId) -> String {
    match fib.next_hop(id) {
        None => format!("next hop {id}, which does not exist"),
        Some(NextHop::Group(group)) => {
            // look up many hashes, so that weights are compared too
            let hashes = (0..=u32::MAX >> 1).step_by(1 << 25);
            let chosen: Vec<_> = hashes
                .map(|hash| describe(fib, group.select(hash)))
                .collect();
            let runs = chosen.chunk_by(|a, b| a == b);
            let runs: Vec<_> = runs
                .map(|run| format!("{}/64 {}", run.len(), run[0]))
                .collect();
            runs.join(", ")
        }
        Some(NextHop::Forward(way)) => {
            let mac = way.l2.map(|byte| format!("{byte:02x}")).concat();
            format!("port {} mtu {} frame {mac}", way.port.0, way.mtu)
        }
        Some(NextHop::Tunnel(tunnel)) => {
            let headers: String = tunnel
                .headers
                .octets()
                .iter()
                .map(|octet| format!("{octet:02x}"))
                .collect();
            format!(
                "tunnel {} mtu {} headers {headers}",
                tunnel.port.0, tunnel.mtu
            )
        }
        Some(NextHop::Punt { reason, port }) => {
            format!("kernel ({reason:?}, port {:?})", port.map(|port| port.0))
        }
        Some(NextHop::Blackhole) => "blackhole".into(),
    }
}
