//! VLAN devices, as netlink-packet-route writes them, and tunnels.

use netlink_packet_core::Emitable;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVlan, LinkAttribute, LinkInfo, LinkMessage, VlanProtocol,
    VlanQosMapping,
};

use super::*;
use crate::message::Vxlan;
use crate::request::Body;

fn read(info: Vec<InfoVlan>, more: Vec<LinkAttribute>) -> Option<Vlan> {
    let mut message = LinkMessage::default();
    message.header.index = 7;
    message.attributes = vec![
        LinkAttribute::IfName("e0.100".into()),
        LinkAttribute::Link(3),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Vlan),
            LinkInfo::Data(InfoData::Vlan(info)),
        ]),
    ];
    message.attributes.extend(more);
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload);
    decode(&payload).unwrap().unwrap().vlan
}

#[test]
fn a_vlan_device_is_read() {
    let known = Vlan {
        below: 3,
        protocol: 0x8100,
        id: 100,
        egress_priorities: [0; 8],
        maps_ingress: false,
    };
    assert_eq!(read(vec![InfoVlan::Id(100)], vec![]), Some(known));
    let service = vec![
        InfoVlan::Id(4000),
        InfoVlan::Protocol(VlanProtocol::Ieee8021Ad),
    ];
    let wanted = Vlan {
        protocol: 0x88a8,
        id: 4000,
        ..known
    };
    assert_eq!(read(service, vec![]), Some(wanted));
    let mapped = vec![
        InfoVlan::Id(100),
        InfoVlan::EgressQos(vec![
            VlanQosMapping::Mapping(6, 5),
            VlanQosMapping::Mapping(0, 1),
            VlanQosMapping::Mapping(8, 7),
        ]),
        InfoVlan::IngressQos(vec![VlanQosMapping::Mapping(3, 4)]),
    ];
    let wanted = Vlan {
        egress_priorities: [1, 0, 0, 0, 0, 0, 5, 0],
        maps_ingress: true,
        ..known
    };
    assert_eq!(read(mapped, vec![]), Some(wanted));
    let elsewhere = read(vec![InfoVlan::Id(100)], vec![LinkAttribute::LinkNetNsId(1)]);
    assert_eq!(elsewhere.unwrap().below, 0);
}

/// A tunnel with these attributes of its kind, and these of the link.
fn tunnel(kind: &str, data: &[(u16, &[u8])], more: &[(u16, &[u8])]) -> Option<Tunnel> {
    let with = |body: Body, all: &[(u16, &[u8])]| {
        let add = |body: Body, one: &(u16, &[u8])| body.attribute(one.0, one.1);
        all.iter().fold(body, add)
    };
    let data = with(Body::new(&[]), data);
    let info = Body::new(&[])
        .attribute(libc::IFLA_INFO_KIND, kind.as_bytes())
        .attribute(libc::IFLA_INFO_DATA, data.octets());
    let link = Body::new(&[0; 16]).attribute(libc::IFLA_LINKINFO, info.octets());
    decode(with(link, more).octets()).unwrap().unwrap().tunnel
}

#[test]
fn tunnels_are_read() {
    let ends: [(u16, &[u8]); 2] = [(6, &[10, 0, 0, 1]), (7, &[10, 0, 0, 2])];
    let key = [
        &ends[..],
        &[(2, &[0x20, 0]), (3, &[0, 0]), (4, &[0, 0, 0, 7])],
    ]
    .concat();
    let found = tunnel("gre", &key, &[]).unwrap();
    assert_eq!(
        (found.local, found.remote),
        ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    );
    let keys = TunnelKind::Gre {
        input_key: Some(7),
        output_key: None,
    };
    assert_eq!((found.kind, found.unsupported), (keys, None));
    let checksums = tunnel("gre", &[&ends[..], &[(3, &[0x80, 0])]].concat(), &[]).unwrap();
    assert!(checksums.unsupported.is_some());
    let elsewhere = tunnel("gre", &ends, &[(libc::IFLA_LINK_NETNSID, &[1, 0, 0, 0])]);
    assert!(
        elsewhere
            .unwrap()
            .unsupported
            .unwrap()
            .contains("namespace")
    );
    for (kind, protocol, v4, v6) in [
        ("ipip", None, true, false),
        ("ipip", Some(0), true, false),
        ("sit", None, false, true),
        ("sit", Some(0), true, true),
        ("sit", Some(4), true, false),
    ] {
        let protocol: Vec<u8> = protocol.into_iter().collect();
        let data: Vec<(u16, &[u8])> = match protocol.is_empty() {
            true => vec![],
            false => vec![(9, &protocol)],
        };
        let found = tunnel(kind, &data, &[]).unwrap().kind;
        assert_eq!(found, TunnelKind::Ip { v4, v6 }, "{kind} {protocol:?}");
    }
    let vxlan: [(u16, &[u8]); 4] = [
        (1, &70u32.to_ne_bytes()),
        (7, &[0]),
        (10, &[0x80, 0, 0x90, 0]),
        (15, &4789u16.to_be_bytes()),
    ];
    let wanted = Vxlan {
        vni: 70,
        port: 4789,
        source_ports: (0x8000, 0x9000),
        ..Vxlan::default()
    };
    let found = tunnel("vxlan", &vxlan, &[]).unwrap();
    assert_eq!(
        (found.kind, found.unsupported),
        (TunnelKind::Vxlan(wanted), None)
    );
    let over6: [(u16, &[u8]); 1] = [(16, &[0; 16])];
    assert_eq!(tunnel("vxlan", &over6, &[]), None);
}
