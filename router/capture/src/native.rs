//! Filters as instructions of eBPF (RFC 9669), so that the kernel runs them as machine code.
//!
//! Registers of what is written here: R1 and R2 are the filter's A and X, R3 to R5 hold what is thrown away, R6 the
//! context (`struct xdp_md`), R7 and R8 the packet's begin and end, R9 the place for what the filters have found.

use std::collections::BTreeMap;

use crate::Filter;
use crate::filter::{Instruction, op};

/// An instruction of eBPF, as `struct bpf_insn` of Linux has it (RFC 9669, 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Native {
    /// Operation.
    pub code: u8,
    /// Destination in the lower four bits, source in the upper ones.
    pub registers: u8,
    /// Offset in memory, or length of a jump.
    pub offset: i16,
    /// Operand.
    pub immediate: i32,
}

/// Classes and operations that classic BPF does not have.
pub(crate) mod ebpf {
    pub(crate) const ALU64: u8 = 0x07;
    pub(crate) const ALU: u8 = 0x04;
    pub(crate) const JMP: u8 = 0x05;
    pub(crate) const JMP32: u8 = 0x06;
    pub(crate) const ADD: u8 = 0x00;
    pub(crate) const SUB: u8 = 0x10;
    pub(crate) const OR: u8 = 0x40;
    pub(crate) const AND: u8 = 0x50;
    pub(crate) const MOD: u8 = 0x90;
    pub(crate) const MOV: u8 = 0xb0;
    pub(crate) const TO_BIG_ENDIAN: u8 = 0xdc;
    pub(crate) const JEQ: u8 = 0x10;
    pub(crate) const JGT: u8 = 0x20;
    pub(crate) const JNE: u8 = 0x50;
    pub(crate) const JSGT: u8 = 0x60;
    pub(crate) const CALL: u8 = 0x85;
    pub(crate) const EXIT: u8 = 0x95;
    /// The operand is a register.
    pub(crate) const REGISTER: u8 = 0x08;
    pub(crate) const LOAD_WORD: u8 = 0x61;
    pub(crate) const LOAD_HALF: u8 = 0x69;
    pub(crate) const LOAD_OCTET: u8 = 0x71;
    pub(crate) const LOAD_LONG: u8 = 0x79;
    pub(crate) const STORE_WORD: u8 = 0x63;
    pub(crate) const ATOMIC_LONG: u8 = 0xdb;
    pub(crate) const STORE_CONSTANT: u8 = 0x62;
    pub(crate) const LOAD_ADDRESS: u8 = 0x18;
}

/// Registers by what is in them.
pub(crate) mod register {
    pub(crate) const RESULT: u8 = 0;
    pub(crate) const A: u8 = 1;
    pub(crate) const X: u8 = 2;
    pub(crate) const OFFSET: u8 = 3;
    pub(crate) const PLACE: u8 = 4;
    pub(crate) const END: u8 = 5;
    pub(crate) const CONTEXT: u8 = 6;
    pub(crate) const DATA: u8 = 7;
    pub(crate) const DATA_END: u8 = 8;
    pub(crate) const LOOK: u8 = 9;
    pub(crate) const STACK: u8 = 10;
}
use register::{A, DATA, DATA_END, END, OFFSET, PLACE, STACK, X};

/// Octets of a packet that a load may reach, a power of two less 1: the verifier allows no more than 65535.
const REACH: i32 = 0x7fff;
/// Where scratch memory begins below the stack's top.
const MEMORY: i16 = -96;

/// A place to jump to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label(usize);

/// Instructions with jumps to places that are not known yet.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<Native>,
    jumps: Vec<(usize, Label)>,
    places: Vec<usize>,
}

impl Assembler {
    /// A label, to be placed later.
    pub(crate) fn label(&mut self) -> Label {
        self.places.push(usize::MAX);
        Label(self.places.len() - 1)
    }

    /// Places a label here.
    pub(crate) fn place(&mut self, label: Label) {
        self.places[label.0] = self.code.len();
    }

    pub(crate) fn emit(
        &mut self,
        code: u8,
        destination: u8,
        source: u8,
        offset: i16,
        immediate: i32,
    ) {
        self.code.push(Native {
            code,
            registers: destination | source << 4,
            offset,
            immediate,
        });
    }

