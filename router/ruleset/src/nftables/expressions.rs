//! Decodes the expressions of rules.

use bora_linux::attribute::{Attribute, Malformed};

use super::{Fields, data};
use crate::expression::{Bitwise, Comparison, Destination, Expression, PayloadBase, REGISTERS};

/// One element of NFTA_RULE_EXPRESSIONS.
pub(super) fn decode(expression: &Attribute<'_>) -> Result<Expression, Malformed> {
    let fields = Fields::new(expression.nested())?;
    let name = fields.text(1)?; // NFTA_EXPR_NAME
    let fields = Fields::inside(fields.get(2))?; // NFTA_EXPR_DATA
    Ok(match name.as_str() {
        "payload" => payload(&fields)?,
        "meta" => access(
            &fields,
            (1, 2, 3), // NFTA_META_DREG, NFTA_META_KEY, NFTA_META_SREG
            |key, to| Expression::Meta { key, to },
            |key, from| Expression::MetaSet { key, from },
        )?,
        "ct" => access(
            &fields,
            (1, 2, 4), // NFTA_CT_DREG, NFTA_CT_KEY, NFTA_CT_SREG
            |key, to| Expression::Ct { key, to },
            |key, from| Expression::CtSet { key, from },
        )?,
        "cmp" => compare(&fields)?,
        "range" => range(&fields)?,
        "bitwise" => bitwise(&fields)?,
        "byteorder" => byteorder(&fields)?,
        "immediate" => immediate(&fields)?,
        "lookup" => lookup(&fields)?,
        "dynset" => Expression::DynamicSet {
            set: fields.text(1)?, // NFTA_DYNSET_SET_NAME
        },
        "objref" => Expression::Object {
            kind: fields.u32(1)?, // NFTA_OBJREF_IMM_TYPE
        },
        "fib" => Expression::Fib {
            to: register(&fields, 1, 4)?,
            result: fields.u32(2)?,
            flags: fields.u32(3)?,
        },
        "exthdr" => header_option(&fields)?,
        "hash" => hash(&fields)?,
        other => simple(other, &fields)?,
    })
}

/// Expressions of which it is enough to know what they are.
fn simple(name: &str, fields: &Fields<'_>) -> Result<Expression, Malformed> {
    let varying = |name, to| {
        let to = register(fields, to, 4)?;
        Ok(Expression::Varying { name, to })
    };
    Ok(match name {
        "counter" | "last" => Expression::Counter,
        "limit" => Expression::Limit { name: "limit" },
        "quota" => Expression::Limit { name: "quota" },
        "connlimit" => Expression::Limit { name: "ct count" },
        "log" => Expression::Log,
        "reject" => Expression::Reject,
        "queue" => Expression::Queue,
        "nat" => Expression::Nat { name: "nat" },
        "masq" => Expression::Nat { name: "masquerade" },
        "redir" => Expression::Nat { name: "redirect" },
        "notrack" => Expression::Notrack,
        "flow_offload" => Expression::FlowOffload {
            flowtable: fields.text(1)?, // NFTA_FLOW_TABLE_NAME
        },
        "tproxy" => Expression::Divert { name: "tproxy" },
        "synproxy" => Expression::Divert { name: "synproxy" },
        "dup" => Expression::Divert { name: "dup" },
        "fwd" => Expression::Divert { name: "fwd" },
        "numgen" => return varying("numgen", 1),
        "rt" => return varying("rt", 1),
        "osf" => return varying("osf", 1),
        "socket" => return varying("socket", 2),
        "tunnel" => return varying("tunnel", 2),
        "xfrm" => return varying("ipsec", 1),
        "match" | "target" => {
            let (own, revision) = (fields.text(1)?, fields.u32(2)?); // NFTA_MATCH_NAME, NFTA_MATCH_REV
            let info = fields.need(3)?.value.to_vec(); // NFTA_MATCH_INFO
            if name == "match" {
                Expression::Match {
                    name: own,
                    revision,
                    info,
                }
            } else {
                Expression::Target {
                    name: own,
                    revision,
                    info,
                }
            }
        }
        other => Expression::Unknown(other.into()),
    })
}

/// The first octet of a register's value, which has `len` octets.
fn register(fields: &Fields<'_>, kind: usize, len: usize) -> Result<usize, Malformed> {
    let from = match fields.need(kind)?.u32_be()? as usize {
        number @ 1..=4 => (number - 1) * 16, // NFT_REG_1
        number @ 8..=23 => (number - 8) * 4, // NFT_REG32_00
        _ => return Err(Malformed("nftables register")),
    };
    if len > REGISTERS - from {
        return Err(Malformed("nftables register"));
    }
    Ok(from)
}

/// A length in octets.
fn length(fields: &Fields<'_>, kind: usize) -> Result<usize, Malformed> {
    let len = fields.u32(kind)? as usize;
    (1..=REGISTERS)
        .contains(&len)
        .then_some(len)
        .ok_or(Malformed("length of a value"))
}

/// A constant that is compared with a register.
fn constant(fields: &Fields<'_>, kind: usize) -> Result<Vec<u8>, Malformed> {
    let value = data(fields.get(kind))?.value;
    match value.len() {
        1..=REGISTERS => Ok(value),
        _ => Err(Malformed("length of a value")),
    }
}

