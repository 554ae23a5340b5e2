use bora_wire::checksum::{Transport, pseudo_v4, pseudo_v6};
use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6, udp, vlan};
use proptest::prelude::*;

use super::*;
use crate::test_traffic::{any_traffic, link, many_flows, one_flow};

fn frames(generator: &mut Generator, count: usize) -> Vec<Vec<u8>> {
    let write = |n| {
        let mut frame = vec![0xee; generator.next_length()];
        assert_eq!(generator.write(&mut frame, 1000 + n as u64), frame.len());
        frame
    };
    (0..count).map(write).collect()
}

/// What bora_wire reads in a frame.
fn read(frame: &[u8]) -> (Option<(u16, u8)>, u8, Flow, Signature) {
    let link = ethernet::Frame::new_checked(frame).unwrap();
    let untagged = vlan::Untagged::find(&link).unwrap();
    let tag = (untagged.offset > ethernet::HEADER_LEN).then(|| {
        let tag = vlan::Packet::new_checked(link.payload()).unwrap();
        (tag.tci().vid(), tag.tci().pcp())
    });
    let l3 = &frame[untagged.offset..];
    let ((source, destination), dscp, payload, pseudo) = if untagged.ethertype == EtherType::IPV4 {
        let packet = ipv4::Packet::new_checked(l3).unwrap();
        packet.verify_checksum().unwrap();
        assert_eq!((packet.ttl(), &l3[4..6]), (64, &[0, 0][..]));
        assert!(packet.dont_fragment() && !packet.is_fragment());
        let (src, dst) = (packet.src(), packet.dst());
        let pseudo = pseudo_v4(src, dst, Protocol::UDP, packet.payload().len() as u16);
        assert_eq!(usize::from(packet.total_len()), l3.len());
        ((src.into(), dst.into()), packet.dscp(), &l3[20..], pseudo)
    } else {
        let packet = ipv6::Packet::new_checked(l3).unwrap();
        assert_eq!(
            (packet.hop_limit(), packet.next_header()),
            (64, Protocol::UDP)
        );
        let (src, dst) = (packet.src(), packet.dst());
        let pseudo = pseudo_v6(src, dst, Protocol::UDP, packet.payload().len() as u32);
        assert_eq!(packet.total_len(), l3.len());
        ((src.into(), dst.into()), packet.dscp(), &l3[40..], pseudo)
    };
    let datagram = udp::Packet::new_checked(payload).unwrap();
    assert_eq!(datagram.verify_checksum(pseudo), Transport::Valid);
    let (signature, right) = Signature::read(datagram.payload().first_chunk().unwrap());
    assert!(right);
    let flow = Flow {
        source,
        destination,
        source_port: datagram.src_port(),
        destination_port: datagram.dst_port(),
    };
    (tag, dscp, flow, signature)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_frame_is_valid_and_as_it_should_be(traffic in any_traffic()) {
        let links = vec![link(); traffic.streams.len()];
        let mut generator = Generator::new(&traffic, 0, &links).unwrap();
        let mut sent = vec![0; traffic.streams.len()];
        for (n, frame) in frames(&mut generator, 60).iter().enumerate() {
            let (tag, dscp, flow, signature) = read(frame);
            let id = usize::from(signature.stream);
            let stream = &traffic.streams[id];
            prop_assert_eq!(tag, stream.vlan);
            prop_assert_eq!(dscp, stream.dscp);
            prop_assert_eq!(signature.sequence, sent[id]);
            prop_assert_eq!(signature.stamp, 1000 + n as u64);
            prop_assert_eq!(flow, stream.flow(stream.place(sent[id])));
            let lengths = &traffic.frames.lengths;
            let length = lengths[sent[id] as usize % lengths.len()];
            prop_assert_eq!(frame.len() + 4, usize::from(length));
            sent[id] += 1;
        }
        prop_assert_eq!(generator.sent(), sent);
    }

    #[test]
    fn frames_taken_back_come_again(traffic in any_traffic(), written in 1usize..50, back in 0usize..50) {
        let links = vec![link(); traffic.streams.len()];
        let mut generator = Generator::new(&traffic, 0, &links).unwrap();
        let first = frames(&mut generator, written);
        let kept = written.saturating_sub(back);
        let mut plain = Generator::new(&traffic, 0, &links).unwrap();
        frames(&mut plain, kept);
        for frame in &first[kept..] {
            generator.take_back(frame);
        }
        prop_assert_eq!(generator.sent(), plain.sent());
        prop_assert_eq!(frames(&mut generator, 30), frames(&mut plain, 30));
    }
}

