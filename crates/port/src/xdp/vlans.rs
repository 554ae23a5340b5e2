//! VLAN devices in the program (`xdp/vlan.h`).

use bora_contract::{MAX_INTERFACES, MAX_PORTS, PortSettings};
use libbpf_rs::{MapCore, MapFlags};

use super::error::ProgramError;
use super::program::{Program, port_row};

/// `struct interface_key`.
fn interface_key(ifindex: u32, tags: &[u8; 8]) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&ifindex.to_ne_bytes());
    key[4..].copy_from_slice(tags);
    key
}

/// Whether this is the number of a VLAN device.
fn check(settings: &PortSettings) -> Result<(), ProgramError> {
    match (MAX_PORTS..MAX_INTERFACES).contains(&settings.index.into()) {
        true => Ok(()),
        false => Err(ProgramError::Range {
            port: settings.index,
            queue: 0,
        }),
    }
}

impl Program {
    /// Adds a VLAN device, or changes its settings; `trunk` is the ifindex of its port.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn set_vlan(
        &self,
        (trunk, ifindex): (u32, u32),
        settings: &PortSettings,
    ) -> Result<(), ProgramError> {
        check(settings)?;
        self.find_device(settings.index, ifindex)?;
        let maps = &self.skeleton.maps;
        let slot = u32::from(settings.index).to_ne_bytes();
        let row = port_row(ifindex, settings);
        maps.tx_ports
            .update(&slot, &trunk.to_ne_bytes(), MapFlags::ANY)?;
        maps.ports.update(&slot, &row, MapFlags::ANY)?;
        self.set_interface(ifindex, &[0; 8], settings.index)?;
        self.set_interface(trunk, &settings.tags, settings.index)
    }

    /// Takes a VLAN device out, as it was set. Its packets are Linux's from now on.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn remove_vlan(
        &self,
        (trunk, ifindex): (u32, u32),
        settings: &PortSettings,
    ) -> Result<(), ProgramError> {
        check(settings)?;
        self.forget_interface(trunk, &settings.tags)?;
        self.forget_interface(ifindex, &[0; 8])?;
        let maps = &self.skeleton.maps;
        let slot = u32::from(settings.index).to_ne_bytes();
        let none = port_row(0, &PortSettings::default());
        maps.ports.update(&slot, &none, MapFlags::ANY)?;
        maps.tx_ports.delete(&slot)?;
        self.find_device(settings.index, 0)
    }

    /// Says where the row of an interface is, or of the one behind these tags.
    pub(super) fn set_interface(
        &self,
        ifindex: u32,
        tags: &[u8; 8],
        index: u16,
    ) -> Result<(), ProgramError> {
        let key = interface_key(ifindex, tags);
        let slot = u32::from(index).to_ne_bytes();
        let interfaces = &self.skeleton.maps.interfaces;
        Ok(interfaces.update(&key, &slot, MapFlags::ANY)?)
    }

    /// Undoes [`Program::set_interface`].
    pub(super) fn forget_interface(
        &self,
        ifindex: u32,
        tags: &[u8; 8],
    ) -> Result<(), ProgramError> {
        let key = interface_key(ifindex, tags);
        let interfaces = &self.skeleton.maps.interfaces;
        if interfaces.lookup(&key, MapFlags::ANY)?.is_some() {
            interfaces.delete(&key)?;
        }
        Ok(())
    }

    /// Says how many VLAN devices there are, so that none costs nothing.
    pub fn set_vlan_count(&mut self, count: usize) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.vlan_count = count as u32;
        }
    }

    /// What the program itself has forwarded by a VLAN device: frames and octets received, frames and octets
    /// sent.
    pub fn vlan_counters(&self, number: u16) -> [u64; 4] {
        let row = usize::from(number).saturating_sub(MAX_PORTS) as u32;
        let counts = &self.skeleton.maps.vlan_counts;
        let per_cpu = counts.lookup_percpu(&row.to_ne_bytes(), MapFlags::ANY);
        let mut total = [0; 4];
        for value in per_cpu.ok().flatten().unwrap_or_default() {
            let (words, _) = value.as_chunks::<8>();
            for (sum, word) in total.iter_mut().zip(words) {
                *sum += u64::from_ne_bytes(*word);
            }
        }
        total
    }
}
