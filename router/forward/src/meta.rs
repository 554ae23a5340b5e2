//! What the stages know of one packet.

use std::fmt;

use bora_contract::Reason;
use bora_fib::PortId;

use crate::{Class, Verdict};

/// IP version of a parsed packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// What the stages know of one packet, in one word, so that vector instructions write those of many packets at
/// once. From the lowest bit: port or reason (16 bits), kind of verdict (7), family (1), class (8), length (16), input (16).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Meta(u64);

const KIND: u32 = 16;
const FAMILY: u32 = 23;
const CLASS: u32 = 24;
const LENGTH: u32 = 32;
const INPUT: u32 = 48;
/// Kind of verdict, with port or reason.
const VERDICT: u64 = (1 << FAMILY) - 1;

const FORWARD: u64 = 1 << KIND;
const PUNT: u64 = 2 << KIND;
const DROP: u64 = 3 << KIND;

/// A verdict or a class to be given, for which a packet's [`Meta`] needs no branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    keep: u64,
    set: u64,
}

impl Change {
    /// A verdict.
    pub(crate) fn verdict(verdict: Verdict) -> Self {
        Self {
            keep: !VERDICT,
            set: Meta::default().with(verdict).0,
        }
    }

    /// A class, if there is one.
    pub(crate) fn class(class: Option<Class>) -> Self {
        let class = class.map(|class| (!(0xff << CLASS), u64::from(class.0) << CLASS));
        let (keep, set) = class.unwrap_or((!0, 0));
        Self { keep, set }
    }
}

impl Meta {
    /// This value, changed.
    #[inline(always)]
    pub(crate) fn changed(self, change: Change) -> Self {
        Self(self.0 & change.keep | change.set)
    }

    /// A packet that has come in by this port or device.
    #[inline(always)]
    pub fn of(input: PortId) -> Self {
        Self(u64::from(input.0) << INPUT)
    }

    /// The port or device it came in by.
    #[inline(always)]
    pub fn input(self) -> PortId {
        PortId((self.0 >> INPUT) as u16)
    }

    /// Its input, and nothing else.
    #[inline(always)]
    pub(crate) fn unread(self) -> Self {
        Self(self.0 & !0 << INPUT)
    }

    /// Its input, and an IP packet without a verdict. `l3_length` is below 2^16, `class` below 2^8.
    #[inline(always)]
    pub(crate) fn pending(self, l3_length: u64, class: u64, family: Family) -> Self {
        let known = l3_length << LENGTH | class << CLASS | (family as u64) << FAMILY;
        Self(self.unread().0 | known)
    }

    /// This value with a verdict.
    #[inline(always)]
    #[must_use]
    pub fn with(self, verdict: Verdict) -> Self {
        let bits = match verdict {
            Verdict::Pending => 0,
            Verdict::Forward(port) => FORWARD | u64::from(port.0),
            Verdict::Punt(reason) => PUNT | reason as u64,
            Verdict::Drop(reason) => DROP | reason as u64,
        };
        Self(self.0 & !VERDICT | bits)
    }

    /// This value in another class.
    #[inline]
    #[must_use]
    pub fn in_class(self, class: Class) -> Self {
        self.changed(Change::class(Some(class)))
    }

    /// Gives it a verdict.
    #[inline(always)]
    pub fn decide(&mut self, verdict: Verdict) {
        *self = self.with(verdict);
    }

    /// What becomes of it.
    #[inline]
    pub fn verdict(self) -> Verdict {
        let number = self.0 as u16;
        let reason = || Reason::ALL[usize::from(number)];
        match self.0 & VERDICT & !0xffff {
            FORWARD => Verdict::Forward(PortId(number)),
            PUNT => Verdict::Punt(reason()),
            DROP => Verdict::Drop(reason()),
            _ => Verdict::Pending,
        }
    }

    /// Whether it has no verdict yet.
    #[inline(always)]
    pub fn is_pending(self) -> bool {
        self.0 & VERDICT == 0
    }

    /// Whether it is of this IP version and has no verdict yet.
    #[inline(always)]
    pub(crate) fn is_pending_of(self, family: Family) -> bool {
        self.0 & (VERDICT | 1 << FAMILY) == (family as u64) << FAMILY
    }

    /// Priority, 0 to 7.
    #[inline(always)]
    pub fn class(self) -> Class {
        Class((self.0 >> CLASS) as u8)
    }

    /// Octets the IP header claims, header included.
    #[inline(always)]
    pub fn l3_length(self) -> u16 {
        (self.0 >> LENGTH) as u16
    }

    /// IP version.
    #[inline(always)]
    pub fn family(self) -> Family {
        match self.0 >> FAMILY & 1 {
            0 => Family::V4,
            _ => Family::V6,
        }
    }

