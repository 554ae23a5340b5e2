//! Walks a base chain and all that it jumps to, as nft_do_chain() does (net/netfilter/nf_tables_core.c).

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use crate::bits::forget;
use crate::expression::Verdict;
use crate::model::{Base, Table};
use crate::packet::{Packet, State};
use crate::report::Class;
use crate::rule::{Effect, Outcome, Seen, evaluate, join};

/// Chains that are entered from each other. nftables allows 16 (NFT_JUMP_STACK_SIZE), legacy iptables more.
const DEPTH: usize = 64;
/// How often a chain is walked with different marks; then the marks are forgotten.
const VARIANTS: usize = 5;

/// A rule of a chain, by their indices; without a rule the chain's policy.
pub(crate) type RulePlace = (usize, Option<usize>);

/// What decides whether a point is reached; `None` if it surely is.
type Reach = Option<Class>;

/// How a chain may end.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    /// What is known where the base chain accepts.
    accepts: Option<State>,
    /// What is known where the chain returns.
    returns: Option<State>,
    /// It may drop packets, or has effects.
    fails: bool,
    /// How the point behind it is reached.
    reach: Reach,
}

impl Ends {
    /// Whether it is all the same that the chain was entered.
    fn only_returns(&self) -> bool {
        self.accepts.is_none() && !self.fails && self.returns.is_some()
    }
}

