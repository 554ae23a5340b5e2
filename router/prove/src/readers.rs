//! The readers of the FIB's main table: each kind of instructions of the workers', and the XDP program.

use std::net::IpAddr;

use bora_contract::FIB_HOPS;
use bora_fib::{FibReader, NextHopId, Simd};
use bora_xdp::Questions;

use crate::exchange::ProveError;

const SIMD: [(&str, Simd); 3] = [
    ("scalar", Simd::Scalar),
    ("AVX2", Simd::Avx2),
    ("AVX-512", Simd::Avx512),
];

/// What a reader has found for each address; nothing where it does not know.
type Found = (&'static str, Vec<Option<u32>>);

/// Has all of them look up addresses of one IP version; returns those for which they do not find the same, with what they find.
///
/// # Errors
/// The XDP program cannot be asked.
pub(crate) fn compare(
    fib: &FibReader,
    program: Option<&Questions>,
    addresses: &[IpAddr],
) -> Result<Vec<(IpAddr, String)>, ProveError> {
    // a CPU without some instructions has one reader less
    let by_simd = SIMD.iter().filter_map(|&(name, simd)| {
        let found = by_instructions(fib, simd, addresses)?;
        Some((name, found))
    });
    let mut readers: Vec<Found> = by_simd.collect();
    if let Some(program) = program {
        readers.push(("the XDP program", by_program(program, addresses)?));
    }
    Ok(different(&readers, addresses))
}

/// The addresses for which readers have found other next hops, with what they have found.
fn different(readers: &[Found], addresses: &[IpAddr]) -> Vec<(IpAddr, String)> {
    let differ = addresses.iter().enumerate().filter_map(|(at, address)| {
        let known = readers.iter().filter_map(|(_, found)| found[at]);
        let mut known = known.clone().zip(known.skip(1));
        known.any(|(one, next)| one != next).then(|| {
            let found = readers.iter().map(|(name, found)| match found[at] {
                Some(id) => format!("{name}: next hop {id}"),
                None => format!("{name}: unknown"),
            });
            (*address, found.collect::<Vec<_>>().join(", "))
        })
    });
    differ.collect()
}

fn by_instructions(fib: &FibReader, simd: Simd, addresses: &[IpAddr]) -> Option<Vec<Option<u32>>> {
    let mut found = vec![NextHopId::NO_ROUTE; addresses.len()];
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for address in addresses {
        match address {
            IpAddr::V4(address) => v4.push(address.to_bits()),
            IpAddr::V6(address) => v6.push(address.octets()),
        }
    }
    let looked_up = match v6.is_empty() {
        true => fib.lookup4_with(simd, &v4, &mut found),
        false => fib.lookup6_with(simd, &v6, &mut found),
    };
    looked_up.ok()?;
    Some(found.into_iter().map(|id| Some(id.get())).collect())
}

/// The program's share of the FIB may end before an address.
fn by_program(program: &Questions, addresses: &[IpAddr]) -> Result<Vec<Option<u32>>, ProveError> {
    let ask = |&address| {
        let answer = program.look_up(address);
        let answer = answer.map_err(|error| ProveError::Program(error.to_string()))?;
        Ok(answer
            .map(|answer| answer.next_hop)
            .filter(|&id| id < FIB_HOPS))
    };
    addresses.iter().map(ask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_finds_something_else_is_named() {
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let readers = [
            ("scalar", vec![Some(1), Some(2), Some(3)]),
            ("AVX2", vec![Some(1), Some(2), Some(3)]),
            ("the XDP program", vec![None, Some(5), Some(3)]),
        ];
        let found = different(&readers, &[address(1), address(2), address(3)]);
        let text = "scalar: next hop 2, AVX2: next hop 2, the XDP program: next hop 5";
        assert_eq!(found, [(address(2), text.to_owned())]);
    }
}
