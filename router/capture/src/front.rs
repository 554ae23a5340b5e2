//! The program that runs filters before the XDP program decides.

use crate::Subscription;
use crate::native::register::{
    A, CONTEXT, DATA, DATA_END, END, LOOK, OFFSET, PLACE, RESULT, STACK, X,
};
use crate::native::{Assembler, Label, Native, ebpf};

/// What [`front`] needs to know of the programs that it stands before.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Descriptor of the map whose only value is `struct watch_look` (`router/xdp/bpf/watch_types.h`).
    pub looks: i32,
    /// Descriptor of a map with one value, and the places in it of the following (octets).
    pub variables: i32,
    /// Packets that each subscription may still see (an array of 64 bits each, signed).
    pub allowed: i32,
    /// Packets that each subscription was to see, and did not (64 bits each).
    pub lost: i32,
    /// Descriptor of the map of programs.
    pub programs: i32,
    /// Its row for packets that a filter takes.
    pub taken: u32,
    /// Its row for all other packets.
    pub others: u32,
}

/// Numbers of the kernel's functions (`linux/bpf.h`).
const MAP_LOOKUP: i32 = 1;
const RANDOM: i32 = 7;
const TAIL_CALL: i32 = 12;
/// `BPF_PSEUDO_MAP_FD`: the constant is the descriptor of a map.
const OF_MAP: u8 = 1;
/// `BPF_PSEUDO_MAP_VALUE`: and the next one is a place in its value.
const OF_MAP_VALUE: u8 = 2;
/// `XDP_PASS`.
const PASS: u32 = 2;
/// Places in `struct watch_look` (`router/xdp/bpf/watch_types.h`).
const LOOK_DONE: i16 = 0;
const LOOK_WANTED: i16 = 4;
const LOOK_LEFT: i16 = 8;
/// Places on the stack.
const KEY: i16 = -4;
const WANTED: i16 = -8;

/// The program that runs the filters of all captures and traces, each with its number, on every packet: it
/// notes which of them want the packet, and goes on to the program for it.
///
/// # Errors
/// The filters are too long.
pub fn front<'a>(
    subscriptions: impl Iterator<Item = (usize, &'a Subscription)>,
    around: Surroundings,
) -> Result<Vec<Native>, String> {
    let mut asm = Assembler::default();
    let (pass, others) = (asm.label(), asm.label());
    asm.begin(around, pass);
    for (number, subscription) in subscriptions {
        asm.subscription(number, subscription, around);
    }
    asm.emit(ebpf::LOAD_WORD, A, STACK, WANTED, 0);
    asm.emit(ebpf::STORE_WORD, LOOK, A, LOOK_WANTED, 0);
    asm.emit(ebpf::STORE_CONSTANT, LOOK, 0, LOOK_DONE, 1);
    asm.jump_if((ebpf::JMP32, ebpf::JEQ), A, 0, others);
    asm.tail_call(around, around.taken);
    asm.go(pass);
    asm.place(others);
    asm.tail_call(around, around.others);
    asm.place(pass);
    asm.constant(ebpf::MOV, RESULT, PASS);
    asm.emit(ebpf::EXIT, 0, 0, 0, 0);
    asm.finish()
        .ok_or_else(|| "the filters are too long".into())
}

impl Assembler {
    fn map(&mut self, to: u8, descriptor: i32) {
        self.emit(ebpf::LOAD_ADDRESS, to, OF_MAP, 0, descriptor);
        self.emit(0, 0, 0, 0, 0);
    }

    /// The address of the octet at this offset in the only value of a map.
    fn map_value(&mut self, to: u8, descriptor: i32, octets: i32) {
        self.emit(ebpf::LOAD_ADDRESS, to, OF_MAP_VALUE, 0, descriptor);
        self.emit(0, 0, 0, 0, octets);
    }