/// A walk through one base chain.
pub(crate) struct Walk<'a> {
    table: &'a Table,
    packet: &'a Packet,
    seen: &'a mut Seen,
    known: HashMap<(usize, bool, State, Reach), Ends>,
    hopes: HashMap<(usize, bool), Rc<[bool]>>,
    hoping: Vec<usize>,
    variants: Vec<usize>,
    entered: Vec<usize>,
    /// Rules that decide something, drop packets or have effects, in the order of the walk.
    found: Vec<(RulePlace, Class)>,
    /// Those before this one matter: later ones only decide between ways that end the same.
    matter: usize,
    fails: bool,
    /// Rules that set marks.
    pub(crate) marks: BTreeSet<RulePlace>,
    /// Rules that set the priority.
    pub(crate) priorities: BTreeSet<RulePlace>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(table: &'a Table, packet: &'a Packet, seen: &'a mut Seen) -> Self {
        Self {
            table,
            packet,
            seen,
            known: HashMap::new(),
            hopes: HashMap::new(),
            hoping: Vec::new(),
            variants: vec![0; table.chains.len()],
            entered: Vec::new(),
            found: Vec::new(),
            matter: 0,
            fails: false,
            marks: BTreeSet::new(),
            priorities: BTreeSet::new(),
        }
    }

    /// Walks a base chain; returns what is known behind it, `None` if it accepts nothing.
    pub(crate) fn base(&mut self, chain: usize, base: &Base, state: State) -> Option<State> {
        let mut ends = self.enter((chain, None), (chain, base.accepts), state, None);
        let Some(returned) = ends.returns else {
            return ends.accepts;
        };
        if base.accepts {
            join(
                &mut ends.accepts,
                returned,
                ends.reach.unwrap_or(Class::Constant),
            );
        } else {
            self.fail((chain, None), Class::Constant);
        }
        ends.accepts
    }

    /// Rules that stand in the way, and on what they depend.
    pub(crate) fn obstacles(&self) -> &[(RulePlace, Class)] {
        &self.found[..self.matter]
    }

    /// A rule drops packets or has an effect.
    fn fail(&mut self, place: RulePlace, class: Class) {
        self.found.push((place, class));
        self.fails = true;
        self.matter = self.found.len();
    }

    /// Walks a chain that a rule jumps to, unless that was done with the same marks. `behind`: what returns from it may be accepted.
    fn enter(
        &mut self,
        from: RulePlace,
        (chain, behind): (usize, bool),
        mut state: State,
        reach: Reach,
    ) -> Ends {
        if self.variants[chain] >= VARIANTS {
            state = State {
                mark: forget(state.mark),
                ct_mark: forget(state.ct_mark),
            };
        }
        if let Some(&ends) = self.known.get(&(chain, behind, state, reach)) {
            if ends.fails {
                (self.fails, self.matter) = (true, self.found.len());
            }
            return ends;
        }
        if self.entered.len() >= DEPTH || self.entered.contains(&chain) {
            self.fail(from, Class::Varying); // the kernel has no loops
            return Ends {
                returns: Some(state),
                fails: true,
                reach: Some(Class::Varying),
                ..Ends::default()
            };
        }
        self.variants[chain] += 1;
        self.entered.push(chain);
        let outside = std::mem::take(&mut self.fails);
        let mut ends = self.chain((chain, behind), state, reach);
        ends.fails = self.fails;
        self.fails |= outside;
        self.entered.pop();
        self.known.insert((chain, behind, state, reach), ends);
        ends
    }

    fn chain(&mut self, (chain, behind): (usize, bool), state: State, reach: Reach) -> Ends {
        let table = self.table;
        let hopes = self.hopes(chain, behind);
        let mut ends = Ends {
            reach,
            ..Ends::default()
        };
        let mut point = Some(state);
        for (index, rule) in table.chains[chain].rules.iter().enumerate() {
            let Some(state) = point else { break };
            let place = (chain, Some(index));
            let mut outcome = evaluate(rule, table, self.packet, state, self.seen);
            // A flow comes here with all its packets or with none, and each is dropped: it is in no flowtable.
            let lost = !hopes[index] && ends.reach <= Some(Class::Constant);
            if lost {
                outcome.class = outcome.class.map(|_| Class::Constant);
            }
            self.effects(place, &outcome.effects, (ends.reach, lost));
            point = outcome.missed;
            self.verdicts(place, (&outcome, &hopes), &mut point, &mut ends);
        }
        if let Some(state) = point {
            join(
                &mut ends.returns,
                state,
                ends.reach.unwrap_or(Class::Constant),
            );
        }
        ends
    }

    /// Whether packets may be accepted that come to each rule of a chain, and to its end, whatever their marks are. `behind`:
    /// those that return from it may be.
    fn hopes(&mut self, chain: usize, behind: bool) -> Rc<[bool]> {
        if let Some(hopes) = self.hopes.get(&(chain, behind)) {
            return hopes.clone();
        }
        let rules = &self.table.chains[chain].rules;
        let mut hopes = vec![behind; rules.len() + 1];
        if self.hoping.len() >= DEPTH || self.hoping.contains(&chain) {
            hopes.fill(true);
            return hopes.into();
        }
        self.hoping.push(chain);
        for (index, rule) in rules.iter().enumerate().rev() {
            let next = hopes[index + 1];
            let mut seen = Seen::default();
            let outcome = evaluate(rule, self.table, self.packet, State::ANYTHING, &mut seen);
            hopes[index] = outcome.unknown || outcome.missed.is_some() && next;
            for verdict in &outcome.verdicts {
                hopes[index] |= match verdict {
                    Verdict::Drop => false,
                    Verdict::Return => behind,
                    Verdict::Jump(name) => self.hope(name, next),
                    Verdict::Goto(name) => self.hope(name, behind),
                    _ => true,
                };
            }
        }
        self.hoping.pop();
        let hopes: Rc<[bool]> = hopes.into();
        self.hopes.insert((chain, behind), hopes.clone());
        hopes
    }

    /// Whether packets may be accepted that come to a chain.
    fn hope(&mut self, name: &str, behind: bool) -> bool {
        let chain = self.table.find(name);
        chain.is_none_or(|chain| self.hopes(chain, behind)[0])
    }

    /// `lost`: each packet that comes here is dropped.
    fn effects(&mut self, place: RulePlace, effects: &[Effect], (reach, lost): (Reach, bool)) {
        for effect in effects {
            let is_constant = |class| Some(class).max(reach) == Some(Class::Constant);
            match *effect {
                Effect::Mark(class) if is_constant(class) => {
                    self.marks.insert(place);
                }
                Effect::Priority(class) if is_constant(class) => {
                    self.priorities.insert(place);
                }
                _ if lost => self.fail(place, Class::Constant),
                _ => self.fail(place, Class::Varying),
            }
        }
    }

    /// Follows what a rule says.
    fn verdicts(
        &mut self,
        place: RulePlace,
        (outcome, hopes): (&Outcome, &[bool]),
        point: &mut Option<State>,
        ends: &mut Ends,
    ) {
        let failed_before = std::mem::take(&mut self.fails);
        let reach = ends.reach.max(outcome.class);
        let class = reach.unwrap_or(Class::Constant);
        let (mut decides, mut behind) = (false, ends.reach);
        for verdict in &outcome.verdicts {
            let mut way = Ends::default();
            match verdict {
                Verdict::Accept => way.accepts = Some(outcome.matched),
                Verdict::Return | Verdict::Continue | Verdict::Break => {
                    join(&mut ends.returns, outcome.matched, class)
                }
                Verdict::Drop => self.fail(place, Class::Constant),
                Verdict::Queue | Verdict::Other(_) => self.fail(place, Class::Varying),
                Verdict::Jump(name) | Verdict::Goto(name) => match self.table.find(name) {
                    Some(chain) => {
                        let next = match verdict {
                            Verdict::Jump(_) => place.1.map(|index| index + 1),
                            _ => None,
                        };
                        let behind = hopes[next.unwrap_or(hopes.len() - 1)];
                        way = self.enter(place, (chain, behind), outcome.matched, reach);
                    }
                    None => self.fail(place, Class::Varying),
                },
            }
            if let Some(state) = way.accepts {
                join(&mut ends.accepts, state, class);
            }
            let to = match verdict {
                Verdict::Jump(_) => &mut *point,
                _ => &mut ends.returns,
            };
            if let Some(state) = way.returns {
                join(to, state, class);
            }
            if !(matches!(verdict, Verdict::Jump(_)) && way.only_returns()) {
                decides = true;
                behind = behind.max(way.reach).max(outcome.class);
            }
        }
        if decides {
            ends.reach = behind;
            self.found.extend(outcome.class.map(|class| (place, class)));
        }
        if self.fails {
            self.matter = self.found.len();
        }
        self.fails |= failed_before;
    }
}
