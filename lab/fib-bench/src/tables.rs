//! Routing tables, read from text or synthetic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::Prefix;
use crate::random::Random;

/// A prefix and its next hop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route<P> {
    /// The prefix.
    pub prefix: P,
    /// Number of the next hop, from 1.
    pub next_hop: u32,
}

/// Reads the only file of a family (`*_v4.txt`, `*_v6.txt`, either with `.xz`) in a directory.
///
/// # Errors
/// If there is not exactly one, or it cannot be read.
pub fn from_directory<P: Prefix>(directory: &Path) -> anyhow::Result<Vec<Route<P>>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let suffixes = [format!("_{}.txt", P::TAG), format!("_{}.txt.xz", P::TAG)];
    let mut found: Vec<PathBuf> = vec![];
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if suffixes.iter().any(|suffix| name.ends_with(suffix)) {
            found.push(path);
        }
    }
    match &found[..] {
        [path] => from_file(path),
        _ => bail!(
            "{} has {} files named *{}[.xz]; one is needed",
            directory.display(),
            found.len(),
            suffixes[0]
        ),
    }
}

/// Reads lines of `PREFIX/LENGTH NEXTHOP [ORIGIN-AS]`, with next hops from 1; through `xz` if the
/// name ends in `.xz`.
///
/// # Errors
/// If the file cannot be read, a line is wrong, or there is none.
pub fn from_file<P: Prefix>(path: &Path) -> anyhow::Result<Vec<Route<P>>> {
    let name = || path.display().to_string();
    let text = if path.extension().is_some_and(|ending| ending == "xz") {
        let mut xz = Command::new("xz");
        let output = xz
            .arg("-dc")
            .arg(path)
            .stderr(Stdio::inherit())
            .output()
            .context("xz")?;
        ensure!(output.status.success(), "{}: xz: {}", name(), output.status);
        String::from_utf8(output.stdout).with_context(name)?
    } else {
        fs::read_to_string(path).with_context(name)?
    };
    let routes = parse(&text).with_context(name)?;
    ensure!(!routes.is_empty(), "{}: no prefixes", name());
    Ok(routes)
}

fn parse<P: Prefix>(text: &str) -> anyhow::Result<Vec<Route<P>>> {
    let route = |(index, line): (usize, &str)| {
        let mut words = line.split_ascii_whitespace();
        let (prefix, next_hop) = (words.next().zip(words.next()))
            .with_context(|| format!("line {}: prefix and next hop are needed", index + 1))?;
        let next_hop: u32 = next_hop
            .parse()
            .with_context(|| format!("line {}: next hop", index + 1))?;
        ensure!(next_hop > 0, "line {}: next hops start from 1", index + 1);
        let prefix = prefix
            .parse()
            .with_context(|| format!("line {}", index + 1))?;
        Ok(Route { prefix, next_hop })
    };
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(route)
        .collect()
}

/// A synthetic table in the shape of the Internet's.
pub fn synthetic<P: Prefix>(seed: u64, count: usize) -> Vec<Route<P>> {
    let routes = P::synthetic(seed, count).into_iter();
    routes
        .map(|(prefix, next_hop)| Route { prefix, next_hop })
        .collect()
}

/// These prefixes with random next hops from 1 to `count`. Adjacent prefixes differ, which is the worst case
/// for tables that compress.
pub fn scattered<P: Prefix>(routes: &[Route<P>], count: u32, seed: u64) -> Vec<Route<P>> {
    let mut random = Random::new(seed);
    let mut next_hop = || 1 + random.below(count as usize) as u32;
    let scatter = |route: &Route<P>| Route {
        prefix: route.prefix,
        next_hop: next_hop(),
    };
    routes.iter().map(scatter).collect()
}

/// Routes with a name.
pub type Named<P> = (&'static str, Vec<Route<P>>);

/// Networks that a router has itself ([`Prefix::own`]), 256 prefixes of the table of the commonest length, and the table with
/// these networks. Next hops are those of the table, in turn.
pub fn with_own_networks<P: Prefix>(
    routes: &[Route<P>],
    seed: u64,
) -> (Vec<Named<P>>, Vec<Route<P>>) {
    let next_hops = last_next_hop(routes);
    let mut own: Vec<Named<P>> = P::own()
        .into_iter()
        .map(|(name, prefixes)| {
            let route = |(prefix, next_hop)| Route { prefix, next_hop };
            let next_hops = (1..=next_hops).cycle();
            (
                name,
                prefixes.into_iter().zip(next_hops).map(route).collect(),
            )
        })
        .collect();
    let all = own.iter().flat_map(|(_, routes)| routes);
    let all = routes.iter().chain(all).copied().collect();
    let common: Vec<_> = routes
        .iter()
        .filter(|route| route.prefix.length() == P::COMMONEST.0)
        .collect();
    let mut random = Random::new(seed);
    let some = (0..256).map(|_| *common[random.below(common.len())]);
    own.insert(0, (P::COMMONEST.1, some.collect()));
    (own, all)
}

/// The highest next-hop number of a table.
pub fn last_next_hop<P>(routes: &[Route<P>]) -> u32 {
    routes.iter().map(|route| route.next_hop).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use bora_fib::{Prefix4, Prefix6};

    use super::*;

    #[test]
    fn text_is_a_table() {
        let routes: Vec<Route<Prefix4>> = parse("10.0.0.0/8 3 64500\n\n10.1.0.0/16 4\n").unwrap();
        assert_eq!(routes[1].prefix, "10.1.0.0/16".parse().unwrap());
        assert_eq!((routes.len(), last_next_hop(&routes)), (2, 4));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for text in [
            "2001:db8::/32 1\n2001:db8::/32",
            "::/0 1\n::1/0 1",
            "::/0 1\n::/0 0",
        ] {
            let error = parse::<Prefix6>(text).unwrap_err();
            assert!(error.to_string().contains("line 2"), "{error:#}");
        }
    }

    #[test]
    fn scattering_keeps_prefixes() {
        let routes: Vec<Route<Prefix4>> = parse("10.0.0.0/8 3\n10.1.0.0/16 4").unwrap();
        let scattered = scattered(&routes, 100, 1);
        assert!((0..2).all(|i| scattered[i].prefix == routes[i].prefix));
        assert!(
            scattered
                .iter()
                .all(|route| (1..=100).contains(&route.next_hop))
        );
    }
}
