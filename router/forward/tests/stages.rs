//! The stages on packets in memory: what leaves is rewritten, what does not has a reason.

use std::net::Ipv4Addr;

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_fib::{
    Adjacency, FibConfig, FibReader, FibWriter, Group, NextHop, PortId, Prefix4, UseMark,
};
use bora_forward::{
    Batch, Classifier, Context, Devices, FlowHash, Gate, HashPolicy, Ingress, Inputs, Reason,
    RpFilter, Verdict, flow_hash,
};
use bora_wire::{MacAddr, Protocol, ipv4, udp};
use proptest::prelude::*;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const HERE: u32 = 0x0a00_0102; // 10.0.1.2, behind port 0
const THERE: u32 = 0x0a00_0202; // 10.0.2.2, behind port 1

struct Bench {
    region: Region,
    pool: Pool,
    writer: FibWriter,
    fib: FibReader,
    ingress: Ingress,
}

fn forward_by(port: u16, mtu: u16) -> NextHop {
    let mut l2 = [0; 14];
    l2[..6].copy_from_slice(&[2, 0, 0, 0, 1, port as u8]);
    l2[6..12].copy_from_slice(&[2, 0, 0, 0, 2, port as u8]);
    NextHop::Forward(Adjacency {
        port: PortId(port),
        mtu,
        l2,
        unconfirmed: None,
    })
}

impl Bench {
    fn new() -> Self {
        let region = Region::new(512, 2048).unwrap();
        let pool = Pool::new(SharedFrames::of_new_region(&region), 512);
        let (mut writer, handle) = bora_fib::new(FibConfig::default()).unwrap();
        for (net, port) in [(HERE, 0), (THERE, 1)] {
            let id = writer.add_next_hop(forward_by(port, 1500)).unwrap();
            writer.insert4(Prefix4::masked(net, 24), id).unwrap();
        }
        let ingress = Ingress {
            partial_checksum: true,
            send_redirects4: true,
            ..Ingress::new(PortId(0), OURS)
        };
        Self {
            region,
            pool,
            writer,
            fib: handle.reader().unwrap(),
            ingress,
        }
    }

    fn packet(&mut self, frame: &[u8]) -> Packet {
        let empty = self.pool.take().unwrap();
        let mut packet = empty.into_packet(&self.region, frame.len()).unwrap();
        self.region.octets_mut(&mut packet).copy_from_slice(frame);
        packet
    }

    fn run(&mut self, frames: &[Vec<u8>]) -> Vec<(Verdict, Vec<u8>)> {
        let mut batch = Batch::new();
        for frame in frames {
            let packet = self.packet(frame);
            batch.packets.push(packet);
        }
        batch.came_by(self.ingress.port);
        let inputs = Inputs::new([&self.ingress], &Devices::default());
        let context = Context {
            region: &self.region,
            fib: &self.fib,
            inputs: &inputs,
            devices: &bora_forward::Devices::default(),
            min_frames: &[0, 60],
            classifier: &Classifier::default(),
            policies: &bora_forward::Policies::default(),
            hash4: BY_PORTS,
            hash6: BY_PORTS,
            tunnelling: &bora_forward::Tunnelling::default(),
        };
        bora_forward::run(&mut batch, &context, &[], |_| {});
        let seen = |(packet, meta): (Packet, bora_forward::Meta)| {
            if matches!(meta.verdict(), Verdict::Forward(_)) {
                assert_eq!(packet.mark(), meta.class().0);
            }
            let octets = self.region.octets(&packet).to_vec();
            self.pool.give(packet.into_frame(&self.region));
            (meta.verdict(), octets)
        };
        batch
            .packets
            .into_iter()
            .zip(batch.meta)
            .map(seen)
            .collect()
    }

    fn verdict(&mut self, frame: Vec<u8>) -> Verdict {
        self.run(&[frame])[0].0
    }
}

const BY_PORTS: FlowHash = FlowHash {
    policy: HashPolicy::L4,
    fields: 0,
    key: [7, 8],
};

/// A UDP packet of `length` IP octets.
fn frame(source: u32, destination: u32, ttl: u8, length: u16) -> Vec<u8> {
    let mut octets = vec![0; 14 + usize::from(length)];
    let frame = udp::Frame {
        dst_mac: OURS,
        ttl,
        ..udp::Frame::new(Ipv4Addr::from(source), Ipv4Addr::from(destination))
    };
    frame.emit(&mut octets).unwrap();
    octets
}

