//! Filters: programs of classic BPF (McCanne and Jacobson, "The BSD Packet Filter", 1993), which libpcap compiles.

use std::str::FromStr;

/// Most instructions of a filter.
pub const MAX_INSTRUCTIONS: usize = 256;
/// Words of scratch memory.
const WORDS: usize = 16;

/// One instruction, as `struct sock_filter` of Linux has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// How many instructions to leave out if a condition holds.
    pub jt: u8,
    /// How many to leave out if it does not hold.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

impl Instruction {
    /// Whether it touches scratch memory.
    pub(crate) fn uses_memory(&self) -> bool {
        let class = self.code & 0x07;
        let loads = class == op::LD || class == op::LDX;
        class == op::ST || class == op::STX || loads && self.code & 0xe0 == op::MEM
    }
}

/// Instruction classes, sizes, modes and operations (`linux/bpf_common.h`).
pub(crate) mod op {
    pub(crate) const LD: u16 = 0;
    pub(crate) const LDX: u16 = 1;
    pub(crate) const ST: u16 = 2;
    pub(crate) const STX: u16 = 3;
    pub(crate) const ALU: u16 = 4;
    pub(crate) const JMP: u16 = 5;
    pub(crate) const RET: u16 = 6;
    pub(crate) const MISC: u16 = 7;
    pub(crate) const IMM: u16 = 0x00;
    pub(crate) const ABS: u16 = 0x20;
    pub(crate) const IND: u16 = 0x40;
    pub(crate) const MEM: u16 = 0x60;
    pub(crate) const LEN: u16 = 0x80;
    pub(crate) const MSH: u16 = 0xa0;
    pub(crate) const JA: u16 = 0x00;
    pub(crate) const JEQ: u16 = 0x10;
    /// The operand is X, not the constant.
    pub(crate) const X: u16 = 0x08;
    /// What is returned is A.
    pub(crate) const A: u16 = 0x10;
    pub(crate) const TXA: u16 = 0x80;
}

/// A program that ends for every packet, and touches nothing but the packet and its own memory. Loads behind the
/// packet's end reject it, as BPF has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<Instruction>);

impl Filter {
    /// Takes every packet.
    pub fn everything() -> Self {
        Self(vec![Instruction {
            code: op::RET,
            k: u32::MAX,
            ..Instruction::default()
        }])
    }

    /// Takes packets of this length that begin with these octets, whole words up to [`HEAD`](crate::HEAD) of them.
    pub fn exactly(packet: &[u8]) -> Self {
        let words = packet[..packet.len().min(crate::HEAD)].as_chunks::<4>().0;
        let load = |code, k| Instruction {
            code,
            k,
            ..Instruction::default()
        };
        let octets = words.iter().enumerate();
        let octets = octets.map(|(place, word)| {
            let offset = 4 * place as u32;
            (load(op::LD | op::ABS, offset), u32::from_be_bytes(*word))
        });
        let length = (load(op::LD | op::LEN, 0), packet.len() as u32);
        let mut left = 2 * (words.len() + 1);
        let mut program = Vec::with_capacity(left + 2);
        for (load, expected) in std::iter::once(length).chain(octets) {
            left -= 2;
            program.push(load);
            program.push(Instruction {
                code: op::JMP | op::JEQ,
                jt: 0,
                jf: (left + 1) as u8,
                k: expected,
            });
        }
        program.push(load(op::RET, u32::MAX));
        program.push(load(op::RET, 0));
        Self(program)
    }

    /// Checks a program.
    ///
    /// # Errors
    /// Which instruction is wrong.
    pub fn new(program: Vec<Instruction>) -> Result<Self, String> {
        if program.is_empty() || program.len() > MAX_INSTRUCTIONS {
            let count = program.len();
            return Err(format!(
                "a filter has 1 to {MAX_INSTRUCTIONS} instructions, not {count}"
            ));
        }
        for (place, one) in program.iter().enumerate() {
            let left = program.len() - place - 1;
            check(one, left)
                .map_err(|what| format!("instruction {place} of the filter: {what}"))?;
        }
        match program.last() {
            Some(last) if last.code & 7 == op::RET => Ok(Self(program)),
            _ => Err("the filter does not end with `ret`".into()),
        }
    }

