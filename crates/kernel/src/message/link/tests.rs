//! VLAN devices, as netlink-packet-route writes them.

use netlink_packet_core::Emitable;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVlan, LinkAttribute, LinkInfo, LinkMessage, VlanProtocol,
    VlanQosMapping,
};

use super::*;

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
