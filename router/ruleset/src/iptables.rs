//! Reads the tables of legacy iptables (include/uapi/linux/netfilter_ipv4/ip_tables.h and the same of IPv6).

use std::collections::{HashMap, HashSet};

use bora_linux::attribute::Malformed;

use crate::expression::{Comparison, Expression, PayloadBase, Verdict};
use crate::model::{Base, Chain, Family, Hook, Kind, Rule, Ruleset, TableKey};

/// Registers that rules use in between.
const REGISTER: usize = 0;
/// struct xt_entry_match and struct xt_entry_target, without their data.
const HEAD: usize = 32;
const XT_FUNCTION_MAXNAMELEN: usize = 29;
const HOOKS: [Hook; 5] = [
    Hook::Prerouting,
    Hook::Input,
    Hook::Forward,
    Hook::Output,
    Hook::Postrouting,
];

impl Ruleset {
    /// Reads a table: its name, struct ipt_getinfo or ip6t_getinfo (IPT_SO_GET_INFO), and `entrytable` of struct
    /// ipt_get_entries or ip6t_get_entries (IPT_SO_GET_ENTRIES).
    ///
    /// # Errors
    /// Lengths or offsets contradict each other.
    pub fn read_iptables(
        &mut self,
        v6: bool,
        table: &str,
        info: &[u8],
        entries: &[u8],
    ) -> Result<(), Malformed> {
        let key = TableKey {
            family: if v6 { Family::Ip6 } else { Family::Ip },
            name: table.into(),
            legacy: true,
        };
        let blob = Blob {
            layout: if v6 { &V6 } else { &V4 },
            octets: Octets(entries),
        };
        let chains = blob.chains(table, &Octets(info))?;
        let made = self.tables.entry(key).or_default();
        for chain in chains {
            let index = made.chain(&chain.name);
            made.chains[index] = chain;
        }
        Ok(())
    }
}

struct Octets<'a>(&'a [u8]);

impl<'a> Octets<'a> {
    fn slice(&self, at: usize, len: usize) -> Result<&'a [u8], Malformed> {
        let end = at.checked_add(len).ok_or(Malformed("iptables entry"))?;
        self.0.get(at..end).ok_or(Malformed("iptables entry"))
    }

    fn u8(&self, at: usize) -> Result<u8, Malformed> {
        Ok(self.slice(at, 1)?[0])
    }

    fn u16(&self, at: usize) -> Result<usize, Malformed> {
        let octets = self.slice(at, 2)?;
        Ok(usize::from(u16::from_ne_bytes([octets[0], octets[1]])))
    }

    fn u32(&self, at: usize) -> Result<u32, Malformed> {
        let octets = self.slice(at, 4)?;
        Ok(u32::from_ne_bytes([
            octets[0], octets[1], octets[2], octets[3],
        ]))
    }

    fn text(&self, at: usize, len: usize) -> Result<String, Malformed> {
        let octets = self.slice(at, len)?;
        let end = octets.iter().position(|&octet| octet == 0).unwrap_or(len);
        Ok(String::from_utf8_lossy(&octets[..end]).into_owned())
    }
}

/// Where the fields of struct ipt_entry or ip6t_entry are.
struct Layout {
    address: usize,
    /// Where the addresses are in the IP header.
    header: [u32; 2],
    interfaces: usize,
    protocol: usize,
    flags: usize,
    inverted: usize,
    target: usize,
    entry: usize,
    /// The flag that says whether the protocol counts; 0: any but 0 counts.
    has_protocol: u8,
    /// The flag for fragments behind the first.
    fragment: u8,
    goto: u8,
}

const V4: Layout = Layout {
    address: 4,
    header: [12, 16],
    interfaces: 16,
    protocol: 80,
    flags: 82,
    inverted: 83,
    target: 88,
    entry: 112,
    has_protocol: 0,
    fragment: 1, // IPT_F_FRAG
    goto: 2,     // IPT_F_GOTO
};
const V6: Layout = Layout {
    address: 16,
    header: [8, 24],
    interfaces: 64,
    protocol: 128,
    flags: 131,
    inverted: 132,
    target: 140,
    entry: 168,
    has_protocol: 1, // IP6T_F_PROTO
    fragment: 0,
    goto: 4, // IP6T_F_GOTO
};
const INV_VIA_IN: u8 = 0x01;
const INV_VIA_OUT: u8 = 0x02;
const INV_SRCIP: u8 = 0x08;
const INV_DSTIP: u8 = 0x10;
const INV_FRAG: u8 = 0x20;
const INV_PROTO: u8 = 0x40;

/// An entry: where it begins, and what it holds.
struct Entry {
    at: usize,
    end: usize,
    expressions: Vec<Expression>,
    end_of: End,
}

/// What is at the end of an entry.
enum End {
    /// It begins a chain of this name.
    Head(String),
    Verdict(Verdict),
    /// To the entry at this offset, and back unless it is a goto.
    Jump {
        to: usize,
        goto: bool,
    },
    /// A target that is not a verdict.
    Target,
}