#[test]
fn a_transit_packet_is_rewritten_and_padded() {
    let mut bench = Bench::new();
    let mut sent = frame(HERE, THERE, 64, 28);
    sent.resize(90, 0xee); // padding of the old link
    let (verdict, octets) = bench.run(&[sent]).remove(0);
    assert_eq!(verdict, Verdict::Forward(PortId(1)));
    assert_eq!(
        octets.len(),
        60,
        "trimmed to the packet, padded to the port's minimum"
    );
    assert_eq!(&octets[42..], &[0; 18], "the padding is zero");
    assert_eq!(&octets[..6], &[2, 0, 0, 0, 1, 1]);
    assert_eq!(&octets[6..12], &[2, 0, 0, 0, 2, 1]);
    let packet = ipv4::Packet::new_checked(&octets[14..]).unwrap();
    packet.verify_checksum().unwrap();
    assert_eq!(packet.ttl(), 63);
}

/// Marks a packet for expedited forwarding.
fn expedited(mut frame: Vec<u8>) -> Vec<u8> {
    frame[15] = 46 << 2;
    frame[24..26].fill(0);
    let checksum = bora_wire::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// With checksums that may be left to us, packets are rewritten one by one, and otherwise together.
#[test]
fn packets_to_one_neighbour_are_rewritten_as_each_alone() {
    let mut bench = Bench::new();
    let to = |ttl, length| frame(HERE, THERE, ttl, length);
    let mut padded = to(2, 30);
    padded.resize(120, 0xee);
    let long = to(9, 1501);
    let batches = [
        vec![to(64, 28), to(255, 46), to(2, 1500), expedited(to(3, 45))],
        vec![to(64, 100), expedited(to(64, 46))],
        vec![padded, to(7, 46)],
        vec![to(64, 28), long, to(64, 1500)],
        vec![to(64, 28), to(1, 28)],
        vec![to(64, 28); 200],
    ];
    for frames in batches {
        bench.ingress.partial_checksum = true;
        let expected = bench.run(&frames);
        bench.ingress.partial_checksum = false;
        assert_eq!(bench.run(&frames), expected);
    }
}

#[test]
fn each_exception_has_its_reason() {
    let mut bench = Bench::new();
    let blackhole = bench.writer.add_next_hop(NextHop::Blackhole).unwrap();
    bench
        .writer
        .insert4("192.0.2.0/24".parse().unwrap(), blackhole)
        .unwrap();
    let unresolved = NextHop::Punt {
        reason: Reason::NoNeighbour,
        port: Some(PortId(1)),
    };
    let unresolved = bench.writer.add_next_hop(unresolved).unwrap();
    bench
        .writer
        .insert4("198.51.100.0/24".parse().unwrap(), unresolved)
        .unwrap();

    let mut foreign = frame(HERE, THERE, 64, 28);
    foreign[0] ^= 4;
    let mut arp = frame(HERE, THERE, 64, 28);
    arp[13] = 6;
    let mut corrupt = frame(HERE, THERE, 64, 28);
    corrupt[24] ^= 1;
    let mut version = frame(HERE, THERE, 64, 28);
    version[14] = 0x55;
    let mut whole = frame(HERE, THERE, 64, 1501);
    let mut header = ipv4::Packet::new_unchecked(&mut whole[14..]);
    header.set_fragment(true, false, 0);
    header.fill_checksum();
    for (frame, verdict) in [
        (
            frame(HERE, THERE, 1, 28),
            Verdict::Punt(Reason::TtlExceeded),
        ),
        (frame(HERE, THERE, 2, 28), Verdict::Forward(PortId(1))),
        (
            frame(HERE, 0x0900_0001, 64, 28),
            Verdict::Punt(Reason::NoRoute),
        ),
        (
            frame(HERE, 0xc633_6401, 64, 28),
            Verdict::Punt(Reason::NoNeighbour),
        ),
        (
            frame(HERE, 0xc000_0201, 64, 28),
            Verdict::Drop(Reason::Blackhole),
        ),
        (frame(HERE, THERE, 64, 1500), Verdict::Forward(PortId(1))),
        (whole, Verdict::Punt(Reason::TooBig)),
        (
            frame(HERE, THERE, 64, 1501),
            Verdict::Punt(Reason::Fragmentation),
        ),
        (frame(THERE, HERE, 64, 28), Verdict::Punt(Reason::Redirect)),
        (
            frame(HERE, 0xe000_0001, 64, 28),
            Verdict::Punt(Reason::SpecialAddress),
        ),
        (foreign, Verdict::Punt(Reason::ForeignMac)),
        (arp, Verdict::Punt(Reason::NotIp)),
        (corrupt, Verdict::Drop(Reason::BadChecksum)),
        (version, Verdict::Drop(Reason::BadVersion)),
        (vec![0; 10], Verdict::Drop(Reason::Truncated)),
    ] {
        assert_eq!(bench.verdict(frame.clone()), verdict, "{frame:02x?}");
    }
    bench.ingress.forward4 = false;
    assert_eq!(
        bench.verdict(frame(HERE, THERE, 64, 28)),
        Verdict::Punt(Reason::ForwardingOff)
    );
}

#[test]
fn the_source_check_knows_strict_and_loose() {
    let mut bench = Bench::new();
    for (mode, from_elsewhere, from_nowhere) in [
        (RpFilter::Off, true, true),
        (RpFilter::Loose, true, false),
        (RpFilter::Strict, false, false),
    ] {
        bench.ingress.rp_filter = mode;
        let passes = |bench: &mut Bench, source| match bench.verdict(frame(source, THERE, 64, 28)) {
            Verdict::Forward(_) => true,
            Verdict::Drop(Reason::SourceCheck) => false,
            other => panic!("{mode:?}: {other:?}"),
        };
        assert!(passes(&mut bench, HERE));
        assert_eq!(passes(&mut bench, THERE + 1), from_elsewhere, "{mode:?}");
        assert_eq!(passes(&mut bench, 0x0900_0001), from_nowhere, "{mode:?}");
        // Linux looks for the destination first, and says that there is no way to it
        let lost = bench.verdict(frame(0x0900_0001, 0x0900_0002, 64, 28));
        assert_eq!(lost, Verdict::Punt(Reason::NoRoute), "{mode:?}");
    }
}

/// Routes that the FIB cannot tell all of, for instance by TOS.
#[test]
fn linux_checks_sources_that_only_it_can() {
    let mut bench = Bench::new();
    let reason = Reason::Unsupported;
    let linux = NextHop::Punt { reason, port: None };
    let linux = bench.writer.add_next_hop(linux).unwrap();
    let net = "203.0.113.0/24".parse().unwrap();
    bench.writer.insert4(net, linux).unwrap();
    for (mode, wanted) in [
        (RpFilter::Off, Verdict::Forward(PortId(1))),
        (RpFilter::Loose, Verdict::Forward(PortId(1))),
        (RpFilter::Strict, Verdict::Punt(Reason::Unsupported)),
    ] {
        bench.ingress.rp_filter = mode;
        let packet = frame(0xcb00_7105, THERE, 64, 28);
        assert_eq!(bench.verdict(packet), wanted, "{mode:?}");
    }
}

/// A frame with an IPv6 packet from 2001:db8::1 to 2001:db8::2.
fn frame6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut octets = [&OURS.0[..], &[2, 0, 0, 0, 0, 9, 0x86, 0xdd]].concat();
    octets.extend([0x60, 0, 0, 0, 0, payload.len() as u8, next, 64]);
    for host in [1, 2] {
        octets.extend((0x2001_0db8_u128 << 96 | host).to_be_bytes());
    }
    octets.extend(payload);
    octets
}

