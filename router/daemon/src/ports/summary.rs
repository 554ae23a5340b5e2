//! What operators are told of a port.

use std::iter;

use bora_contract::Path;
use bora_linux::Refusal;
use bora_linux::interface::receive_queues;
use bora_xdp::AttachMode;

use super::port::Port;

impl Port {
    /// The path and why the port takes it, on the first line, and what an operator should know.
    pub(crate) fn summary(&self) -> Vec<String> {
        let taken_over = if self.taken_over() {
            ", taken over"
        } else {
            ""
        };
        let (path, why) = (path_name(self.path), &self.why);
        let first = match self.twin() {
            Some(twin) => format!("{path}, {}", twin.state()),
            None => format!("{path} ({why}), {} XDP{taken_over}", mode_name(self.mode())),
        };
        let refusals = self.refusals.iter().map(Refusal::to_string);
        iter::once(first)
            .chain(refusals)
            .chain(self.notices())
            .collect()
    }

    /// What an operator should know of it.
    pub(crate) fn notices(&self) -> Vec<String> {
        let trouble = self.trouble.iter().map(|(text, _)| text);
        let first = self.interruption.notice.iter().chain(trouble);
        let mut notices: Vec<_> = first.chain(&self.offloads.foreign_hash).cloned().collect();
        notices.extend(self.deaf_peer().map(Into::into));
        let (queues, name) = (receive_queues(&self.name).unwrap_or(0), &self.name);
        let sockets = self.sockets.count();
        if sockets > 0 && sockets < queues {
            notices.push(format!(
                "{sockets} of its {queues} receive queues have sockets; packets on the others are \
                 Linux's (`no_socket`). To have fewer queues: `ethtool -L {name} combined {sockets}` (or \
                 `rx`)"
            ));
        }
        notices
    }

    /// Why express sends nothing by a veth, if so, and what to do.
    pub(crate) fn deaf_peer(&self) -> Option<&'static str> {
        let known = self.query.tells || self.settings.veth;
        let takes = self.query.can_redirect || self.settings.can_redirect;
        let is_deaf = self.has_program() && self.link.kind == "veth" && known && !takes;
        (is_deaf && self.path == Path::Express).then_some(
            "the other end of this veth takes nothing that express sends, so Linux has all that leaves by it: it has \
             neither XDP nor GRO; turn GRO on there while it is up: `ethtool -K PEER gro on`",
        )
    }

    /// Receive queues that the interface uses, as far as that is known.
    pub(crate) fn queues_in_use(&self) -> u32 {
        match receive_queues(&self.name) {
            None if self.sockets.count() > 0 => self.sockets.count(),
            told => told.unwrap_or(self.link.rx_queues),
        }
    }
}

pub(crate) fn path_name(path: Path) -> &'static str {
    match path {
        Path::Kernel => "kernel",
        Path::Engine => "engine",
        Path::Express => "express",
    }
}

pub(crate) fn mode_name(mode: Option<AttachMode>) -> &'static str {
    match mode {
        Some(AttachMode::Driver) => "driver",
        Some(AttachMode::Generic) => "generic",
        None => "-",
    }
}
