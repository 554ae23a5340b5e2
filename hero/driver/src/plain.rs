//! A card that is only memory, for tests. It records writes to registers, and tests set its time.

use crate::device::Device;
use crate::registers::{CMD, CMD_RESET, ID, ID_VALUE, LEVELS, STATUS, STATUS_READY, VERSION};

/// Memory of four cards.
const MEMORY: usize = 8 << 20;

pub(crate) struct Plain {
    pub(crate) memory: Vec<u8>,
    pub(crate) registers: [u32; 64],
    /// All writes, in order.
    pub(crate) writes: Vec<(u8, u32)>,
    pub(crate) now: u64,
}

impl Plain {
    /// A card with three route slots, each ring of which always accepts two vectors.
    pub(crate) fn new() -> Self {
        let mut registers = [0; 64];
        registers[usize::from(ID)] = ID_VALUE;
        registers[usize::from(STATUS)] = VERSION << 16 | 3 << 8 | STATUS_READY;
        registers[usize::from(LEVELS)] = 0x222;
        Self {
            memory: vec![0xFF; MEMORY],
            registers,
            writes: Vec::new(),
            now: 0,
        }
    }

    /// The values written to a register since the last call.
    pub(crate) fn written(&mut self, register: u8) -> Vec<u32> {
        let (these, others) = self.writes.iter().partition(|write| write.0 == register);
        self.writes = others;
        let these: Vec<(u8, u32)> = these;
        these.into_iter().map(|(_, value)| value).collect()
    }
}

impl Device for Plain {
    fn read(&mut self, register: u8) -> u32 {
        self.registers[usize::from(register)]
    }

    fn write(&mut self, register: u8, value: u32) {
        self.writes.push((register, value));
        // a reset ends at once
        let reset = if register == CMD { CMD_RESET } else { 0 };
        self.registers[usize::from(register)] = value & !reset;
    }

    fn memory(&self) -> &[u8] {
        &self.memory
    }

    fn memory_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    fn now(&self) -> u64 {
        self.now
    }
}
