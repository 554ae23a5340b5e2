//! Addresses in the kernel's image that the guard compares with and reads (`struct bora_symbols`).

use std::{fs, io};

use super::skeleton::types::bora_symbols;

/// The text of `/proc/kallsyms`.
pub(crate) fn kallsyms() -> io::Result<String> {
    let cannot = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot read /proc/kallsyms: {error}"))
    };
    fs::read_to_string("/proc/kallsyms").map_err(cannot)
}

/// An address there; `None` if it is none, so that the line names nothing.
pub(crate) fn address_of(word: &str) -> Option<u64> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the kernel writes hexadecimal numbers, and what is none has no name"
    )]
    u64::from_str_radix(word, 16).ok()
}

/// What `/proc/kallsyms` says. Names of modules and those that it gives twice are left out, so are all if
/// it hides addresses (`kernel.kptr_restrict=2`).
pub(super) fn of_kernel() -> bora_symbols {
    match kallsyms() {
        Ok(text) => parse(&text),
        Err(error) => {
            log::warn!("{error}; more is left to Linux than need be (`bora show sync`)");
            bora_symbols::default()
        }
    }
}

fn parse(kallsyms: &str) -> bora_symbols {
    let mut symbols = bora_symbols::default();
    let mut seen = Vec::new();
    for line in kallsyms.lines().filter(|line| !line.ends_with(']')) {
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if let Some(slot) = slot(&mut symbols, name) {
            let address = address_of(address).unwrap_or(0);
            *slot = if seen.contains(&name) { 0 } else { address };
            seen.push(name);
        }
    }
    symbols
}

fn slot<'s>(symbols: &'s mut bora_symbols, name: &str) -> Option<&'s mut u64> {
    Some(match name {
        "apparmor_ip_postroute" => &mut symbols.apparmor_ip_postroute,
        "selinux_ip_forward" => &mut symbols.selinux_ip_forward,
        "selinux_ip_postroute" => &mut symbols.selinux_ip_postroute,
        "selinux_state" => &mut symbols.selinux_state,
        "selinux_secmark_refcount" => &mut symbols.selinux_secmark_refcount,
        "selinux_xfrm_refcount" => &mut symbols.selinux_xfrm_refcount,
        "netlabel_mgmt_protocount" => &mut symbols.netlabel_mgmt_protocount,
        "egress_needed_key" => &mut symbols.egress_needed_key,
        "__per_cpu_offset" => &mut symbols.per_cpu_offset,
        _ => return None,
    })
}

/// Addresses of functions, those of modules too; `None` for one that the kernel does not have.
///
/// # Errors
/// `/proc/kallsyms` cannot be read.
pub(super) fn find<const N: usize>(functions: [&str; N]) -> io::Result<[Option<u64>; N]> {
    let text = kallsyms()?;
    let mut found = [None; N];
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (address, name) = (words.next().and_then(address_of), words.nth(1));
        if let Some(at) = functions.iter().position(|one| name == Some(one)) {
            found[at] = address;
        }
    }
    Ok(found)
}

/// Names of functions by address, with their module, in the order of `addresses`; `None` where the kernel
/// does not say.
pub fn names_of(addresses: &[u64]) -> Vec<Option<String>> {
    let mut names = vec![None; addresses.len()];
    let text = match kallsyms() {
        Ok(text) => text,
        Err(error) => {
            log::warn!("{error}; hooks are shown without their names");
            return names;
        }
    };
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let address = words.next().and_then(address_of);
        let Some(address) = address.filter(|address| addresses.contains(address)) else {
            continue;
        };
        let rest: Vec<&str> = words.skip(1).collect();
        for (slot, _) in names
            .iter_mut()
            .zip(addresses)
            .filter(|(_, a)| **a == address)
        {
            slot.get_or_insert_with(|| rest.join(" "));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_counts() {
        let symbols = parse(
            "ffffffff81000010 t apparmor_ip_postroute\n\
             ffffffff81000020 t selinux_ip_forward\nffffffff81000030 t selinux_ip_forward\n\
             ffffffffc0000010 t selinux_ip_postroute\t[fake]\n\
             ffffffff82000040 d egress_needed_key\nnonsense\n",
        );
        assert_eq!(symbols.apparmor_ip_postroute, 0xffff_ffff_8100_0010);
        assert_eq!(symbols.egress_needed_key, 0xffff_ffff_8200_0040);
        assert_eq!(symbols.selinux_ip_forward, 0, "there are two");
        assert_eq!(symbols.selinux_ip_postroute, 0, "it is a module's");
        let hidden = parse("0000000000000000 t apparmor_ip_postroute\n");
        assert_eq!(hidden.apparmor_ip_postroute, 0);
    }
}
