//! What the rules of Linux's netfilter can do with packets in transit.
//!
//! A [`Ruleset`] is read from nftables' netlink messages and from the tables of legacy iptables; the caller has the
//! sockets. [`Ruleset::analyse`] then executes it on packets of which only a part is known: a condition holds surely,
//! never, or perhaps. When in doubt it holds perhaps, and depends on what varies.
//!
//! ```
//! use bora_ruleset::{Answer, Question, Ruleset};
//!
//! let ruleset = Ruleset::default(); // without a rule
//! let transit = ruleset.analyse(Question { v6: false, local_first: true });
//! assert_eq!(transit.established.answer(), Answer::Unconditional);
//! assert!(!transit.looks_at_conntrack);
//! ```
#![forbid(unsafe_code)]

mod bits;
mod compile;
mod expression;
mod iptables;
mod model;
mod nftables;
mod packet;
mod registers;
mod report;
mod rule;
mod text;
mod transit;
mod walk;
mod xt;

pub use bora_linux::attribute::Malformed;
pub use compile::{
    Action, Conditions, DEPTH, Decision, Entry, FIELDS, Field, Interface, MOST_BASES, MOST_ENTRIES,
    MOST_STEPS, NO_WORD, Program, Ranges, Refusal, Start,
};
pub use expression::{Bitwise, Comparison, Destination, Expression, PayloadBase, Verdict};
pub use model::{Base, Chain, Element, Family, Hook, Kind, Rule, Ruleset, Set, Table, TableKey};
pub use nftables::request;
pub use report::{Answer, ChainReport, Class, Established, Obstacle, Place, Transit};
pub use transit::Question;