/// Linux prefers a macvlan's own routes for IPv6 packets that come in by it: rt6_score_route().
#[test]
fn from_a_macvlan_back_to_its_port_is_left_to_linux() {
    let mut bench = Bench::new();
    let way = bench.writer.add_next_hop(forward_by(1, 1500)).unwrap();
    bench
        .writer
        .insert6("2001:db8::/64".parse().unwrap(), way)
        .unwrap();
    let mut verdict = |below: u16| {
        bench.ingress.below = PortId(below);
        bench.verdict(frame6(17, &[0; 8]))
    };
    assert_eq!(verdict(1), Verdict::Punt(Reason::Redirect));
    assert_eq!(verdict(0), Verdict::Forward(PortId(1)));
}

/// Linux may answer neighbour discovery for another (`proxy_ndp`), also behind extension headers.
#[test]
fn neighbour_discovery_is_left_to_linux() {
    let mut bench = Bench::new();
    let way = bench.writer.add_next_hop(forward_by(1, 1500)).unwrap();
    let all = "2000::/3".parse().unwrap();
    bench.writer.insert6(all, way).unwrap();
    let mut verdict = |next: u8, payload: &[u8]| bench.verdict(frame6(next, payload));
    let options = |kind: u8| [58, 0, 1, 4, 0, 0, 0, 0, kind, 0, 0, 0, 0, 0, 0, 0];
    for kind in 133..=137 {
        let linux = Verdict::Punt(Reason::SpecialAddress);
        assert_eq!(verdict(58, &options(kind)[8..]), linux, "{kind}");
        assert_eq!(verdict(60, &options(kind)), linux, "{kind} behind options");
    }
    let sent = Verdict::Forward(PortId(1));
    for kind in [128, 132, 138] {
        assert_eq!(verdict(58, &options(kind)[8..]), sent, "{kind}");
        assert_eq!(verdict(60, &options(kind)), sent, "{kind} behind options");
    }
    assert_eq!(verdict(58, &[]), sent, "nothing behind the header");
}

