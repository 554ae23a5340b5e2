//! VLAN devices, bonds, macvlans, PPPoE sessions and tunnels in the program (`router/xdp/bpf/device.h`).

use bora_contract::{MAX_BOND_PORTS, MAX_INTERFACES, MAX_PORTS, PortSettings};
use libbpf_rs::{MapCore, MapFlags};

use super::error::ProgramError;
use super::program::{Headers, PLAIN, Program, port_row};
use super::skeleton::types;

/// `struct interface_key`.
fn interface_key(ifindex: u32, (tags, session): Headers) -> [u8; 16] {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&ifindex.to_ne_bytes());
    key[4..12].copy_from_slice(&tags);
    key[12..14].copy_from_slice(&session.to_be_bytes());
    key
}

/// `struct macvlan_key`.
fn macvlan_key(ifindex: u32, settings: &PortSettings) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&interface_key(ifindex, (settings.tags, 0)));
    key[16..22].copy_from_slice(&settings.mac);
    key
}

fn headers(settings: &PortSettings) -> Headers {
    (settings.tags, settings.session)
}

/// Whether this is the number of a VLAN device, bond or macvlan.
fn check(settings: &PortSettings) -> Result<(), ProgramError> {
    match (MAX_PORTS..MAX_INTERFACES).contains(&settings.index.into()) {
        true => Ok(()),
        false => Err(ProgramError::Range {
            port: settings.index,
            queue: 0,
        }),
    }
}

/// A VLAN device, a bond, a macvlan, a PPPoE session or a tunnel, as the program knows it.
#[derive(Clone, Copy, Debug)]
pub struct OnPorts<'a> {
    /// Index of the device.
    pub ifindex: u32,
    /// Index of the port or bond below a VLAN device or a PPPoE session; a bond's or macvlan's own index.
    pub lower: u32,
    /// Indices of the ports that its packets come in by.
    pub ports: &'a [u32],
    /// Number, tags, and what it has of a port.
    pub settings: &'a PortSettings,
    /// A bond's transmit hash (BOND_XMIT_POLICY_*), and the numbers of the ports that can send.
    pub bond: Option<(u8, &'a [u16])>,
    /// Interfaces and tags that packets of a bridge, or of what is on one, come in by with a tag.
    pub tagged: &'a [(u32, [u8; 8])],
    /// Whether its packets are those for its address: a macvlan. None leaves by it.
    pub is_station: bool,
    /// What a tunnel's packets are known by when they come in.
    pub tunnel: Option<&'a [TunnelKey]>,
}

/// What packets of a tunnel are known by; all in network order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelKey {
    /// Protocol of the outer IPv4 header.
    pub protocol: u8,
    /// Address of the far end; for VXLAN the UDP port, in the first two octets.
    pub far: [u8; 4],
    /// Address of the near end; for VXLAN zeros.
    pub near: [u8; 4],
    /// Key of GRE; for VXLAN the network identifier, in the first three octets.
    pub id: [u8; 4],
}

impl TunnelKey {
    /// `struct tunnel_key`.
    fn octets(self) -> [u8; 16] {
        let protocol = u32::from(self.protocol).to_ne_bytes();
        let words = [self.far, self.near, self.id, protocol];
        std::array::from_fn(|at| words[at / 4][at % 4])
    }
}

impl OnPorts<'_> {
    /// The interfaces by which its tags lead to it.
    fn lowers(&self) -> impl Iterator<Item = u32> {
        let has_headers = headers(self.settings) != PLAIN;
        let others = self.ports.iter().copied();
        let others = others.filter(|&port| port != self.lower);
        others.chain([self.lower]).filter(move |_| has_headers)
    }
}

/// `struct bond_ports`. Unused places repeat the others, so that every place is a port of the bond.
fn bond_ports(policy: u8, ports: &[u16]) -> [u8; 2 * MAX_BOND_PORTS + 4] {
    let mut octets = [0; 2 * MAX_BOND_PORTS + 4];
    let (places, rest) = octets.split_at_mut(2 * MAX_BOND_PORTS);
    for (place, port) in places.chunks_exact_mut(2).zip(ports.iter().cycle()) {
        place.copy_from_slice(&port.to_ne_bytes());
    }
    let count = ports.len().min(MAX_BOND_PORTS) as u16;
    rest[..2].copy_from_slice(&count.to_ne_bytes());
    rest[2..].copy_from_slice(&u16::from(policy).to_ne_bytes());
    octets
}

/// Deletes a key, if it is there.
fn forget(map: &impl MapCore, key: &[u8]) -> Result<(), ProgramError> {
    if map.lookup(key, MapFlags::ANY)?.is_some() {
        map.delete(key)?;
    }
    Ok(())
}

