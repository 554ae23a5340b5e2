use super::*;
use std::string::ToString;
use std::vec::Vec;

/// UDP 1000 -> 2000 from 192.0.2.1 to 198.51.100.2.
const UDP4: [u8; 32] = [
    0x45, 0x00, 0x00, 0x20, 0x00, 0x07, 0x00, 0x00, 0x40, 0x11, 0x8e, 0x8f, 192, 0, 2, 1, 198, 51,
    100, 2, 0x03, 0xe8, 0x07, 0xd0, 0x00, 0x0c, 0x33, 0x16, b'b', b'o', b'r', b'a',
];

fn flow4(change: impl Fn(&mut [u8; 32])) -> Flow {
    let mut bytes = UDP4;
    change(&mut bytes);
    Flow::of_ipv4(&ipv4::Packet::new_checked(bytes).unwrap())
}

/// An IPv6 packet with flow label 0xabcde.
fn packet6(next_header: u8, payload: &[u8]) -> ipv6::Packet<Vec<u8>> {
    let mut bytes = std::vec![
        0x60,
        0x0a,
        0xbc,
        0xde,
        0,
        payload.len() as u8,
        next_header,
        64
    ];
    for last in [1, 2] {
        bytes.extend([
            0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last,
        ]);
    }
    bytes.extend(payload);
    ipv6::Packet::new_checked(bytes).unwrap()
}

fn flow6(next_header: u8, payload: &[u8]) -> Result<Flow, Error> {
    Flow::of_ipv6(&packet6(next_header, payload))
}

const PORTS: [u8; 4] = [0x03, 0xe8, 0x07, 0xd0];

#[test]
fn five_tuple_of_ipv4() {
    let flow = flow4(|_| {});
    assert_eq!(flow.src, "192.0.2.1".parse::<IpAddr>().unwrap());
    assert_eq!(flow.dst, "198.51.100.2".parse::<IpAddr>().unwrap());
    assert_eq!((flow.protocol, flow.flow_label), (Protocol::UDP, 0));
    assert_eq!((flow.src_port, flow.dst_port), (1000, 2000));
    assert_eq!(flow.to_string(), "UDP 192.0.2.1:1000 > 198.51.100.2:2000");
}

#[test]
fn which_protocols_have_ports() {
    for protocol in 0..=255 {
        let flow = flow4(|bytes| bytes[9] = protocol);
        let expected = match protocol {
            6 | 17 | 33 | 50 | 132 | 136 => (1000, 2000),
            _ => (0, 0),
        };
        assert_eq!(
            (flow.src_port, flow.dst_port),
            expected,
            "protocol {protocol}"
        );
    }
}

#[test]
fn all_fragments_of_a_datagram_are_one_flow() {
    let first = flow4(|bytes| bytes[6] = 0x20);
    let last = flow4(|bytes| {
        bytes[7] = 0xb9;
        bytes[20..24].fill(0xee);
    });
    assert_eq!(first, last);
    assert_eq!((first.src_port, first.dst_port), (0, 0));
    assert_eq!(flow4(|bytes| bytes[6] = 0x40).src_port, 1000); // do not fragment
    assert_eq!(first.to_string(), "UDP 192.0.2.1 > 198.51.100.2");
}

#[test]
fn a_packet_without_room_for_ports_has_none() {
    let flow = flow4(|bytes| bytes[3] = 23);
    assert_eq!((flow.src_port, flow.dst_port), (0, 0));
    assert_eq!(flow4(|bytes| bytes[3] = 24).dst_port, 2000);
    // Options move the ports.
    let flow = flow4(|bytes| {
        bytes[0] = 0x46;
        bytes[20..24].fill(1);
        bytes[24..28].copy_from_slice(&[0, 7, 0, 8]);
    });
    assert_eq!((flow.src_port, flow.dst_port), (7, 8));
}

#[test]
fn ipv6_behind_extension_headers() {
    let flow = flow6(17, &PORTS).unwrap();
    assert_eq!(
        (flow.src_port, flow.dst_port, flow.flow_label),
        (1000, 2000, 0xabcde)
    );
    let text = "UDP [2001:db8::1]:1000 > [2001:db8::2]:2000 label 0xabcde";
    assert_eq!(flow.to_string(), text);
    let mut payload = std::vec![6, 0, 1, 4, 0, 0, 0, 0];
    payload.extend(PORTS);
    let flow = flow6(60, &payload).unwrap();
    assert_eq!(
        (flow.protocol, flow.src_port, flow.dst_port),
        (Protocol::TCP, 1000, 2000)
    );
    assert_eq!(flow6(60, &payload[..7]), Err(Error::Truncated));
}

#[test]
fn ipv6_fragments_have_no_ports() {
    for offset_and_more in [[0, 0], [0, 1], [0x05, 0xc8]] {
        let mut payload = std::vec![17, 0];
        payload.extend(offset_and_more);
        payload.extend([0, 0, 0, 1]);
        payload.extend(PORTS);
        let flow = flow6(44, &payload).unwrap();
        assert_eq!(
            (flow.protocol, flow.src_port, flow.dst_port),
            (Protocol::UDP, 0, 0)
        );
    }
}

fn frame(ethertype: &[u8], payload: &[u8]) -> Vec<u8> {
    [&[2; 12], ethertype, payload].concat()
}

#[test]
fn out_of_a_frame() {
    let expected = Ok(Some(flow4(|_| {})));
    assert_eq!(Flow::of_frame(&frame(&[0x08, 0x00], &UDP4)), expected);
    let tagged = [0x81, 0x00, 0x00, 0x64, 0x08, 0x00];
    assert_eq!(Flow::of_frame(&frame(&tagged, &UDP4)), expected);
    let packet = packet6(17, &PORTS).into_inner();
    let flow = Flow::of_frame(&frame(&[0x86, 0xdd], &packet));
    assert_eq!(flow, flow6(17, &PORTS).map(Some));
    assert_eq!(Flow::of_frame(&frame(&[0x08, 0x06], &[])), Ok(None));
}

#[test]
fn errors_of_every_layer() {
    assert_eq!(Flow::of_frame(&[2; 13]), Err(Error::Truncated));
    assert_eq!(
        Flow::of_frame(&frame(&[0x81, 0x00], &[0])),
        Err(Error::Truncated)
    );
    assert_eq!(
        Flow::of_frame(&frame(&[0x08, 0x00], &[0x65; 40])),
        Err(Error::BadVersion)
    );
    assert_eq!(
        Flow::of_frame(&frame(&[0x86, 0xdd], &UDP4)),
        Err(Error::Truncated)
    );
}