    /// The program.
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// Whether a packet is taken.
    pub fn takes(&self, packet: &[u8]) -> bool {
        let mut machine = Machine {
            a: 0,
            x: 0,
            memory: [0; WORDS],
        };
        let mut place = 0;
        while let Some(one) = self.0.get(place) {
            match machine.step(one, packet) {
                Step::Next(skip) => place += 1 + skip as usize,
                Step::Return(taken) => return taken,
            }
        }
        false
    }
}

/// The format of `tcpdump -ddd`: the number of instructions, then one a line, four decimal numbers each.
impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let count = lines.next().unwrap_or_default().trim();
        let program: Result<Vec<_>, _> = lines.map(instruction).collect();
        let program = program?;
        if count.parse() != Ok(program.len()) {
            return Err(format!(
                "`{count}` is not the number of instructions that follow"
            ));
        }
        Self::new(program)
    }
}

fn instruction(line: &str) -> Result<Instruction, String> {
    let wrong = || format!("`{line}` is no instruction of a filter");
    let fields: Vec<&str> = line.split_whitespace().collect();
    let &[code, jt, jf, k] = &fields[..] else {
        return Err(wrong());
    };
    Ok(Instruction {
        code: code.parse().map_err(|_| wrong())?,
        jt: jt.parse().map_err(|_| wrong())?,
        jf: jf.parse().map_err(|_| wrong())?,
        k: k.parse().map_err(|_| wrong())?,
    })
}

/// Whether an instruction is one, with `left` more behind it.
fn check(one: &Instruction, left: usize) -> Result<(), &'static str> {
    let (class, mode, size) = (one.code & 0x07, one.code & 0xe0, one.code & 0x18);
    let word = (one.k as usize) < WORDS;
    let good = match class {
        op::LD | op::LDX if mode == op::MEM => word && size == 0,
        op::LD | op::LDX if mode == op::IMM || mode == op::LEN => size == 0,
        op::LD => (mode == op::ABS || mode == op::IND) && size != 0x18,
        op::LDX => mode == op::MSH && size == 0x10,
        op::ST | op::STX => word,
        op::ALU => match one.code & 0xf0 {
            0x30 | 0x90 if one.code & op::X == 0 => one.k != 0,
            0x60 | 0x70 if one.code & op::X == 0 => one.k < 32,
            operation => operation <= 0xa0,
        },
        op::JMP if one.code & 0xf0 == op::JA => (one.k as usize) < left,
        op::JMP => {
            let longest = usize::from(one.jt.max(one.jf));
            one.code & 0xf0 <= 0x40 && longest < left
        }
        op::RET => true,
        _ => one.code == op::MISC || one.code == op::MISC | op::TXA,
    };
    match good {
        true => Ok(()),
        false => Err("it is unknown, jumps too far or uses an impossible number"),
    }
}

/// What an instruction leads to.
enum Step {
    /// To an instruction further on: how many lie between.
    Next(u32),
    /// To the end.
    Return(bool),
}

struct Machine {
    a: u32,
    x: u32,
    memory: [u32; WORDS],
}

impl Machine {
    #[inline]
    fn step(&mut self, one: &Instruction, packet: &[u8]) -> Step {
        let word = one.k as usize % WORDS;
        match one.code & 0x07 {
            op::LD | op::LDX => match self.load(one, packet) {
                Some(value) if one.code & 1 == 0 => self.a = value,
                Some(value) => self.x = value,
                None => return Step::Return(false),
            },
            op::ST => self.memory[word] = self.a,
            op::STX => self.memory[word] = self.x,
            op::ALU => match self.alu(one) {
                Some(result) => self.a = result,
                None => return Step::Return(false),
            },
            op::JMP => return Step::Next(self.jump(one)),
            op::RET => return Step::Return(self.returned(one) != 0),
            _ if one.code & op::TXA != 0 => self.a = self.x,
            _ => self.x = self.a,
        }
        Step::Next(0)
    }

    fn returned(&self, one: &Instruction) -> u32 {
        match one.code & op::A {
            0 => one.k,
            _ => self.a,
        }
    }