    /// Whether none of these packets has a verdict, nor more octets than this.
    #[inline(always)]
    pub(crate) fn may_all_leave(metas: &[Self], mtu: u16) -> bool {
        let mtu = u64::from(mtu);
        let strange = |meta: &Self| (meta.0 & VERDICT) | below(mtu, meta.l3_length().into());
        metas.iter().map(strange).fold(0, |any, one| any | one) == 0
    }

    /// Whether one of these packets has fewer octets than this.
    #[inline(always)]
    pub(crate) fn any_shorter(metas: &[Self], octets: usize) -> bool {
        let short = |meta: &Self| below(meta.l3_length().into(), octets as u64);
        metas.iter().map(short).fold(0, |any, one| any | one) != 0
    }

    /// Forwards packets that have no verdict to one port.
    #[inline(always)]
    pub(crate) fn forward_all(metas: &mut [Self], port: PortId) {
        metas
            .iter_mut()
            .for_each(|meta| meta.0 |= FORWARD | u64::from(port.0));
    }

    /// The input of all these packets, if it is one.
    #[inline]
    pub(crate) fn one_input(metas: &[Self]) -> Option<PortId> {
        let first = metas.first()?;
        let others = metas.iter().map(|meta| meta.0 ^ first.0);
        let different = others.fold(0, |any, other| any | other);
        (different >> INPUT == 0).then(|| first.input())
    }

    /// The port by which all these packets leave, if that is so.
    #[inline]
    pub(crate) fn one_port(metas: &[Self]) -> Option<PortId> {
        let first = metas.first()?;
        let Verdict::Forward(port) = first.verdict() else {
            return None;
        };
        let others = metas.iter().map(|meta| (meta.0 ^ first.0) & VERDICT);
        (others.fold(0, |any, other| any | other) == 0).then_some(port)
    }
}

/// The highest bit, if one number is below another; both are below it.
#[inline(always)]
fn below(one: u64, other: u64) -> u64 {
    one.wrapping_sub(other) & 1 << 63
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meta")
            .field("verdict", &self.verdict())
            .field("class", &self.class())
            .field("l3_length", &self.l3_length())
            .field("family", &self.family())
            .field("input", &self.input())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_keeps_its_value() {
        let port = PortId(u16::MAX);
        let reasons = Reason::ALL.into_iter();
        let verdicts = reasons.flat_map(|reason| [Verdict::Punt(reason), Verdict::Drop(reason)]);
        for verdict in verdicts.chain([Verdict::Pending, Verdict::Forward(port)]) {
            let input = Meta::of(PortId(0x8001));
            let meta = input.pending(u16::MAX.into(), 0, Family::V6).with(verdict);
            let meta = meta.in_class(Class(7)).changed(Change::verdict(verdict));
            assert_eq!((meta.verdict(), meta.class()), (verdict, Class(7)));
            assert_eq!((meta.l3_length(), meta.family()), (u16::MAX, Family::V6));
            assert_eq!((meta.input(), meta.unread()), (PortId(0x8001), input));
            assert_eq!(meta.is_pending(), verdict == Verdict::Pending);
        }
        assert_eq!(Meta::default().verdict(), Verdict::Pending);
    }

    #[test]
    fn all_may_leave_or_not() {
        let long = |length| Meta::default().pending(length, 7, Family::V4);
        assert!(Meta::may_all_leave(&[long(1500), long(20)], 1500));
        assert!(!Meta::may_all_leave(&[long(20), long(1501)], 1500));
        assert!(!Meta::may_all_leave(&[long(0xffff)], 0xfffe));
        let decided = long(20).with(Verdict::Drop(Reason::ALL[0]));
        assert!(!Meta::may_all_leave(&[long(20), decided], 1500));
        assert!(Meta::any_shorter(&[long(46), long(45)], 46));
        assert!(!Meta::any_shorter(&[long(46), long(47)], 46));
        let mut metas = [long(20), long(21)];
        Meta::forward_all(&mut metas, PortId(9));
        let expected = [20, 21].map(|length| long(length).with(Verdict::Forward(PortId(9))));
        assert_eq!(metas, expected);
    }

    #[test]
    fn one_input_of_all() {
        let of = |input| Meta::of(PortId(input)).pending(20, 0, Family::V4);
        let decided = of(7).with(Verdict::Forward(PortId(1)));
        assert_eq!(Meta::one_input(&[of(7), decided]), Some(PortId(7)));
        assert_eq!(Meta::one_input(&[of(7), of(7), of(6)]), None);
        assert_eq!(Meta::one_input(&[]), None);
    }

    #[test]
    fn one_port_of_all() {
        let to = |port| Meta::default().with(Verdict::Forward(PortId(port)));
        let high = to(1).in_class(Class::HIGH);
        assert_eq!(Meta::one_port(&[to(1), high]), Some(PortId(1)));
        assert_eq!(Meta::one_port(&[to(1), to(2)]), None);
        assert_eq!(Meta::one_port(&[to(0), Meta::default()]), None);
        assert_eq!(Meta::one_port(&[]), None);
    }
}
