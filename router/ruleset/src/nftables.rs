//! Reads nftables' messages (include/uapi/linux/netfilter/nf_tables.h).

mod expressions;
pub mod request;

use bora_linux::attribute::{Attribute, Attributes, Malformed, attributes, header};

use crate::expression::{Expression, Verdict};
use crate::model::{Base, Element, Family, Hook, Kind, Rule, Ruleset, Set, Table, TableKey};

/// Length of struct nfgenmsg.
const HEADER: usize = 4;
const NFT_NEWTABLE: u16 = 10 << 8;
const NFT_NEWCHAIN: u16 = (10 << 8) | 3;
const NFT_NEWRULE: u16 = (10 << 8) | 6;
const NFT_NEWSET: u16 = (10 << 8) | 9;
const NFT_NEWSETELEM: u16 = (10 << 8) | 12;
const NFT_TABLE_F_DORMANT: u32 = 1;
const NFT_SET_ANONYMOUS: u32 = 0x1;
const NFT_SET_INTERVAL: u32 = 0x4;
const NFT_SET_MAP: u32 = 0x8;
const NFT_SET_TIMEOUT: u32 = 0x10;
const NFT_SET_EVAL: u32 = 0x20;
const NFT_DATA_VERDICT: u32 = 0xffff_ff00;
const NFT_SET_ELEM_INTERVAL_END: u32 = 1;
const NFT_SET_ELEM_CATCHALL: u32 = 2;
const NF_ACCEPT: u32 = 1;

/// The attributes of a message or a nested attribute, by their type.
struct Fields<'a>([Option<Attribute<'a>>; 20]);

impl<'a> Fields<'a> {
    fn new(attributes: Attributes<'a>) -> Result<Self, Malformed> {
        let mut fields = [None; 20];
        for attribute in attributes {
            let attribute = attribute?;
            if let Some(field) = fields.get_mut(usize::from(attribute.kind)) {
                *field = Some(attribute);
            }
        }
        Ok(Self(fields))
    }

    fn inside(attribute: Option<&Attribute<'a>>) -> Result<Self, Malformed> {
        match attribute {
            Some(attribute) => Self::new(attribute.nested()),
            None => Ok(Self([None; 20])),
        }
    }

    fn get(&self, kind: usize) -> Option<&Attribute<'a>> {
        self.0[kind].as_ref()
    }

    fn need(&self, kind: usize) -> Result<&Attribute<'a>, Malformed> {
        self.get(kind).ok_or(Malformed("nftables message"))
    }

    /// A number in network order, 0 if it is not there.
    fn u32(&self, kind: usize) -> Result<u32, Malformed> {
        self.get(kind).map_or(Ok(0), Attribute::u32_be)
    }

    fn text(&self, kind: usize) -> Result<String, Malformed> {
        Ok(self.need(kind)?.text())
    }
}

impl Ruleset {
    /// Reads a message that a dump has given: its type (struct nlmsghdr) and what follows that header. Tables, chains,
    /// rules, sets and elements are taken, in any order; rules of a chain in their own order.
    ///
    /// # Errors
    /// The message's lengths contradict each other, or something that it must have is missing.
    pub fn read(&mut self, kind: u16, payload: &[u8]) -> Result<(), Malformed> {
        if !matches!(
            kind,
            NFT_NEWTABLE | NFT_NEWCHAIN | NFT_NEWRULE | NFT_NEWSET | NFT_NEWSETELEM
        ) {
            return Ok(());
        }
        let family = Family::new(header(payload, HEADER, "nftables message")?[0]);
        let fields = Fields::new(attributes(payload, HEADER))?;
        let key = TableKey {
            family,
            name: fields.text(1)?, // NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE, …
            legacy: false,
        };
        let table = self.tables.entry(key).or_default();
        match kind {
            NFT_NEWTABLE => table.dormant = fields.u32(2)? & NFT_TABLE_F_DORMANT != 0,
            NFT_NEWCHAIN => chain(table, family, &fields)?,
            NFT_NEWRULE => rule(table, &fields)?,
            NFT_NEWSET => set(table, &fields)?,
            _ => elements(table, &fields)?,
        }
        Ok(())
    }
}

fn chain(table: &mut Table, family: Family, fields: &Fields<'_>) -> Result<(), Malformed> {
    let index = table.chain(&fields.text(3)?); // NFTA_CHAIN_NAME
    let Some(hook) = fields.get(4) else {
        return Ok(()); // NFTA_CHAIN_HOOK
    };
    let hook = Fields::new(hook.nested())?;
    let number = hook.need(1)?.u32_be()?; // NFTA_HOOK_HOOKNUM
    let place = Hook::new(family, number);
    if place.is_none() && !matches!(family, Family::Other(_)) {
        return Err(Malformed("nftables hook"));
    }
    let mut devices: Vec<String> = hook.get(3).iter().map(|one| one.text()).collect(); // NFTA_HOOK_DEV
    for device in hook.get(4).iter().flat_map(|list| list.nested()) {
        let device = device?; // NFTA_HOOK_DEVS
        devices.push(match device.kind {
            2 => device.text() + "*", // NFTA_DEVICE_PREFIX
            _ => device.text(),
        });
    }
    devices.sort();
    devices.dedup();
    table.chains[index].base = Some(Base {
        hook: place,
        priority: hook.u32(2)?.cast_signed(), // NFTA_HOOK_PRIORITY
        // NFTA_CHAIN_POLICY
        accepts: fields.get(5).map_or(Ok(NF_ACCEPT), Attribute::u32_be)? == NF_ACCEPT,
        kind: match fields.get(7).map(Attribute::text).as_deref() {
            Some("filter") => Kind::Filter, // NFTA_CHAIN_TYPE
            Some("nat") => Kind::Nat,
            Some("route") => Kind::Route,
            _ => Kind::Other,
        },
        devices,
    });
    Ok(())
}