    /// `None` behind the packet's end.
    fn load(&self, one: &Instruction, packet: &[u8]) -> Option<u32> {
        let at = |offset: u32, octets: usize| {
            let from = offset as usize;
            let found = packet.get(from..from.checked_add(octets)?)?;
            Some(
                found
                    .iter()
                    .fold(0, |value, &octet| value << 8 | u32::from(octet)),
            )
        };
        let octets = match one.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            _ => 1,
        };
        match one.code & 0xe0 {
            op::IMM => Some(one.k),
            op::ABS => at(one.k, octets),
            op::IND => at(self.x.checked_add(one.k)?, octets),
            op::MEM => Some(self.memory[one.k as usize % WORDS]),
            op::LEN => Some(packet.len() as u32),
            _ => Some((at(one.k, 1)? & 0x0f) * 4),
        }
    }

    fn operand(&self, one: &Instruction) -> u32 {
        match one.code & op::X {
            0 => one.k,
            _ => self.x,
        }
    }

    /// `None` for a division by zero.
    fn alu(&self, one: &Instruction) -> Option<u32> {
        let (a, operand) = (self.a, self.operand(one));
        Some(match one.code & 0xf0 {
            0x00 => a.wrapping_add(operand),
            0x10 => a.wrapping_sub(operand),
            0x20 => a.wrapping_mul(operand),
            0x30 => a.checked_div(operand)?,
            0x40 => a | operand,
            0x50 => a & operand,
            0x60 => a.checked_shl(operand).unwrap_or(0),
            0x70 => a.checked_shr(operand).unwrap_or(0),
            0x80 => a.wrapping_neg(),
            0x90 => a.checked_rem(operand)?,
            _ => a ^ operand,
        })
    }

    /// How many instructions to leave out.
    fn jump(&self, one: &Instruction) -> u32 {
        let operand = self.operand(one);
        let holds = match one.code & 0xf0 {
            op::JA => return one.k,
            op::JEQ => self.a == operand,
            0x20 => self.a > operand,
            0x30 => self.a >= operand,
            _ => self.a & operand != 0,
        };
        u32::from(if holds { one.jt } else { one.jf })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `tcpdump -ddd -y EN10MB udp port 53 and ip`
    const DNS: &str = "13\n40 0 0 12\n21 0 10 2048\n48 0 0 23\n21 0 8 17\n40 0 0 20\n69 6 0 8191\n177 0 0 14\n\
                       72 0 0 14\n21 2 0 53\n72 0 0 16\n21 0 1 53\n6 0 0 262144\n6 0 0 0\n";

    fn udp(port: u16) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[23] = 17;
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame
    }

    #[test]
    fn a_filter_of_tcpdump() {
        let filter: Filter = DNS.parse().unwrap();
        assert!(filter.takes(&udp(53)));
        assert!(!filter.takes(&udp(54)));
        let mut fragment = udp(53);
        fragment[21] = 1;
        assert!(!filter.takes(&fragment));
        assert!(!filter.takes(&udp(53)[..30]), "a load behind the end");
        assert!(Filter::everything().takes(&[]));
    }

    #[test]
    fn one_packet() {
        for length in [14, 60, 128, 131, 1500] {
            let packet: Vec<u8> = (0..length).map(|octet| octet as u8).collect();
            let filter = Filter::exactly(&packet);
            assert_eq!(Filter::new(filter.0.clone()).as_ref(), Ok(&filter));
            assert!(filter.takes(&packet));
            assert!(!filter.takes(&packet[..length - 1]));
            for octet in 0..length.min(128) & !3 {
                let mut other = packet.clone();
                other[octet] ^= 1;
                assert!(!filter.takes(&other), "{length} octets, another at {octet}");
            }
        }
    }

    #[test]
    fn wrong_filters() {
        for text in [
            "",
            "1\n",
            "2\n6 0 0 1\n",
            "1\n6 0 0\n",
            "1\n6 0 0 -1\n",
            "1\n40 0 0 12\n",
            "2\n21 1 0 5\n6 0 0 0\n",
            "2\n52 0 0 0\n6 0 0 0\n",
            "2\n2 0 0 16\n6 0 0 0\n",
            "2\n5 0 0 4294967295\n6 0 0 0\n",
            "2\n65535 0 0 0\n6 0 0 0\n",
        ] {
            assert!(text.parse::<Filter>().is_err(), "{text:?}");
        }
    }

    proptest! {
        /// Whatever is in it, a program is refused or ends.
        #[test]
        fn every_program_ends(
            program in prop::collection::vec((0..0x100u16, 0..4u8, 0..4u8, any::<u32>()), 1..40),
            packet in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let program = program.into_iter().map(|(code, jt, jf, k)| Instruction { code, jt, jf, k: k % 40 });
            let mut program: Vec<Instruction> = program.filter(|one| check(one, 1000).is_ok()).collect();
            program.push(Filter::everything().0[0]);
            if let Ok(filter) = Filter::new(program) {
                filter.takes(&packet);
            }
        }
    }
}