struct Blob<'a> {
    layout: &'static Layout,
    octets: Octets<'a>,
}

impl Blob<'_> {
    fn chains(&self, table: &str, info: &Octets<'_>) -> Result<Vec<Chain>, Malformed> {
        let valid = info.u32(32)?;
        let mut starts = HashMap::new();
        let mut policies = HashSet::new();
        let mut chains = Vec::new();
        for (number, hook) in HOOKS.into_iter().enumerate() {
            if valid & 1 << number != 0 {
                let (start, policy) = (info.u32(36 + 4 * number)?, info.u32(56 + 4 * number)?);
                starts.insert(start as usize, builtin(table, hook));
                policies.insert(policy as usize);
            }
        }
        let entries = self.entries()?;
        let names = names(&entries, &starts);
        for entry in entries {
            if let Some(chain) = starts.remove(&entry.at) {
                chains.push(chain);
            }
            if let End::Head(name) = entry.end_of {
                chains.push(Chain {
                    name,
                    ..Chain::default()
                });
                continue;
            }
            let chain: &mut Chain = chains.last_mut().ok_or(Malformed("iptables chain"))?;
            let verdict = match &entry.end_of {
                End::Verdict(verdict) => Some(verdict.clone()),
                End::Jump { to, .. } if *to == entry.end => None, // the next rule
                End::Jump { to, goto } => {
                    let name = names.get(to).ok_or(Malformed("iptables jump"))?.clone();
                    Some(if *goto {
                        Verdict::Goto(name)
                    } else {
                        Verdict::Jump(name)
                    })
                }
                End::Head(_) | End::Target => None,
            };
            if policies.contains(&entry.at)
                && let Some(base) = &mut chain.base
            {
                base.accepts = verdict == Some(Verdict::Accept);
                continue;
            }
            let mut expressions = entry.expressions;
            expressions.extend(verdict.map(Expression::Verdict));
            chain.rules.push(Rule {
                handle: 0,
                expressions,
            });
        }
        Ok(chains)
    }

    fn entries(&self) -> Result<Vec<Entry>, Malformed> {
        let (mut at, mut entries) = (0, Vec::new());
        while at < self.octets.0.len() {
            let entry = self.entry(at)?;
            at = entry.end;
            entries.push(entry);
        }
        Ok(entries)
    }

    fn entry(&self, at: usize) -> Result<Entry, Malformed> {
        let layout = self.layout;
        let target = self.octets.u16(at + layout.target)?;
        let next = self.octets.u16(at + layout.target + 2)?;
        if target < layout.entry || next < target + HEAD {
            return Err(Malformed("iptables entry"));
        }
        self.octets.slice(at, next)?;
        let mut expressions = self.header(at)?;
        let mut from = layout.entry;
        while from < target {
            let (size, name, revision) = self.extension(at + from)?;
            if size > target - from {
                return Err(Malformed("iptables match"));
            }
            let info = self.octets.slice(at + from + HEAD, size - HEAD)?.to_vec();
            expressions.push(Expression::Match {
                name,
                revision,
                info,
            });
            from += size;
        }
        let (size, name, revision) = self.extension(at + target)?;
        if size > next - target {
            return Err(Malformed("iptables target"));
        }
        let data = at + target + HEAD;
        let end_of = match name.as_str() {
            "" => self.standard(at, data)?,
            "ERROR" => End::Head(self.octets.text(data, size - HEAD)?),
            _ => {
                let info = self.octets.slice(data, size - HEAD)?.to_vec();
                expressions.push(Expression::Target {
                    name,
                    revision,
                    info,
                });
                End::Target
            }
        };
        Ok(Entry {
            at,
            end: at + next,
            expressions,
            end_of,
        })
    }

    /// The size, name and revision of a match or target.
    fn extension(&self, at: usize) -> Result<(usize, String, u32), Malformed> {
        let size = self.octets.u16(at)?;
        let name = self.octets.text(at + 2, XT_FUNCTION_MAXNAMELEN)?;
        let revision = self.octets.u8(at + 2 + XT_FUNCTION_MAXNAMELEN)?;
        if size < HEAD {
            return Err(Malformed("iptables match or target"));
        }
        Ok((size, name, u32::from(revision)))
    }

    /// struct xt_standard_target
    fn standard(&self, at: usize, data: usize) -> Result<End, Malformed> {
        const NF_DROP: i32 = -1; // -NF_x - 1
        const NF_ACCEPT: i32 = -2;
        const NF_QUEUE: i32 = -4;
        const XT_RETURN: i32 = -5;
        let goto = self.octets.u8(at + self.layout.flags)? & self.layout.goto != 0;
        Ok(match self.octets.u32(data)?.cast_signed() {
            NF_DROP => End::Verdict(Verdict::Drop),
            NF_ACCEPT => End::Verdict(Verdict::Accept),
            NF_QUEUE => End::Verdict(Verdict::Queue),
            XT_RETURN => End::Verdict(Verdict::Return),
            code if code < 0 => End::Verdict(Verdict::Other(code)),
            to => End::Jump {
                to: to as usize,
                goto,
            },
        })
    }

    /// struct ipt_ip or struct ip6t_ip6, as expressions of nftables.
    fn header(&self, at: usize) -> Result<Vec<Expression>, Malformed> {
        let layout = self.layout;
        let inverted = self.octets.u8(at + layout.inverted)?;
        let how = |flag: u8| match inverted & flag {
            0 => Comparison::Equal,
            _ => Comparison::NotEqual,
        };
        let mut made = Vec::new();
        for (number, flag) in [(0, INV_SRCIP), (1, INV_DSTIP)] {
            let len = layout.address;
            let address = self.octets.slice(at + number * len, len)?;
            let mask = self.octets.slice(at + (2 + number) * len, len)?;
            let read = Expression::Payload {
                base: PayloadBase::Network,
                offset: layout.header[number],
                len,
                to: REGISTER,
            };
            compare(&mut made, read, (address, mask), how(flag));
        }
        for (number, (key, flag)) in [(6, INV_VIA_IN), (7, INV_VIA_OUT)].into_iter().enumerate() {
            let name = self
                .octets
                .slice(at + layout.interfaces + 16 * number, 16)?;
            let mask = self
                .octets
                .slice(at + layout.interfaces + 32 + 16 * number, 16)?;
            let len = mask
                .iter()
                .rposition(|&octet| octet != 0)
                .map_or(0, |last| last + 1);
            let read = Expression::Meta { key, to: REGISTER }; // NFT_META_IIFNAME, NFT_META_OIFNAME
            compare(&mut made, read, (&name[..len], &mask[..len]), how(flag));
        }
        let protocol = [self.octets.u16(at + layout.protocol)? as u8];
        let flags = self.octets.u8(at + layout.flags)?;
        if protocol[0] != 0 && (layout.has_protocol == 0 || flags & layout.has_protocol != 0) {
            let read = Expression::Meta {
                key: 16,
                to: REGISTER,
            }; // NFT_META_L4PROTO
            compare(&mut made, read, (&protocol, &[0xff]), how(INV_PROTO));
        }
        if flags & layout.fragment != 0 {
            let read = Expression::Payload {
                base: PayloadBase::Network,
                offset: 6,
                len: 2,
                to: REGISTER,
            };
            let how = match inverted & INV_FRAG {
                0 => Comparison::NotEqual,
                _ => Comparison::Equal,
            };
            compare(&mut made, read, (&[0, 0], &[0x1f, 0xff]), how);
        }
        Ok(made)
    }
}