fn rule(table: &mut Table, fields: &Fields<'_>) -> Result<(), Malformed> {
    let mut made = Vec::new();
    for expression in fields.get(4).iter().flat_map(|list| list.nested()) {
        let decoded = expressions::decode(&expression?)?; // NFTA_RULE_EXPRESSIONS
        if let Expression::DynamicSet { set } = &decoded {
            // Linux does not ask for NFT_SET_EVAL
            table.sets.entry(set.clone()).or_default().dynamic = true;
        }
        made.push(decoded);
    }
    let handle = fields.get(3).map_or(Ok(0), Attribute::u64_be)?; // NFTA_RULE_HANDLE
    let index = table.chain(&fields.text(2)?); // NFTA_RULE_CHAIN
    table.chains[index].rules.push(Rule {
        handle,
        expressions: made,
    });
    Ok(())
}

fn set(table: &mut Table, fields: &Fields<'_>) -> Result<(), Malformed> {
    let flags = fields.u32(3)?; // NFTA_SET_FLAGS
    let set = table.sets.entry(fields.text(2)?).or_default();
    set.anonymous = flags & NFT_SET_ANONYMOUS != 0;
    set.interval = flags & NFT_SET_INTERVAL != 0;
    set.verdicts = flags & NFT_SET_MAP != 0 && fields.u32(6)? == NFT_DATA_VERDICT;
    set.dynamic |= flags & (NFT_SET_TIMEOUT | NFT_SET_EVAL) != 0
        || has_limit(fields.get(17))?
        || has_limits(fields.get(18))?;
    set.key_len = fields.u32(5)? as usize; // NFTA_SET_KEY_LEN
    set.size = Fields::inside(fields.get(9))?.u32(1)?; // NFTA_SET_DESC, NFTA_SET_DESC_SIZE
    Ok(())
}

/// Whether an expression that belongs to elements does more than count.
fn has_limit(expression: Option<&Attribute<'_>>) -> Result<bool, Malformed> {
    let name = Fields::inside(expression)?;
    Ok(name
        .get(1)
        .is_some_and(|name| !["counter", "last"].contains(&name.text().as_str())))
}

fn has_limits(list: Option<&Attribute<'_>>) -> Result<bool, Malformed> {
    for expression in list.iter().flat_map(|list| list.nested()) {
        if has_limit(Some(&expression?))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn elements(table: &mut Table, fields: &Fields<'_>) -> Result<(), Malformed> {
    let set = table.sets.entry(fields.text(2)?).or_default(); // NFTA_SET_ELEM_LIST_SET
    let mut found = set.elements.take().unwrap_or_default();
    for element in fields.get(3).iter().flat_map(|list| list.nested()) {
        found.extend(element_of(set, &Fields::new(element?.nested())?)?);
    }
    set.elements = Some(found);
    Ok(())
}

/// Adds to what the set may say; returns the element, unless it is the end of a range.
fn element_of(set: &mut Set, fields: &Fields<'_>) -> Result<Option<Element>, Malformed> {
    let flags = fields.u32(3)?; // NFTA_SET_ELEM_FLAGS
    if flags & NFT_SET_ELEM_INTERVAL_END != 0 {
        set.ends.push(data(fields.get(1))?.value);
        return Ok(None);
    }
    // NFTA_SET_ELEM_TIMEOUT, NFTA_SET_ELEM_EXPR, NFTA_SET_ELEM_EXPRESSIONS
    set.dynamic |=
        fields.get(4).is_some() || has_limit(fields.get(7))? || has_limits(fields.get(11))?;
    let (key, verdict) = (data(fields.get(1))?.value, data(fields.get(2))?.verdict);
    let catches_all = flags & NFT_SET_ELEM_CATCHALL != 0;
    set.catches_all |= catches_all;
    set.possible.extend(verdict.clone());
    let key = if catches_all { None } else { Some(key) };
    let last = fields.get(10).map(|end| data(Some(end))).transpose()?; // NFTA_SET_ELEM_KEY_END
    let last = last.map(|end| end.value);
    Ok(Some(Element { key, last, verdict }))
}

/// A constant: octets, or a verdict.
struct Data {
    value: Vec<u8>,
    verdict: Option<Verdict>,
}

fn data(attribute: Option<&Attribute<'_>>) -> Result<Data, Malformed> {
    let fields = Fields::inside(attribute)?;
    let value = fields.get(1).map_or(&[][..], |value| value.value); // NFTA_DATA_VALUE
    let verdict = fields.get(2).map(verdict).transpose()?; // NFTA_DATA_VERDICT
    Ok(Data {
        value: value.to_vec(),
        verdict,
    })
}

fn verdict(attribute: &Attribute<'_>) -> Result<Verdict, Malformed> {
    let fields = Fields::new(attribute.nested())?;
    let code = fields.need(1)?.u32_be()?.cast_signed(); // NFTA_VERDICT_CODE
    Ok(match code {
        0 => Verdict::Drop,
        1 => Verdict::Accept,
        -1 => Verdict::Continue,
        -2 => Verdict::Break,
        -3 => Verdict::Jump(fields.text(2)?), // NFTA_VERDICT_CHAIN
        -4 => Verdict::Goto(fields.text(2)?),
        -5 => Verdict::Return,
        code if code & 0xff == 0 => Verdict::Drop, // with an errno
        code if code & 0xff == 3 => Verdict::Queue,
        code => Verdict::Other(code),
    })
}