/// What either reads something into a register or sets it from one.
fn access(
    fields: &Fields<'_>,
    (dreg, key, sreg): (usize, usize, usize),
    read: impl Fn(u32, usize) -> Expression,
    write: impl Fn(u32, usize) -> Expression,
) -> Result<Expression, Malformed> {
    let key = fields.need(key)?.u32_be()?;
    if fields.get(dreg).is_some() {
        Ok(read(key, register(fields, dreg, 1)?))
    } else {
        Ok(write(key, register(fields, sreg, 1)?))
    }
}

fn payload(fields: &Fields<'_>) -> Result<Expression, Malformed> {
    if fields.get(1).is_none() {
        return Ok(Expression::PayloadWrite); // it has NFTA_PAYLOAD_SREG
    }
    let len = length(fields, 4)?;
    Ok(Expression::Payload {
        base: match fields.u32(2)? {
            0 => PayloadBase::Link,
            1 => PayloadBase::Network,
            2 => PayloadBase::Transport,
            _ => PayloadBase::Inner,
        },
        offset: fields.u32(3)?,
        len,
        to: register(fields, 1, len)?,
    })
}

fn compare(fields: &Fields<'_>) -> Result<Expression, Malformed> {
    let with = constant(fields, 3)?;
    Ok(Expression::Compare {
        from: register(fields, 1, with.len())?,
        how: match fields.u32(2)? {
            0 => Comparison::Equal,
            1 => Comparison::NotEqual,
            2 => Comparison::Less,
            3 => Comparison::LessOrEqual,
            4 => Comparison::Greater,
            5 => Comparison::GreaterOrEqual,
            _ => return Err(Malformed("nftables comparison")),
        },
        with,
    })
}

fn range(fields: &Fields<'_>) -> Result<Expression, Malformed> {
    let (low, high) = (constant(fields, 3)?, constant(fields, 4)?);
    if low.len() != high.len() {
        return Err(Malformed("nftables range"));
    }
    Ok(Expression::Range {
        from: register(fields, 1, low.len())?,
        low,
        high,
        inverted: fields.u32(2)? != 0,
    })
}

fn bitwise(fields: &Fields<'_>) -> Result<Expression, Malformed> {
    let len = length(fields, 3)?;
    let operation = match fields.u32(6)? {
        0 => {
            let (mask, xor) = (constant(fields, 4)?, constant(fields, 5)?);
            if mask.len() != len || xor.len() != len {
                return Err(Malformed("nftables mask"));
            }
            Bitwise::Mask { mask, xor }
        }
        _ => Bitwise::Other,
    };
    Ok(Expression::Bitwise {
        from: register(fields, 1, len)?,
        to: register(fields, 2, len)?,
        len,
        operation,
    })
}

fn byteorder(fields: &Fields<'_>) -> Result<Expression, Malformed> {
    let len = length(fields, 4)?;
    let size = fields.u32(5)? as usize;
    if ![2, 4, 8].contains(&size) {
        return Err(Malformed("nftables byteorder"));
    }
    Ok(Expression::ByteOrder {
        from: register(fields, 1, len)?,
        to: register(fields, 2, len)?,
        len,
        size,
    })
}

fn immediate(fields: &Fields<'_>) -> Result<Expression, Malformed> {
    let data = data(fields.get(2))?;
    Ok(match data.verdict {
        Some(verdict) => Expression::Verdict(verdict),
        None => Expression::Immediate {
            to: register(fields, 1, data.value.len())?,
            value: data.value,
        },
    })
}

fn lookup(fields: &Fields<'_>) -> Result<Expression, Malformed> {
    let to = match fields.get(3) {
        None => None,
        Some(to) if to.u32_be()? == 0 => Some(Destination::Verdict), // NFT_REG_VERDICT
        Some(_) => Some(Destination::Register(register(fields, 3, 1)?)),
    };
    Ok(Expression::Lookup {
        set: fields.text(1)?,
        from: register(fields, 2, 1)?,
        to,
        inverted: fields.u32(5)? & 1 != 0, // NFT_LOOKUP_F_INV
    })
}

fn header_option(fields: &Fields<'_>) -> Result<Expression, Malformed> {
    const NFT_EXTHDR_OP_IPV6: u32 = 0;
    if fields.get(1).is_none() {
        return Ok(Expression::OptionWrite); // it has NFTA_EXTHDR_SREG, or removes an option
    }
    let len = length(fields, 4)?;
    Ok(Expression::HeaderOption {
        ipv6: fields.u32(6)? == NFT_EXTHDR_OP_IPV6,
        to: register(fields, 1, len)?,
        len,
    })
}

fn hash(fields: &Fields<'_>) -> Result<Expression, Malformed> {
    const NFT_HASH_SYM: u32 = 1;
    let to = register(fields, 2, 4)?;
    if fields.u32(7)? == NFT_HASH_SYM {
        return Ok(Expression::Varying {
            name: "symhash",
            to,
        });
    }
    let len = length(fields, 3)?;
    Ok(Expression::Hash {
        from: register(fields, 1, len)?,
        len,
        to,
    })
}
