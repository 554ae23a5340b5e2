//! The configuration space of a card: identity, BARs, capabilities (PCI Express Base Specification 7.5).

/// Octets of the space, the extended part included; that part has no capabilities.
pub(crate) const SIZE: usize = 4096;
/// Octets of BAR 0 (registers) and of BAR 4 (MSI-X).
pub(crate) const PAGE: u64 = 4096;
/// Octets of BAR 2, the aperture.
pub(crate) const APERTURE: u64 = 1 << 20;
/// Offset in BAR 4 of the MSI-X table, and of the pending bits.
pub(crate) const TABLE: u64 = 0;
pub(crate) const PENDING: u64 = 0x800;
/// MSI-X vectors: receive, transmit, all others.
pub(crate) const VECTORS: usize = 3;

const VENDOR: u16 = 0x1234;
const DEVICE: u16 = 0x4845;
const SUBSYSTEM: u16 = 1;
/// Class code 0x020000 (Ethernet), revision 1.
const CLASS_REVISION: u32 = 0x0200_0001;

const COMMAND: usize = 0x04;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;
/// SERR, parity and INTx disable can be set, too; they have no effect.
const COMMAND_WRITABLE: u16 = COMMAND_MEMORY | COMMAND_MASTER | 1 << 6 | 1 << 8 | 1 << 10;
/// Status: there is a list of capabilities.
const STATUS_CAPABILITIES: u16 = 1 << 4;
const BARS: usize = 0x10;
/// A 64-bit prefetchable memory BAR.
const BAR_PREFETCHABLE_64: u32 = 0b1100;

const POWER: usize = 0x40;
const MSIX: usize = 0x50;
const EXPRESS: usize = 0x60;
/// No soft reset: D3hot keeps the state.
const POWER_KEEPS: u16 = 1 << 3;
/// Role-based error reporting; function level reset.
const DEVICE_CAPABILITIES: u32 = 1 << 15 | 1 << 28;
const DEVICE_CONTROL: usize = EXPRESS + 8;
/// Relaxed ordering and no snoop allowed, reads of 512 octets: the values after reset.
const DEVICE_CONTROL_RESET: u16 = 0x2810;
const DEVICE_CONTROL_WRITABLE: u16 = 0x78FF;
const INITIATE_RESET: u8 = 1 << 7;
/// One lane of 2.5 GT/s; ASPM optionality compliance.
const LINK_CAPABILITIES: u32 = 1 << 22 | 1 << 4 | 1;
const LINK_STATUS: u16 = 1 << 4 | 1;

/// The configuration space of one card.
pub(crate) struct Config {
    octets: Box<[u8; SIZE]>,
    /// The bits that can be written.
    writable: Box<[u8; SIZE]>,
}

impl Config {
    /// The space after power-on.
    pub(crate) fn new() -> Self {
        let mut made = Self {
            octets: Box::new([0; SIZE]),
            writable: Box::new([0; SIZE]),
        };
        made.header();
        made.capabilities();
        made
    }

    fn header(&mut self) {
        self.set16(0x00, VENDOR);
        self.set16(0x02, DEVICE);
        self.allow16(COMMAND, COMMAND_WRITABLE);
        self.set16(0x06, STATUS_CAPABILITIES);
        self.set32(0x08, CLASS_REVISION);
        self.writable[0x0C] = 0xFF; // cache line size, without effect
        self.allow32(BARS, !(PAGE as u32 - 1));
        self.set32(BARS + 8, BAR_PREFETCHABLE_64);
        self.allow32(BARS + 8, !(APERTURE as u32 - 1));
        self.allow32(BARS + 12, u32::MAX);
        self.allow32(BARS + 16, !(PAGE as u32 - 1));
        self.set16(0x2C, VENDOR);
        self.set16(0x2E, SUBSYSTEM);
        self.octets[0x34] = POWER as u8;
        self.writable[0x3C] = 0xFF; // interrupt line, a note of the firmware's; there is no pin
    }

    fn capabilities(&mut self) {
        self.set16(POWER, (MSIX as u16) << 8 | 0x01);
        self.set16(POWER + 2, 3); // version
        self.set16(POWER + 4, POWER_KEEPS);
        self.allow16(POWER + 4, 3);
        self.set16(MSIX, (EXPRESS as u16) << 8 | 0x11);
        self.set16(MSIX + 2, VECTORS as u16 - 1);
        self.allow16(MSIX + 2, 0xC000);
        self.set32(MSIX + 4, TABLE as u32 | 4); // BAR 4
        self.set32(MSIX + 8, PENDING as u32 | 4);
        self.set16(EXPRESS, 0x10);
        self.set16(EXPRESS + 2, 2); // version; an endpoint
        self.set32(EXPRESS + 4, DEVICE_CAPABILITIES);
        self.set16(DEVICE_CONTROL, DEVICE_CONTROL_RESET);
        self.allow16(DEVICE_CONTROL, DEVICE_CONTROL_WRITABLE);
        self.set32(EXPRESS + 0x0C, LINK_CAPABILITIES);
        self.allow16(EXPRESS + 0x10, 0x01C0);
        self.set16(EXPRESS + 0x12, LINK_STATUS);
        self.set32(EXPRESS + 0x2C, 1 << 1); // 2.5 GT/s
        self.set16(EXPRESS + 0x30, 1);
        self.allow16(EXPRESS + 0x30, 0xF);
    }