#[test]
fn the_smallest_frames_hold_all() {
    let mut generator = Generator::new(&one_flow(64), 0, &[link()]).unwrap();
    assert_eq!(frames(&mut generator, 1)[0].len(), 60);
    assert_eq!(generator.write(&mut [0; 59], 0), 0, "no room");
    assert_eq!(generator.sent(), [1]);
    generator.take_back(&[]);
    generator.take_back(&[0; 60]);
    assert_eq!(generator.sent(), [1], "not of this generator");
}

#[test]
fn flows_begin_anew_after_the_last() {
    let traffic = many_flows(3);
    let mut generator = Generator::new(&traffic, 0, &[link()]).unwrap();
    let ports = frames(&mut generator, 5)
        .iter()
        .map(|frame| read(frame).2.source_port)
        .collect::<Vec<_>>();
    assert_eq!(ports, [1024, 1025, 1026, 1024, 1025]);
}

#[test]
fn weights_are_kept_and_spread() {
    let order = cycle(0, &[6, 2, 2]).unwrap();
    assert_eq!(order.len(), 5);
    assert_eq!(order.iter().filter(|&&source| source == 0).count(), 3);
    assert!(
        !order.windows(3).any(|three| three == [0, 0, 0]),
        "{order:?}"
    );
    assert_eq!(cycle(0, &[7]).unwrap(), [0]);
    assert_eq!(cycle(0, &[1; 4]).unwrap(), [0, 1, 2, 3]);
    let error = cycle(3, &[1, 1 << 20]).unwrap_err().to_string();
    assert!(error.contains("weights of port 3"), "{error}");
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let refused = |change: &dyn Fn(&mut Traffic)| {
        let mut traffic = one_flow(64);
        change(&mut traffic);
        Generator::new(&traffic, 0, &[link()])
            .err()
            .unwrap()
            .to_string()
    };
    let v6 = |traffic: &mut Traffic| {
        let address = |text: &str| crate::traffic::Values::List(vec![text.parse().unwrap()]);
        traffic.streams[0].sources = address("2001:2::1");
        traffic.streams[0].destinations = address("2001:2::2");
    };
    assert_eq!(
        refused(&v6),
        "stream 0 needs frames of at least 84 octets (headers, signature, FCS), not 64"
    );
    assert!(refused(&|traffic| traffic.streams[0].vlan = Some((5, 0))).contains("at least 68"));
    assert!(refused(&|traffic| traffic.streams[0].vlan = Some((4095, 0))).contains("VLAN 4095"));
    assert!(refused(&|traffic| traffic.streams[0].dscp = 64).contains("DSCP 64"));
    assert!(refused(&|traffic| traffic.streams[0].flows = 0).contains("no flows"));
    assert!(refused(&|traffic| traffic.streams[0].weight = 0).contains("weight above 0"));
    assert!(refused(&|traffic| traffic.streams[0].from = 1).contains("port 0 has no stream"));
    assert!(
        refused(&|traffic| traffic.streams[0].flow_length = Some(30)).contains("ports of old ones")
    );
    assert!(refused(&|traffic| traffic.streams.clear()).contains("no stream"));
    assert!(refused(&|traffic| traffic.frames.lengths = vec![64, 9217]).contains("9217"));
    assert!(refused(&|traffic| traffic.frames.lengths.clear()).contains("no lengths"));
    let empty = |traffic: &mut Traffic| {
        traffic.streams[0].source_ports = crate::traffic::Values::List(Vec::new());
    };
    assert_eq!(refused(&empty), "stream 0: no source ports");
    assert!(Generator::new(&one_flow(64), 0, &[]).is_err());
}
