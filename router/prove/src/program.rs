//! Asks the XDP program.

use bora_contract::Reason;
use bora_wire::MacAddr;
use bora_wire::ethernet::HEADER_LEN;
use bora_xdp::{ProgramAnswer, Questions};

use crate::answer::{BoraAnswer, LinuxAnswer};
use crate::judge::longest;
use crate::question::{Input, LENGTH, Question, tags_of};
use crate::surroundings::Surroundings;

/// Octets of the IP packets of questions.
const SHORT: usize = LENGTH - HEADER_LEN;

/// Replaces the answer of the engine's stages, unless the program gives the packet to the engine. An input that is gone or not
/// prepared for XDP is Linux's.
pub(crate) fn ask_program(
    program: &mut Questions,
    question: &Question,
    input: &Input,
    (linux, around): (Option<&LinuxAnswer>, &Surroundings),
    answer: &mut BoraAnswer,
) {
    let Some(entry) = input.entry else {
        return;
    };
    let mut ask = |octets| {
        let frame = question.frame(input, octets)?;
        program.ask(entry.ifindex, &entry.tagged(&frame)).ok()
    };
    let reason = match *answer {
        BoraAnswer::Linux(reason) => reason,
        _ => Reason::LeftToLinux,
    };
    *answer = match ask(SHORT) {
        Some((ProgramAnswer::ToEngine, _)) => return,
        Some((ProgramAnswer::Dropped, _)) => BoraAnswer::Drop(Reason::Blackhole),
        Some((ProgramAnswer::Sent, frame)) => {
            let mac = |at: usize| {
                let octets = frame.get(at..).and_then(|rest| rest.first_chunk());
                octets.copied().map_or(MacAddr::ZERO, MacAddr)
            };
            let mut sends = |octets| matches!(ask(octets), Some((ProgramAnswer::Sent, _)));
            BoraAnswer::Express {
                to: mac(0),
                from: mac(6),
                tags: tags_of(&frame),
                sends_longer: too_long(linux, around).is_some_and(&mut sends),
            }
        }
        Some((ProgramAnswer::ToLinux, _)) | None => BoraAnswer::Linux(reason),
    };
}

/// Octets of the shortest packet that Linux does not forward; `None` if its paths differ.
fn too_long(linux: Option<&LinuxAnswer>, around: &Surroundings) -> Option<usize> {
    let Some(LinuxAnswer::Forward(route)) = linux else {
        return None;
    };
    let alive = route.paths.iter().filter(|path| path.alive);
    let mut mtus = alive.map(|path| longest(route, path.device, around));
    let mtu = mtus.next()?;
    mtus.all(|other| other == mtu).then_some(mtu as usize + 1)
}
