use super::*;
use crate::message::{Message, Neighbour};
use crate::model::Model;
use crate::world::Port;

const HOSTS: u32 = 3 * TOGETHER as u32 + 7;

fn port(id: u16, mtu: u32) -> Port {
    Port {
        id: PortId(id),
        mac: [2, 0, 0, 0, 0, id as u8],
        mtu,
        shaped: false,
        tunnel: None,
        peer: None,
    }
}

fn key(device: u32, host: u32) -> HopKey {
    HopKey {
        device,
        gateway: Some((0x0a00_0000 + host).to_be_bytes().into()),
        v6: false,
        mtu: 0,
    }
}

/// Makes a host known, and returns its next hop.
fn host(model: &mut Model, key: HopKey) -> NextHopId {
    let neighbour = Neighbour {
        device: key.device,
        address: key.gateway.unwrap(),
        mac: Some([2, 0, 0, 0, 0, 9]),
        state: libc::NUD_REACHABLE,
        learned: false,
        managed: false,
        validated: false,
        protocol: 0,
        held: false,
    };
    model.apply(Message::Neighbour(neighbour, false));
    model.hops.acquire_host(&model.world, key).unwrap()
}

/// An MTU changes the next hops of the neighbours behind its port, some in each turn, and no others.
#[test]
fn an_mtu_changes_the_next_hops_of_its_port_in_turns() {
    let (fib, _readers) = bora_fib::new(bora_fib::FibConfig::default()).unwrap();
    let mut model = Model::new(fib).unwrap();
    model.set_ports(BTreeMap::from([(1, port(0, 1500)), (2, port(1, 1500))]));
    let ids: Vec<_> = (0..HOSTS).map(|n| host(&mut model, key(1, n))).collect();
    let other = host(&mut model, key(2, 0));
    model.sync();
    let with = |model: &Model, mtu: u16| {
        let way = |id: &&NextHopId| match model.hops.fib.next_hop(**id) {
            Some(NextHop::Forward(way)) => way.mtu == mtu,
            other => panic!("{other:?}"),
        };
        ids.iter().filter(way).count()
    };
    model.set_ports(BTreeMap::from([(1, port(0, 1500)), (2, port(1, 1400))]));
    model.hops.refresh_some(&model.world);
    assert!(!model.hops.is_outdated() && with(&model, 1500) == ids.len());
    let changed = model.hops.fib.next_hop(other);
    assert!(matches!(changed, Some(NextHop::Forward(way)) if way.mtu == 1400));

    model.set_ports(BTreeMap::from([(1, port(0, 1300)), (2, port(1, 1400))]));
    for turn in 1..=4 {
        assert!(model.hops.is_outdated() && !model.is_settled());
        model.hops.refresh_some(&model.world);
        assert_eq!(with(&model, 1300), ids.len().min(turn * TOGETHER));
    }
    assert!(!model.hops.is_outdated());
}