    /// `destination OP= constant`, 32 bits.
    pub(crate) fn constant(&mut self, operation: u8, destination: u8, value: u32) {
        self.emit(ebpf::ALU | operation, destination, 0, 0, value as i32);
    }

    /// `destination OP= source`, 64 bits.
    pub(crate) fn wide(&mut self, operation: u8, destination: u8, source: u8) {
        let code = ebpf::ALU64 | operation | ebpf::REGISTER;
        self.emit(code, destination, source, 0, 0);
    }

    /// `destination OP= constant`, 64 bits.
    pub(crate) fn wide_constant(&mut self, operation: u8, destination: u8, value: i32) {
        self.emit(ebpf::ALU64 | operation, destination, 0, 0, value);
    }

    /// Jumps if `destination OP source`, 64 bits.
    fn jump(&mut self, operation: u8, destination: u8, source: u8, to: Label) {
        self.jumps.push((self.code.len(), to));
        let code = ebpf::JMP | operation | ebpf::REGISTER;
        self.emit(code, destination, source, 0, 0);
    }

    /// Jumps if `destination OP constant`; `width`: [`ebpf::JMP`] or [`ebpf::JMP32`].
    pub(crate) fn jump_if(
        &mut self,
        (width, operation): (u8, u8),
        destination: u8,
        value: u32,
        to: Label,
    ) {
        self.jumps.push((self.code.len(), to));
        self.emit(width | operation, destination, 0, 0, value as i32);
    }

    /// Jumps.
    pub(crate) fn go(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(ebpf::JMP, 0, 0, 0, 0);
    }

    /// The instructions, without those that nothing leads to, which the kernel refuses. `None` if a jump is too far.
    pub(crate) fn finish(self) -> Option<Vec<Native>> {
        let targets: BTreeMap<usize, usize> = self
            .jumps
            .iter()
            .map(|&(from, to)| (from, self.places[to.0]))
            .collect();
        let mut reached = vec![false; self.code.len()];
        let mut from = vec![0];
        while let Some(place) = from.pop() {
            if place < reached.len() && !std::mem::replace(&mut reached[place], true) {
                from.extend(targets.get(&place));
                let ends = [ebpf::JMP, ebpf::EXIT].contains(&self.code[place].code);
                from.extend((!ends).then_some(place + 1));
            }
        }
        let mut kept = 0;
        let new_places: Vec<i64> = reached
            .iter()
            .map(|&is_reached| {
                kept += i64::from(is_reached);
                kept - 1
            })
            .collect();
        let mut code = Vec::new();
        for (place, mut one) in self
            .code
            .into_iter()
            .enumerate()
            .filter(|(place, _)| reached[*place])
        {
            if let Some(&target) = targets.get(&place) {
                let distance = new_places[target] - new_places[place] - 1;
                one.offset = distance.try_into().ok()?;
            }
            code.push(one);
        }
        Some(code)
    }

    /// Goes to `taken` or to `rejected`, as a filter says of the packet.
    pub(crate) fn filter(&mut self, filter: &Filter, taken: Label, rejected: Label) {
        let program = filter.instructions();
        self.constant(ebpf::MOV, A, 0);
        self.constant(ebpf::MOV, X, 0);
        if program.iter().any(Instruction::uses_memory) {
            for word in 0..16 {
                self.emit(ebpf::STORE_CONSTANT, STACK, 0, MEMORY + 4 * word, 0);
            }
        }
        let labels: Vec<Label> = program.iter().map(|_| self.label()).collect();
        for (place, one) in program.iter().enumerate() {
            self.place(labels[place]);
            let target = |skip: u32| labels[place + 1 + skip as usize];
            match one.code & 0x07 {
                op::LD | op::LDX => self.load(one, rejected),
                op::ST => self.emit(ebpf::STORE_WORD, STACK, A, memory(one.k), 0),
                op::STX => self.emit(ebpf::STORE_WORD, STACK, X, memory(one.k), 0),
                op::ALU => self.alu(one, rejected),
                op::JMP if one.code & 0xf0 == op::JA => self.go(target(one.k)),
                op::JMP => {
                    self.condition(one, target(one.jt.into()));
                    self.go(target(one.jf.into()));
                }
                op::RET if one.code & op::A != 0 => {
                    self.jump_if((ebpf::JMP32, ebpf::JNE), A, 0, taken);
                    self.go(rejected);
                }
                op::RET if one.k != 0 => self.go(taken),
                op::RET => self.go(rejected),
                _ if one.code & op::TXA != 0 => self.move_word(A, X),
                _ => self.move_word(X, A),
            }
        }
    }

