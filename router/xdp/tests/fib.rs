//! The XDP program's look-up in the FIB beside the workers' (as root).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bora_contract::{FIB_HOPS, FIB_REASON};
use bora_fib::{
    Adjacency, FibConfig, FibHandle, FibWriter, Group, NextHop, NextHopId, PortId, Prefix4,
    Prefix6, ProgramMap, Reason, UseMark,
};
use bora_fib_bench::random::Random;
use bora_xdp::{FibAnswer, Program};

/// Prefixes that are set or removed.
const CHANGES: usize = 20_000;

/// The program, with this many pages for nodes, and its FIB; `None` if this process may not load it.
fn loaded(node_pages: u32) -> Option<(Program, FibWriter, FibHandle)> {
    let program = match Program::load(1, node_pages, false) {
        Ok(program) => program,
        Err(error) => {
            bora_testing::skip(format!("{error}; run as root"));
            return None;
        }
    };
    let (map, node_pages) = program.fib_map();
    let map = ProgramMap {
        map,
        node_pages,
        marks: program.use_marks(),
    };
    let (writer, handle) = bora_fib::new_in(FibConfig::default(), map).unwrap();
    Some((program, writer, handle))
}

fn neighbour(number: u16) -> NextHop {
    let mut l2 = [2; 14];
    l2[..2].copy_from_slice(&number.to_ne_bytes());
    NextHop::Forward(Adjacency {
        port: PortId(number),
        mtu: 1500,
        l2,
        unconfirmed: None,
    })
}

fn ask(program: &Program, address: impl Into<IpAddr>) -> FibAnswer {
    program.look_up(address.into()).unwrap().unwrap()
}

/// A prefix of any length, close to others.
fn prefix(random: &mut Random, bits: u8) -> (u128, u8) {
    let wide = |random: &mut Random| u128::from(random.bits()) << 64 | u128::from(random.bits());
    let bases = [0x2001_0db8_u128 << 96, 0x0a00_0001 << 96, 0xfd00 << 112, 0];
    let noise = wide(random) >> random.below(bits.into());
    let length = random.below(usize::from(bits) + 1) as u8;
    (bases[random.below(bases.len())] ^ noise, length)
}

/// Compares both look-ups after random changes; returns how many addresses the program did not find.
fn compare(node_pages: u32) -> usize {
    let Some((program, mut writer, handle)) = loaded(node_pages) else {
        return usize::from(node_pages == 1);
    };
    let ids: Vec<_> = (1..9)
        .map(|number| writer.add_next_hop(neighbour(number)).unwrap())
        .collect();
    // a leaf that does not fit into 16 bits
    let far = writer.add_host(neighbour(9)).unwrap();
    let choices: Vec<_> = ids
        .into_iter()
        .chain([far, far])
        .map(Some)
        .chain([None; 3])
        .collect();
    let mut released = handle.program().unwrap();
    let mut reader = handle.reader().unwrap();
    let (mut random, mut unknown) = (Random::new(3), 0);
    let mut check = |address: IpAddr, expected: NextHopId| {
        let answer = ask(&program, address);
        assert_eq!(answer.mark, UseMark::new(1, address).get(), "{address}");
        let found = answer.next_hop;
        unknown += usize::from(found == FIB_HOPS);
        assert!(
            found == expected.get() || found == FIB_HOPS,
            "{address}: {found}, {expected}"
        );
    };
    for change in 0..CHANGES {
        let id = choices[random.below(choices.len())];
        let (mut found, noise) = ([NextHopId::NO_ROUTE], u128::from(random.bits()));
        if change % 2 == 0 {
            let (address, length) = prefix(&mut random, 32);
            let prefix = Prefix4::masked((address >> 96) as u32, length);
            match id {
                Some(id) => drop(writer.insert4(prefix, id).unwrap()),
                None => drop(writer.remove4(prefix)),
            }
            let inside = u32::MAX.checked_shr(length.into()).unwrap_or(0) & noise as u32;
            for key in [prefix.addr(), prefix.addr() | inside, noise as u32] {
                reader.lookup4(&[key], &mut found);
                check(Ipv4Addr::from(key).into(), found[0]);
            }
        } else {
            let (address, length) = prefix(&mut random, 128);
            let prefix = Prefix6::masked(address, length.max(8)); // shorter ones paint the whole root
            match id {
                Some(id) => drop(writer.insert6(prefix, id).unwrap()),
                None => drop(writer.remove6(prefix)),
            }
            let inside = u128::MAX.checked_shr(length.into()).unwrap_or(0) & noise;
            for key in [prefix.addr(), prefix.addr() | inside, noise << 64] {
                reader.lookup6(&[key.to_be_bytes()], &mut found);
                check(Ipv6Addr::from(key).into(), found[0]);
            }
        }
        if change % 512 == 0 {
            released.wait(|| Ok::<_, ()>(())).unwrap(); // nothing runs but our own questions
            reader.quiesce();
            writer.reclaim();
        }
    }
    unknown
}

