//! Evaluates one rule on a packet of which a part is known.

use crate::bits::{Byte, Truth, between, class};
use crate::expression::{Destination, Expression, Verdict};
use crate::model::{Rule, Set, Table};
use crate::packet::{Packet, State, Value};
use crate::registers::{Found, Registers, unknown};
use crate::report::Class;
use crate::xt::{self, Action};

const NFT_META_PRIORITY: u32 = 2;
const NFT_META_MARK: u32 = 3;
const NFT_CT_MARK: u32 = 3;

/// What a rule does beside its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It sets a mark; whether it does, and to what, depends on the class.
    Mark(Class),
    /// It sets the priority in the same way.
    Priority(Class),
    /// Anything else.
    Other,
}

/// What rules look at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) conntrack: bool,
    pub(crate) reads_ct_mark: bool,
    pub(crate) writes_ct_mark: bool,
    pub(crate) fib: bool,
}

/// What may happen at a rule.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Verdicts of which one is reached if the rule matches.
    pub(crate) verdicts: Vec<Verdict>,
    /// What is known where it matches.
    pub(crate) matched: State,
    /// What is known where the next rule is evaluated; `None` if it surely is not.
    pub(crate) missed: Option<State>,
    /// What decides which of these it is; `None` if there is only one.
    pub(crate) class: Option<Class>,
    pub(crate) effects: Vec<Effect>,
    /// Anything else may happen, too.
    pub(crate) unknown: bool,
}

impl State {
    /// What is known if it is this one or the other one.
    pub(crate) fn or(&self, other: &Self, class: Class) -> Self {
        let either =
            |a: &[Byte; 4], b: &[Byte; 4]| std::array::from_fn(|at| a[at].or(b[at], class));
        Self {
            mark: either(&self.mark, &other.mark),
            ct_mark: either(&self.ct_mark, &other.ct_mark),
        }
    }
}

/// Joins what is known on a further way.
pub(crate) fn join(one: &mut Option<State>, other: State, class: Class) {
    *one = Some(match one {
        Some(state) => state.or(&other, class),
        None => other,
    });
}

/// The state of an evaluation.
struct Evaluation<'a> {
    packet: &'a Packet,
    table: &'a Table,
    registers: Registers,
    /// Whether this point is reached.
    truth: Truth,
    state: State,
    missed: Option<State>,
    verdicts: Vec<Verdict>,
    effects: Vec<Effect>,
    unknown: bool,
    seen: &'a mut Seen,
}

/// Evaluates a rule.
pub(crate) fn evaluate(
    rule: &Rule,
    table: &Table,
    packet: &Packet,
    state: State,
    seen: &mut Seen,
) -> Outcome {
    let mut evaluation = Evaluation {
        packet,
        table,
        registers: Registers::default(),
        truth: Truth::Surely,
        state,
        missed: None,
        verdicts: Vec::new(),
        effects: Vec::new(),
        unknown: false,
        seen,
    };
    for expression in &rule.expressions {
        if !evaluation.step(expression) {
            break;
        }
    }
    evaluation.outcome()
}

