//! What a driver needs from a card: registers, shared memory, and time.

/// One card. Simulated cards ([`super::Model`]) and the plain memory of unit tests implement it;
/// for a real card it would map the registers and a DMA area.
pub(crate) trait Device {
    /// Reads a register by its number; all ones if the card does not answer.
    fn read(&mut self, register: u8) -> u32;
    /// Writes a register.
    fn write(&mut self, register: u8, value: u32);
    /// The host's memory that cards can access, from bus address 0.
    fn memory(&self) -> &[u8];
    /// The host's memory, to write.
    fn memory_mut(&mut self) -> &mut [u8];
    /// The card's time, ns.
    fn now(&self) -> u64;

    /// The octets at a bus address.
    fn octets(&self, address: u32, length: usize) -> &[u8] {
        &self.memory()[address as usize..][..length]
    }

    /// The octets at a bus address, to write.
    fn octets_mut(&mut self, address: u32, length: usize) -> &mut [u8] {
        &mut self.memory_mut()[address as usize..][..length]
    }

    /// The little-endian word at a bus address.
    fn word(&self, address: u32) -> u64 {
        let octets = self.octets(address, 8).first_chunk();
        u64::from_le_bytes(*octets.expect("8 octets"))
    }

    /// Sets the little-endian word at a bus address.
    fn set_word(&mut self, address: u32, value: u64) {
        self.octets_mut(address, 8)
            .copy_from_slice(&value.to_le_bytes());
    }
}