#[test]
fn the_program_finds_what_workers_find() {
    assert_eq!(compare(2048), 0);
}

#[test]
fn the_program_knows_what_it_cannot_find() {
    // a page holds the nodes of a few prefixes
    assert!(compare(1) > 0);
}

#[test]
fn next_hops_say_what_becomes_of_packets() {
    let Some((program, mut writer, _handle)) = loaded(16) else {
        return;
    };
    let address = Ipv4Addr::new(192, 0, 2, 1);
    let prefix = Prefix4::masked(u32::from(address), 24);
    let reason = |reason: Reason| FIB_REASON | reason as u32;
    assert_eq!(ask(&program, address).hop, reason(Reason::NoRoute));
    let one = writer.add_next_hop(neighbour(1)).unwrap();
    let two = writer.add_next_hop(neighbour(2)).unwrap();
    let only = writer
        .add_next_hop(NextHop::Group(Group::new(&[(two, 1)])))
        .unwrap();
    let both = NextHop::Group(Group::new(&[(one, 1), (two, 1)]));
    let both = writer.add_next_hop(both).unwrap();
    let mut hop = |id| {
        writer.insert4(prefix, id).unwrap();
        ask(&program, address).hop
    };
    let (first, second) = (hop(one), hop(two));
    assert!(first != 0 && second != 0 && first != second);
    assert_eq!((hop(only), hop(both)), (second, 0));
    let punt = |reason| NextHop::Punt { reason, port: None };
    for (object, word) in [
        (NextHop::Blackhole, reason(Reason::Blackhole)),
        (punt(Reason::Unreachable), reason(Reason::Unreachable)),
        (punt(Reason::NoNeighbour), 0),
        (punt(Reason::Unsupported), 0),
    ] {
        // the member of a group changes with its group
        writer.set_next_hop(two, object).unwrap();
        writer.insert4(prefix, only).unwrap();
        assert_eq!(ask(&program, address).hop, word);
    }
}

#[test]
fn nothing_is_used_again_before_a_grace_period() {
    let Some((program, mut writer, handle)) = loaded(16) else {
        return;
    };
    let (mut reader, periods) = (handle.program().unwrap(), program.grace_periods().unwrap());
    let ids = [1, 2].map(|number| writer.add_next_hop(neighbour(number)).unwrap());
    let prefix = Prefix4::masked(0x0a00_0000, 20);
    for id in ids {
        writer.insert4(prefix, id).unwrap();
    }
    writer.set_next_hop(ids[0], neighbour(3)).unwrap();
    assert!(writer.awaits_program());
    assert_eq!(writer.reclaim(), 0);
    assert!(reader.wait(|| Err("the kernel refuses")).is_err());
    assert_eq!(writer.reclaim(), 0);
    // one grace period for all of it
    reader.wait(|| periods.wait()).unwrap();
    assert!(!writer.awaits_program());
    assert_eq!(writer.reclaim(), 2);
    reader.wait(|| Err("nothing to wait for")).unwrap();
}