    /// Goes on in a program, if it is there. Its row is a constant at each call: only then is it a plain jump.
    fn tail_call(&mut self, around: Surroundings, row: u32) {
        self.wide(ebpf::MOV, A, CONTEXT);
        self.map(X, around.programs);
        self.constant(ebpf::MOV, OFFSET, row);
        self.emit(ebpf::CALL, 0, 0, 0, TAIL_CALL);
    }

    /// Finds the packet and the place for what is found; goes to `pass` if there is none.
    fn begin(&mut self, around: Surroundings, pass: Label) {
        self.wide(ebpf::MOV, CONTEXT, A);
        self.emit(ebpf::STORE_CONSTANT, STACK, 0, KEY, 0);
        self.emit(ebpf::STORE_CONSTANT, STACK, 0, WANTED, 0);
        self.map(A, around.looks);
        self.wide(ebpf::MOV, X, STACK);
        self.wide_constant(ebpf::ADD, X, KEY.into());
        self.emit(ebpf::CALL, 0, 0, 0, MAP_LOOKUP);
        self.jump_if((ebpf::JMP, ebpf::JEQ), RESULT, 0, pass);
        self.wide(ebpf::MOV, LOOK, RESULT);
        self.emit(ebpf::LOAD_WORD, DATA, CONTEXT, 0, 0);
        self.emit(ebpf::LOAD_WORD, DATA_END, CONTEXT, 4, 0);
    }

    /// Notes that a subscription wants the packet, if its filter and chance say so.
    fn subscription(&mut self, number: usize, subscription: &Subscription, around: Surroundings) {
        let (taken, rejected) = (self.label(), self.label());
        if subscription.one_in > 1 {
            self.sample(LOOK_LEFT + 4 * number as i16, subscription.one_in, rejected);
        }
        self.filter(subscription.filter(), taken, rejected);
        self.place(taken);
        self.allow(number, around, rejected);
        self.emit(ebpf::LOAD_WORD, OFFSET, STACK, WANTED, 0);
        self.constant(ebpf::OR, OFFSET, 1 << number);
        self.emit(ebpf::STORE_WORD, STACK, OFFSET, WANTED, 0);
        self.place(rejected);
    }

    /// Takes one from what a subscription may see; goes to `rejected`, and counts that, if nothing is left.
    fn allow(&mut self, number: usize, around: Surroundings, rejected: Label) {
        let allowed = self.label();
        let place = 8 * number as i32;
        self.map_value(OFFSET, around.variables, around.allowed + place);
        self.emit(ebpf::LOAD_LONG, PLACE, OFFSET, 0, 0);
        self.jump_if((ebpf::JMP, ebpf::JSGT), PLACE, 0, allowed);
        self.map_value(OFFSET, around.variables, around.lost + place);
        self.add_atomically(OFFSET, 1);
        self.go(rejected);
        self.place(allowed);
        self.add_atomically(OFFSET, -1);
    }

    fn add_atomically(&mut self, to: u8, value: i32) {
        self.wide_constant(ebpf::MOV, END, value);
        self.emit(ebpf::ATOMIC_LONG, to, END, 0, 0); // the operand 0 is an addition
    }

    /// Leaves packets out until the number of them at `left` has come down to 0, and then takes a new number by chance:
    /// 0 to twice `one_in` - 2, so that one of `one_in` is looked at in the mean. No packet but that one costs a call.
    fn sample(&mut self, left: i16, one_in: u32, rejected: Label) {
        let now = self.label();
        self.emit(ebpf::LOAD_WORD, OFFSET, LOOK, left, 0);
        self.jump_if((ebpf::JMP32, ebpf::JEQ), OFFSET, 0, now);
        self.constant(ebpf::ADD, OFFSET, u32::MAX);
        self.emit(ebpf::STORE_WORD, LOOK, OFFSET, left, 0);
        self.go(rejected);
        self.place(now);
        self.emit(ebpf::CALL, 0, 0, 0, RANDOM);
        self.constant(ebpf::MOD, RESULT, one_in.saturating_mul(2) - 1);
        self.emit(ebpf::STORE_WORD, LOOK, RESULT, left, 0);
    }
}
