//! The short way accepts only what the full parser does.

use std::net::IpAddr;

use bora_buffer::{Pool, Region, SharedFrames};
use bora_fib::PortId;
use bora_wire::MacAddr;
use proptest::prelude::*;

use super::*;
use crate::class::Planes;
use crate::headers::{Headers, destination6};
use crate::{Devices, Inputs};

fn ingress(forwards: bool) -> Ingress {
    Ingress {
        forward4: forwards,
        forward6: forwards,
        ..Ingress::new(PortId(0), MacAddr([2, 0, 0, 0, 0, 1]))
    }
}

/// Good packets of 60 octets.
fn good4() -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0xb8, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 1, 0, 2]);
    bora_wire::ipv4::Packet::new_unchecked(&mut frame[14..]).fill_checksum();
    frame
}

fn good6() -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..24].copy_from_slice(&[0x86, 0xdd, 0x6b, 0x80, 0, 0, 0, 6, 59, 64, 0x20, 1]);
    frame[38..40].copy_from_slice(&[0x20, 1]);
    frame
}

/// Whether a packet takes the short way; if so, its result is that of the full parser.
fn agree(frame: &[u8], forwards: bool) -> bool {
    let inputs = Inputs::new([&ingress(forwards)], &Devices::default());
    let dscp = Planes::new(&crate::classify::DEFAULT_DSCP);
    let region = Region::new(1, 2048).unwrap();
    let mut pool = Pool::new(SharedFrames::of_new_region(&region), 1);
    let empty = pool.take().unwrap();
    let mut packet = empty.into_packet(&region, frame.len()).unwrap();
    region.octets_mut(&mut packet).copy_from_slice(frame);
    let (mut headers, mut metas) = (Headers::new(), [Meta::default()]);
    headers.read(&[packet], 0, &region);
    headers.take_each(&metas, &inputs);
    let all = headers.check4(&mut metas, dscp);
    assert_eq!(all, headers.plain4(0).is_some());
    headers.check6(&mut metas, dscp);
    let destination = match headers.plain4(0) {
        Some(destination) => IpAddr::from(destination.to_be_bytes()),
        None if !headers.may_be_plain6(0) => return false,
        None => match destination6(frame) {
            Some(destination) => IpAddr::from(destination),
            None => return false,
        },
    };
    let mut expected = Meta::default();
    let parsed = parse_one(frame, inputs.get(PortId(0)), &dscp, &mut expected);
    assert_eq!((parsed, expected), (Ok(destination), metas[0]));
    true
}

#[test]
fn a_plain_packet_takes_this_way() {
    for frame in [good4(), good6()] {
        assert!(agree(&frame, true));
        assert!(!agree(&frame, false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// One octet changed, with and without a right checksum: the short way accepts only what the full way does.
    #[test]
    fn nothing_is_accepted_that_the_full_parser_refuses(
        at in 0..54usize, value: u8, length in 0..61usize, repair: bool, is_ipv6: bool,
    ) {
        let mut frame = if is_ipv6 { good6() } else { good4() };
        frame[at] = value;
        if repair && !is_ipv6 {
            bora_wire::ipv4::Packet::new_unchecked(&mut frame[14..]).fill_checksum();
        }
        agree(&frame[..length], true);
        agree(&frame, true);
    }
}