/// Adds a comparison of bits, unless there are none.
fn compare(
    made: &mut Vec<Expression>,
    read: Expression,
    (value, mask): (&[u8], &[u8]),
    how: Comparison,
) {
    if mask.iter().all(|&octet| octet == 0) {
        return;
    }
    made.push(read);
    if mask.iter().any(|&octet| octet != 0xff) {
        made.push(Expression::Bitwise {
            from: REGISTER,
            to: REGISTER,
            len: mask.len(),
            operation: crate::expression::Bitwise::Mask {
                mask: mask.to_vec(),
                xor: vec![0; mask.len()],
            },
        });
    }
    made.push(Expression::Compare {
        from: REGISTER,
        how,
        with: value.to_vec(),
    });
}

/// A built-in chain of a table.
fn builtin(table: &str, hook: Hook) -> Chain {
    let priority = match (table, hook) {
        ("raw", _) => -300,
        ("mangle", _) => -150,
        ("nat", Hook::Prerouting | Hook::Output) => -100,
        ("nat", _) => 100,
        ("security", _) => 50,
        _ => 0,
    };
    let name = match hook {
        Hook::Prerouting => "PREROUTING",
        Hook::Input => "INPUT",
        Hook::Forward => "FORWARD",
        Hook::Output => "OUTPUT",
        _ => "POSTROUTING",
    };
    Chain {
        name: name.into(),
        base: Some(Base {
            hook: Some(hook),
            priority,
            accepts: false,
            kind: if table == "nat" {
                Kind::Nat
            } else {
                Kind::Filter
            },
            devices: Vec::new(),
        }),
        rules: Vec::new(),
    }
}

/// Names of chains by the offset of their first rule.
fn names(entries: &[Entry], builtin: &HashMap<usize, Chain>) -> HashMap<usize, String> {
    let heads = entries.iter().filter_map(|entry| match &entry.end_of {
        End::Head(name) => Some((entry.end, name.clone())),
        _ => None,
    });
    heads
        .chain(builtin.iter().map(|(&at, chain)| (at, chain.name.clone())))
        .collect()
}
