//! Datagrams octet by octet. Wireshark's dissector (tshark 4.0) shows the expected ones without complaint, with the
//! values beside them.

use super::*;

const UPTIME: Duration = Duration::from_millis(0x0102);

fn sample(header: &[u8]) -> FlowSample<'_> {
    FlowSample {
        sequence: 7,
        source: 3,
        rate: 1000,
        pool: 70_000,
        drops: 2,
        input: 3,
        output: Output::Interface(4),
        length: 1400,
        header,
        vlans: None,
        route: None,
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
fn a_packet_with_vlan_and_route() {
    let mut writer = Writer::new("192.0.2.1".parse().unwrap());
    let frame = [&[2; 12][..], &[0x81, 0, 0x60, 100, 8, 0, 0x45, 0, 0]].concat();
    let whole = FlowSample {
        vlans: Some(Vlans {
            source: vlan(&frame),
            destination: (0, 0),
        }),
        route: Some(Route {
            next_hop: Some("2001:db8::1".parse().unwrap()),
            source_length: 24,
            destination_length: 16,
        }),
        ..sample(&frame)
    };
    assert_eq!(writer.flow(&whole, UPTIME), None);
    let expected = [
        "00000005 00000001c0000201 00000000 00000001 00000102 00000001", // one sample of 192.0.2.1
        "00000001 0000008c 00000007 00000003 000003e8 00011170 00000002", // sequence 7, 1 in 1000 of 70000, drops 2
        "00000003 00000004 00000003", // in 3, out 4, three records
        "00000001 00000028 00000001 0000057c 00000004 00000015", // 1404 octets, 4 stripped, 21 shown
        "020202020202 020202020202 81006064 0800 450000 000000",
        "000003e9 00000010 00000064 00000003 00000000 00000000", // VLAN 100, priority 3
        "000003ea 0000001c 00000002 20010db8000000000000000000000001 00000018 00000010",
    ];
    let expected = expected.concat().replace(' ', "");
    assert_eq!(hex(&writer.finish(UPTIME).unwrap()), expected);
    assert_eq!(writer.finish(UPTIME), None);
}

#[test]
fn counters_of_an_interface() {
    let mut writer = Writer::new("2001:db8::2".parse().unwrap());
    let interface = Interface {
        index: 3,
        speed: 10_000_000_000,
        is_enabled: true,
        is_running: true,
        received: Counters {
            octets: 1 << 40,
            packets: (1 << 32) + 5,
            discards: 6,
            errors: 7,
        },
        sent: Counters {
            octets: 8,
            packets: 9,
            discards: 10,
            errors: 11,
        },
    };
    assert_eq!(writer.counters(1, &interface, UPTIME), None);
    let expected = [
        "00000005 0000000220010db8000000000000000000000002 00000000 00000001 00000102 00000001",
        "00000002 0000006c 00000001 00000003 00000001 00000001 00000058",
        "00000003 00000006 00000002540be400 00000001 00000003", // Ethernet, 10 Gbit/s, full duplex, up and up
        "0000010000000000 00000005 ffffffff ffffffff 00000006 00000007 ffffffff",
        "0000000000000008 00000009 ffffffff ffffffff 0000000a 0000000b 00000000",
    ];
    let expected = expected.concat().replace(' ', "");
    assert_eq!(hex(&writer.finish(UPTIME).unwrap()), expected);
}

#[test]
fn datagrams_are_full_and_never_too_long() {
    for (octets, samples) in [(1, 20), (128, 7), (MAX_HEADER, 1)] {
        let mut writer = Writer::new("2001:db8::2".parse().unwrap());
        let header = vec![0; octets];
        let full: Vec<_> = (0..100)
            .filter_map(|_| writer.flow(&sample(&header), UPTIME))
            .collect();
        assert_eq!(full.len(), 99 / samples, "{octets}");
        for (number, datagram) in full.iter().enumerate() {
            assert!(datagram.len() <= LONGEST && datagram.len() % 4 == 0);
            assert_eq!(datagram[28..32], (number as u32 + 1).to_be_bytes());
            assert_eq!(datagram[36..40], (samples as u32).to_be_bytes());
        }
    }
}

#[test]
fn where_packets_went() {
    let ifindex = |number| (number == 1).then_some(17);
    for (outcome, word) in [
        (Outcome::Sent(1), 17),
        (Outcome::Sent(2), 0),
        (Outcome::ToLinux(Reason::Guard), 0),
        (Outcome::ToLinux(Reason::Local), 0x3fff_ffff),
        (Outcome::ToLinux(Reason::TtlExceeded), 0x4000_0101),
        (Outcome::ToLinux(Reason::NoRoute), 0x4000_0000),
        (Outcome::Dropped(Reason::Rule), 0x4000_0102),
        (Outcome::Dropped(Reason::QueueFull), 0x4000_0103),
        (Outcome::Dropped(Reason::PuntBudget), 0x4000_0105),
        (Outcome::Dropped(Reason::NoOutput), 0x4000_0100),
    ] {
        let found = Output::of(outcome, ifindex).word();
        assert_eq!(found, word, "{outcome:?}: {found:#x}");
    }
}

#[test]
fn tags() {
    assert_eq!(vlan(&[0; 14]), (0, 0));
    let frame = [&[0; 12][..], &[0x88, 0xa8, 0xef, 0xff]].concat();
    assert_eq!(vlan(&frame), (4095, 7));
}