    fn move_word(&mut self, destination: u8, source: u8) {
        let code = ebpf::ALU | ebpf::MOV | ebpf::REGISTER;
        self.emit(code, destination, source, 0, 0);
    }

    fn condition(&mut self, one: &Instruction, holds: Label) {
        let operation = (one.code & 0xf0) as u8;
        if one.code & op::X == 0 {
            self.jump_if((ebpf::JMP32, operation), A, one.k, holds);
        } else {
            self.jumps.push((self.code.len(), holds));
            let code = ebpf::JMP32 | operation | ebpf::REGISTER;
            self.emit(code, A, X, 0, 0);
        }
    }

    fn load(&mut self, one: &Instruction, rejected: Label) {
        let to = if one.code & 1 == 0 { A } else { X };
        let octets = match one.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            _ => 1,
        };
        match one.code & 0xe0 {
            op::IMM => self.constant(ebpf::MOV, to, one.k),
            op::MEM => self.emit(ebpf::LOAD_WORD, to, STACK, memory(one.k), 0),
            op::LEN => {
                self.wide(ebpf::MOV, to, DATA_END);
                self.wide(ebpf::SUB, to, DATA);
            }
            op::IND => {
                self.wide(ebpf::MOV, OFFSET, X);
                self.octets_at(one.k, octets, to, rejected);
            }
            op::ABS => {
                self.constant(ebpf::MOV, OFFSET, 0);
                self.octets_at(one.k, octets, to, rejected);
            }
            _ => {
                self.constant(ebpf::MOV, OFFSET, 0);
                self.octets_at(one.k, 1, to, rejected);
                self.constant(ebpf::AND, to, 0x0f);
                self.constant(0x20, to, 4); // times
            }
        }
    }

    /// Loads octets of the packet, the first of them `k` behind what is in `OFFSET`.
    fn octets_at(&mut self, k: u32, octets: u8, to: u8, rejected: Label) {
        let Ok(k) = u16::try_from(k) else {
            return self.go(rejected);
        };
        self.wide_constant(ebpf::ADD, OFFSET, k.into());
        self.jump_if((ebpf::JMP, ebpf::JGT), OFFSET, REACH as u32, rejected);
        // changes nothing, but the verifier of Linux 6.1 may know nothing of the offset on ways that no packet takes
        self.wide_constant(ebpf::AND, OFFSET, REACH);
        self.wide(ebpf::MOV, PLACE, DATA);
        self.wide(ebpf::ADD, PLACE, OFFSET);
        self.wide(ebpf::MOV, END, PLACE);
        self.wide_constant(ebpf::ADD, END, octets.into());
        self.jump(ebpf::JGT, END, DATA_END, rejected);
        let (code, bits) = match octets {
            4 => (ebpf::LOAD_WORD, 32),
            2 => (ebpf::LOAD_HALF, 16),
            _ => return self.emit(ebpf::LOAD_OCTET, to, PLACE, 0, 0),
        };
        self.emit(code, to, PLACE, 0, 0);
        self.emit(ebpf::TO_BIG_ENDIAN, to, 0, 0, bits);
    }

    fn alu(&mut self, one: &Instruction, rejected: Label) {
        let operation = (one.code & 0xf0) as u8;
        let is_shift = operation == 0x60 || operation == 0x70;
        let is_division = operation == 0x30 || operation == 0x90;
        if one.code & op::X == 0 || operation == 0x80 {
            return self.constant(operation, A, if operation == 0x80 { 0 } else { one.k });
        }
        if is_division {
            self.jump_if((ebpf::JMP32, ebpf::JEQ), X, 0, rejected);
        }
        let done = self.label();
        if is_shift {
            // eBPF takes the distance modulo 32
            let near = self.label();
            self.jump_if((ebpf::JMP32, 0xb0), X, 31, near); // unsigned: at most
            self.constant(ebpf::MOV, A, 0);
            self.go(done);
            self.place(near);
        }
        let code = ebpf::ALU | operation | ebpf::REGISTER;
        self.emit(code, A, X, 0, 0);
        self.place(done);
    }
}

fn memory(word: u32) -> i16 {
    MEMORY + 4 * (word as i16 & 15)
}