impl Program {
    /// Adds a device, or changes what is known of it.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn set_device(&self, device: OnPorts<'_>) -> Result<(), ProgramError> {
        let settings = device.settings;
        check(settings)?;
        self.find_device(settings.index, device.ifindex)?;
        let maps = &self.skeleton.maps;
        if let Some((policy, ports)) = device.bond {
            let row = u32::from(settings.index) - MAX_PORTS as u32;
            let ports = bond_ports(policy, ports);
            maps.bonds
                .update(&row.to_ne_bytes(), &ports, MapFlags::ANY)?;
        }
        let slot = u32::from(settings.index).to_ne_bytes();
        let row = port_row(device.ifindex, settings);
        maps.ports.update(&slot, &row, MapFlags::ANY)?;
        if let Some(keys) = device.tunnel {
            for key in keys {
                maps.tunnels.update(&key.octets(), &slot, MapFlags::ANY)?;
            }
            return Ok(());
        }
        if device.is_station {
            for &port in device.ports {
                let key = macvlan_key(port, settings);
                maps.macvlans.update(&key, &slot, MapFlags::ANY)?;
            }
            return Ok(());
        }
        self.set_interface(device.ifindex, PLAIN, settings.index)?;
        for lower in device.lowers() {
            self.set_interface(lower, headers(settings), settings.index)?;
        }
        for (port, tags) in device.tagged {
            self.set_interface(*port, (*tags, 0), settings.index)?;
        }
        Ok(())
    }

    /// Takes a device out, as it was set. Its packets are Linux's from now on.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn remove_device(&self, device: OnPorts<'_>) -> Result<(), ProgramError> {
        let settings = device.settings;
        check(settings)?;
        if let Some(keys) = device.tunnel {
            for key in keys {
                forget(&self.skeleton.maps.tunnels, &key.octets())?;
            }
        } else if device.is_station {
            for &port in device.ports {
                forget(&self.skeleton.maps.macvlans, &macvlan_key(port, settings))?;
            }
        } else {
            for lower in device.lowers() {
                self.forget_interface(lower, headers(settings))?;
            }
            for (port, tags) in device.tagged {
                self.forget_interface(*port, (*tags, 0))?;
            }
            self.forget_interface(device.ifindex, PLAIN)?;
        }
        let slot = u32::from(settings.index).to_ne_bytes();
        let none = port_row(0, &PortSettings::default());
        let ports = &self.skeleton.maps.ports;
        ports.update(&slot, &none, MapFlags::ANY)?;
        self.find_device(settings.index, 0)
    }

    /// Says where a station of a bridge is, of the device with this number: behind which port, and with which tags; `None`: that
    /// only Linux knows it.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn set_bridge_station(
        &self,
        (device, mac): (u16, [u8; 6]),
        place: Option<(u16, [u8; 8])>,
    ) -> Result<(), ProgramError> {
        let mut key = [0; size_of::<types::bridge_station_key>()];
        key[..4].copy_from_slice(&u32::from(device).to_ne_bytes());
        key[4..10].copy_from_slice(&mac);
        let stations = &self.skeleton.maps.bridge_stations;
        let Some((port, tags)) = place else {
            return forget(stations, &key);
        };
        let mut value = [0; size_of::<types::bridge_station>()]; // not seen yet
        value[8..16].copy_from_slice(&tags);
        value[16..20].copy_from_slice(&u32::from(port).to_ne_bytes());
        Ok(stations.update(&key, &value, MapFlags::ANY)?)
    }

    /// Says where the row of an interface is, or of the one behind these headers.
    pub(super) fn set_interface(
        &self,
        ifindex: u32,
        headers: Headers,
        index: u16,
    ) -> Result<(), ProgramError> {
        let key = interface_key(ifindex, headers);
        let slot = u32::from(index).to_ne_bytes();
        let interfaces = &self.skeleton.maps.interfaces;
        Ok(interfaces.update(&key, &slot, MapFlags::ANY)?)
    }

    /// Undoes [`Program::set_interface`].
    pub(super) fn forget_interface(
        &self,
        ifindex: u32,
        headers: Headers,
    ) -> Result<(), ProgramError> {
        let key = interface_key(ifindex, headers);
        forget(&self.skeleton.maps.interfaces, &key)
    }

    /// Says how many devices on ports there are, how many of them are macvlans, and how many tunnels there are, so
    /// that none costs nothing.
    pub fn set_device_count(&mut self, count: usize, macvlans: usize, tunnels: usize) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.device_count = count as u32;
            bss.macvlan_count = macvlans as u32;
            bss.tunnel_count = tunnels as u32;
        }
    }

    /// What the program itself has forwarded by a VLAN device or bond: frames and octets received, frames and octets
    /// sent.
    pub fn device_counters(&self, number: u16) -> [u64; 4] {
        let row = usize::from(number).saturating_sub(MAX_PORTS) as u32;
        let counts = &self.skeleton.maps.device_counts;
        let per_cpu = counts.lookup_percpu(&row.to_ne_bytes(), MapFlags::ANY);
        let mut total = [0; 4];
        let per_cpu = match per_cpu {
            Ok(per_cpu) => per_cpu.unwrap_or_default(),
            Err(error) => {
                log::warn!(
                    "device {number}: what the XDP program has forwarded is not counted: {error}"
                );
                return total;
            }
        };
        for value in per_cpu {
            let (words, _) = value.as_chunks::<8>();
            for (sum, word) in total.iter_mut().zip(words) {
                *sum += u64::from_ne_bytes(*word);
            }
        }
        total
    }
}