/// Linux is to ask for neighbours that packets go to, and for no others.
#[test]
fn use_of_unconfirmed_neighbours_is_noted() {
    let mut bench = Bench::new();
    let marks = [1, 2, 3].map(|host| UseMark::new(1, [10, 0, 0, host].into()));
    let unconfirmed = |mark| match forward_by(1, 1500) {
        NextHop::Forward(way) => NextHop::Forward(Adjacency {
            unconfirmed: Some(mark),
            ..way
        }),
        other => other,
    };
    let ways = marks.map(|mark| bench.writer.add_next_hop(unconfirmed(mark)).unwrap());
    let used = |bench: &mut Bench| marks.map(|mark| bench.writer.take_use(mark));
    let group = NextHop::Group(Group::new(&[(ways[1], 1)]));
    let group = bench.writer.add_next_hop(group).unwrap();
    for (net, way) in [("203.0.113.0/24", ways[0]), ("198.51.100.0/24", group)] {
        bench.writer.insert4(net.parse().unwrap(), way).unwrap();
    }
    bench
        .writer
        .insert4("192.0.2.0/24".parse().unwrap(), ways[2])
        .unwrap();
    assert_eq!(
        bench.verdict(frame(HERE, THERE, 64, 28)),
        Verdict::Forward(PortId(1))
    );
    assert_eq!(used(&mut bench), [false; 3], "it is confirmed");
    for (target, wanted) in [
        (0xcb00_7105, [true, false, false]),
        (0xc633_6405, [false, true, false]),
    ] {
        assert_eq!(
            bench.verdict(frame(HERE, target, 64, 28)),
            Verdict::Forward(PortId(1))
        );
        assert_eq!(used(&mut bench), wanted);
    }
    let too_long = frame(HERE, 0xc000_0205, 64, 1501);
    assert!(matches!(
        bench.verdict(too_long),
        Verdict::Punt(Reason::Fragmentation)
    ));
    assert_eq!(used(&mut bench), [false; 3], "nothing went there");
}

#[test]
fn a_flow_stays_on_its_path_and_flows_spread() {
    let mut bench = Bench::new();
    let paths = [1, 2].map(|port| bench.writer.add_next_hop(forward_by(port, 1500)).unwrap());
    let group = Group::new(&[(paths[0], 1), (paths[1], 1)]);
    let group = bench.writer.add_next_hop(NextHop::Group(group)).unwrap();
    bench
        .writer
        .insert4("203.0.113.0/24".parse().unwrap(), group)
        .unwrap();
    let mut taken = [0; 2];
    for port in 0..200u8 {
        let mut packet = frame(HERE, 0xcb00_7101, 64, 28);
        packet[35] = port; // source port
        let first = bench.verdict(packet.clone());
        assert_eq!(first, bench.verdict(packet));
        let Verdict::Forward(out) = first else {
            panic!("{first:?}")
        };
        taken[usize::from(out.0) - 1] += 1;
    }
    assert!(taken.iter().all(|&count| count > 60), "{taken:?}");
}

#[test]
fn a_checksum_left_to_us_is_completed() {
    let mut bench = Bench::new();
    let mut sent = frame(HERE, THERE, 64, 40);
    sent[38..40].copy_from_slice(&20u16.to_be_bytes()); // UDP length
    let pseudo = bora_wire::checksum::pseudo_v4(HERE.into(), THERE.into(), Protocol::UDP, 20);
    sent[40..42].copy_from_slice(&pseudo.fold().to_be_bytes());
    let (_, octets) = bench.run(&[sent]).remove(0);
    let l4 = &octets[34..54];
    let found = bora_wire::checksum::transport(pseudo, Protocol::UDP, l4);
    assert_eq!(found, bora_wire::checksum::Transport::Valid);
}