impl Evaluation<'_> {
    fn outcome(mut self) -> Outcome {
        let class = match self.truth {
            Truth::Perhaps(class) => Some(class),
            Truth::Surely | Truth::Never => None,
        };
        if self.truth != Truth::Never && self.verdicts.is_empty() {
            join(
                &mut self.missed,
                self.state,
                class.unwrap_or(Class::Constant),
            );
        }
        Outcome {
            verdicts: self.verdicts,
            matched: self.state,
            missed: self.missed,
            class,
            effects: self.effects,
            unknown: self.unknown,
        }
    }

    /// Evaluates an expression; `false` if no further one is reached.
    fn step(&mut self, expression: &Expression) -> bool {
        match expression {
            Expression::Payload {
                base,
                offset,
                len,
                to,
            } => {
                let value = self.packet.payload(*base, *offset, *len);
                self.load(*to, value)
            }
            Expression::Meta { key, to } => self.load(*to, self.packet.meta(*key, &self.state)),
            Expression::Ct { key, to } => {
                self.seen.conntrack = true;
                self.seen.reads_ct_mark |= *key == NFT_CT_MARK;
                self.load(*to, self.packet.ct(*key, &self.state))
            }
            Expression::Fib { result, flags, to } => {
                self.seen.fib = true;
                self.load(*to, self.packet.fib(*result, *flags))
            }
            Expression::HeaderOption { ipv6, to, len } => {
                self.load(*to, self.packet.option(*ipv6, *len))
            }
            Expression::Varying { name, to } => {
                self.seen.conntrack |= *name == "socket";
                self.load(*to, Value::varying(16))
            }
            Expression::Immediate { to, value } => {
                self.registers.constant(*to, value);
                true
            }
            Expression::Compare { from, how, with } => {
                self.holds(self.registers.compare(*from, *how, with))
            }
            Expression::Range {
                from,
                low,
                high,
                inverted,
            } => {
                let bytes = &self.registers.bytes[*from..*from + low.len()];
                self.holds(between(bytes, low, high).inverted_if(*inverted))
            }
            Expression::Bitwise {
                from,
                to,
                len,
                operation,
            } => {
                self.registers.bitwise(*from, *to, *len, operation);
                true
            }
            Expression::ByteOrder {
                from,
                to,
                len,
                size,
            } => {
                self.registers.byteorder(*from, *to, *len, *size);
                true
            }
            Expression::Hash { from, len, to } => {
                let byte = unknown(class(&self.registers.bytes[*from..*from + *len]));
                self.registers.store(*to, &[byte; 4], None);
                true
            }
            Expression::Lookup {
                set,
                from,
                to,
                inverted,
            } => self.lookup(set, *from, *to, *inverted),
            Expression::Verdict(verdict) => self.verdict(verdict),
            other => self.act(other),
        }
    }

    /// Expressions that do not work on registers.
    fn act(&mut self, expression: &Expression) -> bool {
        match expression {
            Expression::Counter => true,
            Expression::Limit { name } => {
                self.seen.conntrack |= *name == "ct count";
                self.holds(Truth::VARYING)
            }
            Expression::MetaSet { key, from } => self.set_meta(*key, *from),
            Expression::CtSet { key, from } => self.set_ct(*key, *from),
            Expression::Object { kind } => self.object(*kind),
            Expression::Reject => self.verdict(&Verdict::Drop),
            Expression::Queue => self.verdict(&Verdict::Queue),
            Expression::Nat { .. } => {
                self.seen.conntrack = true;
                self.other() && self.verdict(&Verdict::Accept)
            }
            Expression::Notrack => self.packet.tracked || self.other(),
            Expression::FlowOffload { .. } => {
                self.seen.conntrack = true;
                (self.packet.is_flow() || self.other()) && self.holds(Truth::VARYING)
            }
            Expression::Divert { .. } => {
                self.seen.conntrack = true;
                self.other() && self.holds(Truth::VARYING)
            }
            Expression::Log | Expression::PayloadWrite | Expression::OptionWrite => self.other(),
            Expression::DynamicSet { .. } => self.other() && self.holds(Truth::VARYING),
            Expression::Match {
                name,
                revision,
                info,
            } => {
                let found = xt::matches(self.packet, &self.state, (name, *revision), info);
                self.seen.conntrack |= found.conntrack;
                self.seen.reads_ct_mark |= found.reads_ct_mark;
                self.seen.fib |= found.fib;
                (!found.has_effect || self.other()) && self.holds(found.truth)
            }
            Expression::Target {
                name,
                revision,
                info,
            } => self.target(xt::target(
                self.packet,
                &self.state,
                (name, *revision),
                info,
            )),
            _ => self.unknown(),
        }
    }

    /// A target of iptables.
    fn target(&mut self, action: Action) -> bool {
        match action {
            Action::Nothing => true,
            Action::Drop => self.verdict(&Verdict::Drop),
            Action::Other => self.other(),
            Action::Translate => {
                self.seen.conntrack = true;
                self.other() && self.verdict(&Verdict::Accept)
            }
            Action::Conntrack => {
                self.seen.conntrack = true;
                self.packet.tracked || self.other()
            }
            Action::Mark(value) => {
                self.state.mark = value;
                self.set(Effect::Mark, &value)
            }
            Action::Restore(value) => {
                self.seen.conntrack = true;
                self.seen.reads_ct_mark = true;
                self.state.mark = value;
                self.set(Effect::Mark, &value)
            }
            Action::Save(value) => {
                self.seen.conntrack = true;
                self.seen.writes_ct_mark = true;
                self.state.ct_mark = value;
                self.set(Effect::Mark, &value)
            }
            Action::Priority => self.set(Effect::Priority, &[]),
            Action::Unknown => self.unknown(),
        }
    }

    /// Anything may happen.
    fn unknown(&mut self) -> bool {
        self.seen.conntrack = true;
        (self.seen.reads_ct_mark, self.seen.writes_ct_mark) = (true, true);
        self.registers = Registers::default();
        self.state = State::ANYTHING;
        self.unknown = true;
        self.other() && self.holds(Truth::VARYING)
    }

    /// The rule goes on only if a condition holds.
    fn holds(&mut self, condition: Truth) -> bool {
        match condition {
            Truth::Surely => {}
            Truth::Perhaps(class) => join(&mut self.missed, self.state, class),
            Truth::Never => {
                let class = self.reached();
                join(&mut self.missed, self.state, class);
            }
        }
        self.truth = self.truth.and(condition);
        self.truth != Truth::Never
    }

    fn load(&mut self, to: usize, value: Value) -> bool {
        self.registers.store(to, &value.bytes, value.hint);
        self.holds(value.readable)
    }

    fn verdict(&mut self, verdict: &Verdict) -> bool {
        match verdict {
            Verdict::Continue => true,
            Verdict::Break => self.holds(Truth::Never),
            verdict => {
                self.verdicts.push(verdict.clone());
                false
            }
        }
    }

    /// An effect other than marks and the priority.
    fn other(&mut self) -> bool {
        self.effects.push(Effect::Other);
        true
    }

    /// A mark or the priority is set to a value.
    fn set(&mut self, what: fn(Class) -> Effect, value: &[Byte]) -> bool {
        let class = self.reached().max(class(value));
        self.effects.push(what(class));
        true
    }

    /// What decides whether this point is reached.
    fn reached(&self) -> Class {
        match self.truth {
            Truth::Perhaps(class) => class,
            _ => Class::Constant,
        }
    }

    fn set_meta(&mut self, key: u32, from: usize) -> bool {
        let value = self.registers.slot(from);
        match key {
            NFT_META_MARK => {
                self.state.mark = value;
                self.set(Effect::Mark, &value)
            }
            NFT_META_PRIORITY => self.set(Effect::Priority, &value),
            _ => self.other(),
        }
    }

    fn set_ct(&mut self, key: u32, from: usize) -> bool {
        self.seen.conntrack = true;
        if key != NFT_CT_MARK {
            return self.other();
        }
        let value = self.registers.slot(from);
        self.seen.writes_ct_mark = true;
        self.state.ct_mark = value;
        self.set(Effect::Mark, &value)
    }

    /// NFT_OBJECT_*
    fn object(&mut self, kind: u32) -> bool {
        match kind {
            1 => true,                           // counter
            2 | 4 => self.holds(Truth::VARYING), // quota, limit
            // helper, timeout: only before a connection is confirmed
            3 | 7 => {
                self.seen.conntrack = true;
                self.packet.is_flow() || self.other()
            }
            _ => self.unknown(),
        }
    }

    fn lookup(&mut self, name: &str, from: usize, to: Option<Destination>, inverted: bool) -> bool {
        let Some(set) = self.table.sets.get(name) else {
            return self.unknown();
        };
        let found = self.registers.find(from, set);
        match to {
            None => self.holds(found.truth.inverted_if(inverted)),
            Some(Destination::Register(to)) => {
                let class = class(self.registers.key(from, set)).max(found.class);
                self.registers.store(to, &[unknown(class); 16], None);
                self.holds(found.truth.and(Truth::Perhaps(class)))
            }
            Some(Destination::Verdict) if set.elements.is_none() || set.dynamic => self.unknown(),
            Some(Destination::Verdict) => self.verdict_map(set, found),
        }
    }

    fn verdict_map(&mut self, set: &Set, found: Found) -> bool {
        let mut verdicts = found
            .verdicts
            .unwrap_or_else(|| set.possible.iter().cloned().collect());
        if !self.holds(found.truth) {
            return false;
        }
        if let [verdict] = &*verdicts {
            return self.verdict(&verdict.clone());
        }
        self.truth = self.truth.and(Truth::Perhaps(found.class));
        let goes_on = verdicts
            .iter()
            .any(|it| matches!(it, Verdict::Continue | Verdict::Break));
        if goes_on {
            join(&mut self.missed, self.state, found.class);
        }
        verdicts.retain(|it| !matches!(it, Verdict::Continue | Verdict::Break));
        self.verdicts.extend(verdicts);
        if goes_on {
            self.unknown(); // what would follow is not looked at; nft writes nothing there
        }
        false
    }
}