    /// What a reset of this function leaves: everything as after power-on, but the BARs stay, as a virtual
    /// machine keeps them by itself and does not write them again.
    pub(crate) fn reset_function(&mut self) {
        let bars: [u8; 24] = std::array::from_fn(|at| self.octets[BARS + at]);
        *self = Self::new();
        self.octets[BARS..BARS + bars.len()].copy_from_slice(&bars);
    }

    /// Reads; all ones where the space ends.
    pub(crate) fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xFF);
        let Some(from) = self.octets.get(offset.min(SIZE as u64) as usize..) else {
            return;
        };
        let count = from.len().min(data.len());
        data[..count].copy_from_slice(&from[..count]);
    }

    /// Writes what can be written; returns whether a function level reset is asked for.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> bool {
        let mut reset = false;
        let first = offset.min(SIZE as u64) as usize;
        for (at, &octet) in (first..SIZE).zip(data) {
            let mask = self.writable[at];
            self.octets[at] = self.octets[at] & !mask | octet & mask;
            reset |= at == DEVICE_CONTROL + 1 && octet & INITIATE_RESET != 0;
        }
        reset
    }

    /// Whether BARs answer.
    pub(crate) fn answers(&self) -> bool {
        self.get16(COMMAND) & COMMAND_MEMORY != 0 && self.is_awake()
    }

    /// Whether the card may read and write memory and apertures.
    pub(crate) fn masters(&self) -> bool {
        self.get16(COMMAND) & COMMAND_MASTER != 0 && self.is_awake()
    }

    fn is_awake(&self) -> bool {
        self.get16(POWER + 4) & 3 == 0
    }

    /// Bus address of the aperture, BAR 2; `None` while it has none.
    pub(crate) fn aperture(&self) -> Option<u64> {
        let low = self.get32(BARS + 8) & !0xF;
        let address = u64::from(self.get32(BARS + 12)) << 32 | u64::from(low);
        (self.answers() && address != 0).then_some(address)
    }

    fn get16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.octets[at], self.octets[at + 1]])
    }

    fn get32(&self, at: usize) -> u32 {
        u32::from(self.get16(at + 2)) << 16 | u32::from(self.get16(at))
    }

    fn set16(&mut self, at: usize, value: u16) {
        self.octets[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn set32(&mut self, at: usize, value: u32) {
        self.octets[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn allow16(&mut self, at: usize, bits: u16) {
        self.writable[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    }

    fn allow32(&mut self, at: usize, bits: u32) {
        self.writable[at..at + 4].copy_from_slice(&bits.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read32(config: &Config, offset: u64) -> u32 {
        let mut data = [0; 4];
        config.read(offset, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn identity_is_that_of_the_driver() {
        let config = Config::new();
        assert_eq!(read32(&config, 0), 0x4845_1234);
        assert_eq!(read32(&config, 8), 0x0200_0001);
        assert_eq!(read32(&config, 0x2C), 0x0001_1234);
    }

    #[test]
    fn capabilities_are_a_list_of_three() {
        let config = Config::new();
        let mut found = Vec::new();
        let mut at = config.octets[0x34];
        while at != 0 {
            found.push(config.octets[usize::from(at)]);
            at = config.octets[usize::from(at) + 1];
        }
        assert_eq!(found, [0x01, 0x11, 0x10]);
        assert_eq!(read32(&config, MSIX as u64) >> 16, 2, "three vectors");
        assert_eq!(read32(&config, MSIX as u64 + 4), 4);
        assert_eq!(read32(&config, MSIX as u64 + 8), 0x804);
        assert_eq!(read32(&config, 0x100), 0, "no extended capabilities");
    }

    #[test]
    fn bars_tell_their_size() {
        let mut config = Config::new();
        for bar in 0..6 {
            config.write(0x10 + 4 * bar, &[0xFF; 4]);
        }
        let bars: Vec<u32> = (0..6).map(|bar| read32(&config, 0x10 + 4 * bar)).collect();
        assert_eq!(
            bars,
            [0xFFFF_F000, 0, 0xFFF0_000C, 0xFFFF_FFFF, 0xFFFF_F000, 0]
        );
    }

    #[test]
    fn the_aperture_is_there_while_memory_is_enabled() {
        let mut config = Config::new();
        config.write(0x18, &0xFE20_0000u32.to_le_bytes());
        config.write(0x1C, &0x38u32.to_le_bytes());
        assert_eq!(config.aperture(), None);
        config.write(4, &[6, 0]);
        assert_eq!(config.aperture(), Some(0x38_FE20_0000));
        assert!(config.masters() && config.answers());
        config.write(POWER as u64 + 4, &[3]);
        assert!(!config.masters() && !config.answers(), "D3hot");
    }

    #[test]
    fn a_function_level_reset_keeps_only_the_bars() {
        let mut config = Config::new();
        config.write(0x10, &0xFE00_0000u32.to_le_bytes());
        config.write(4, &[6, 0]);
        assert!(!config.write(DEVICE_CONTROL as u64, &[0x10, 0x28]));
        assert!(config.write(DEVICE_CONTROL as u64, &[0x10, 0xA8]));
        config.reset_function();
        assert_eq!(read32(&config, 0x10), 0xFE00_0000);
        assert!(!config.answers());
    }

    #[test]
    fn nothing_is_beyond_the_end() {
        let mut config = Config::new();
        for offset in [4094, 4096, u64::MAX] {
            let mut data = [0; 8];
            config.read(offset, &mut data);
            assert_eq!(data[2..], [0xFF; 6]);
            assert!(!config.write(offset, &[0xFF; 8]));
        }
        config.write(0, &[0xFF; 4]);
        assert_eq!(read32(&config, 0), 0x4845_1234, "identity is not written");
    }
}