proptest! {
    #[test]
    fn every_packet_gets_a_verdict(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..64),
        plausible in any::<bool>(),
    ) {
        let mut bench = Bench::new();
        let mut frames = frames;
        if plausible {
            for frame in frames.iter_mut().filter(|frame| frame.len() >= 14) {
                frame[..6].copy_from_slice(&OURS.0);
                frame[12..14].copy_from_slice(&[0x08, 0x00]);
            }
        }
        for (verdict, _) in bench.run(&frames) {
            prop_assert_ne!(verdict, Verdict::Pending);
        }
    }

    #[test]
    fn the_hash_depends_on_every_field(source: u128, destination: u128, ports: u32, bit in 0..32u32) {
        let hash = |source, destination, ports| {
            flow_hash(source, destination, Protocol::TCP, ports)
        };
        let base = hash(source, destination, ports);
        prop_assert_eq!(base, hash(source, destination, ports));
        // equal hashes of different flows happen, but not for three changes at once
        let others = [
            hash(source ^ (1 << bit), destination, ports),
            hash(source, destination ^ (1 << bit), ports),
            hash(source, destination, ports ^ (1 << bit)),
        ];
        prop_assert!(others.iter().any(|&other| other != base));
    }
}

/// The packet with a word of IPv4 options that say nothing.
fn with_options(frame: &[u8]) -> Vec<u8> {
    let mut octets = frame.to_vec();
    octets[14] = 0x46;
    octets.splice(34..34, [1, 1, 1, 0]);
    let length = (octets.len() - 14) as u16;
    octets[16..18].copy_from_slice(&length.to_be_bytes());
    ipv4::Packet::new_unchecked(&mut octets[14..]).fill_checksum();
    octets
}

#[test]
fn a_port_without_an_xdp_program_is_sorted_here() {
    const OWN: u32 = 0x0a00_0101; // 10.0.1.1
    let mut bench = Bench::new();
    let local = NextHop::Punt {
        reason: Reason::Local,
        port: None,
    };
    let local = bench.writer.add_next_hop(local).unwrap();
    bench
        .writer
        .insert4(Prefix4::masked(OWN, 32), local)
        .unwrap();
    let (good, forged) = (frame(HERE, THERE, 64, 100), frame(OWN, THERE, 64, 100));
    let to_us = frame(HERE, OWN, 64, 100);
    let mut foreign = good.clone();
    foreign[5] ^= 1;
    let open = Gate {
        up: true,
        ..Gate::default()
    };
    for mode in [RpFilter::Off, RpFilter::Loose, RpFilter::Strict] {
        bench.ingress.gate = Some(open);
        bench.ingress.rp_filter = mode;
        assert_eq!(bench.verdict(good.clone()), Verdict::Forward(PortId(1)));
        let punted = Verdict::Punt(Reason::Local);
        assert_eq!(bench.verdict(forged.clone()), punted, "{mode:?}");
        assert_eq!(bench.verdict(to_us.clone()), punted);
        // routing protocols send to a neighbour with TTL 1: no exception, which would have a budget
        assert_eq!(bench.verdict(frame(HERE, OWN, 1, 100)), punted);
        assert_eq!(bench.verdict(with_options(&to_us)), punted);
        let exception = Verdict::Punt(Reason::Options);
        assert_eq!(bench.verdict(with_options(&good)), exception);
        // as Linux does with PACKET_OTHERHOST
        let dropped = Verdict::Drop(Reason::OtherHost);
        assert_eq!(bench.verdict(foreign.clone()), dropped);
    }
    bench.ingress.gate = Some(Gate {
        promiscuous: true,
        ..open
    });
    let punted = Verdict::Punt(Reason::ForeignMac);
    assert_eq!(bench.verdict(foreign.clone()), punted);
    bench.ingress.gate = Some(Gate {
        kernel4: true,
        ..open
    });
    assert_eq!(bench.verdict(good.clone()), Verdict::Punt(Reason::Guard));
    bench.ingress.gate = Some(Gate::default());
    assert_eq!(bench.verdict(good), Verdict::Drop(Reason::PortDown));
}
