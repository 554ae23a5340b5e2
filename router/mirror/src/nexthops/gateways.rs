//! The gateways that routes lead through, by device and address.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use crate::keys::HopKey;

type Gateway = (u32, IpAddr);

#[derive(Default)]
pub(crate) struct Gateways {
    /// Use counts of gateways in all paths of routes.
    uses: BTreeMap<Gateway, u32>,
    /// Use counts of gateways in multipath routes.
    members: HashMap<Gateway, u32>,
    /// Those that were added, removed or changed.
    touched: Vec<Gateway>,
}

impl Gateways {
    /// Whether routes lead through a neighbour.
    pub(crate) fn contains(&self, device: u32, address: IpAddr) -> bool {
        self.uses.contains_key(&(device, address))
    }

    /// Whether a neighbour is the gateway of one of several paths.
    pub(crate) fn is_member(&self, device: u32, address: IpAddr) -> bool {
        self.members.contains_key(&(device, address))
    }

    /// Records that a neighbour changed, if it is a gateway.
    pub(crate) fn touch(&mut self, device: u32, address: IpAddr) {
        if self.contains(device, address) {
            self.touched.push((device, address));
        }
    }

    /// Has all gateways behind a device looked at again.
    pub(crate) fn touch_behind(&mut self, device: u32) {
        let first = (device, IpAddr::from([0; 4]));
        let keys = self.uses.range(first..).map(|(&key, _)| key);
        let there = keys.take_while(|key| key.0 == device);
        self.touched.extend(there);
    }

    /// The gateways that changed since the last call.
    pub(crate) fn take(&mut self) -> Vec<Gateway> {
        std::mem::take(&mut self.touched)
    }

    pub(super) fn count(&mut self, keys: &[HopKey], more: bool) {
        for key in keys {
            let Some(gateway) = key.gateway.map(|gateway| (key.device, gateway)) else {
                continue;
            };
            let uses = self.uses.entry(gateway).or_default();
            if more {
                *uses += 1;
            } else {
                *uses -= 1;
            }
            match *uses {
                0 => drop(self.uses.remove(&gateway)),
                1 if more => {}
                _ => continue,
            }
            self.touched.push(gateway);
        }
    }

    /// Counts the uses of gateways in routes with several paths.
    pub(super) fn count_members(&mut self, keys: &[HopKey], more: bool) {
        for key in keys {
            let Some(gateway) = key.gateway else { continue };
            let uses = self.members.entry((key.device, gateway)).or_default();
            *uses = if more { *uses + 1 } else { *uses - 1 };
            if *uses == 0 {
                self.members.remove(&(key.device, gateway));
            }
        }
    }
}
