//! The part of a trial that an XDP port does: it sends on a thread of its own, in the interface's
//! network namespace, and its frames are judged in the kernel.

use anyhow::Context;
use hdrhistogram::Histogram;

use super::common::{Common, Unfinished};
use super::serve;
use crate::analyse::Analyser;
use crate::clock;
use crate::findings::Findings;
use crate::live::{Receiver, Sender, Sent};
use crate::ports::PortInfo;
use crate::ports::netns::inside;

/// What judges the frames that a port receives.
pub(super) enum Judge<'a> {
    /// Here.
    Analyser(Analyser),
    /// In the kernel, and how many it had judged when last asked.
    Kernel(&'a Receiver, u64),
}

impl Judge<'_> {
    /// Judges a frame that came through a queue.
    pub(super) fn receive(&mut self, frame: &[u8], arrival: u64) {
        match self {
            Self::Analyser(analyser) => analyser.receive(frame, arrival),
            // only what the kernel's judge has let pass comes here, and it has counted it
            Self::Kernel(..) => {}
        }
    }

    /// Frames that were judged elsewhere since the last call.
    pub(super) fn elsewhere(&mut self) -> usize {
        match self {
            Self::Analyser(_) => 0,
            Self::Kernel(receiver, known) => {
                let arrived = receiver.arrived();
                let more = arrived.saturating_sub(*known);
                *known = arrived;
                more as usize
            }
        }
    }

    pub(super) fn finish(self) -> anyhow::Result<Findings> {
        match self {
            Self::Analyser(analyser) => Ok(analyser.finish()),
            Self::Kernel(receiver, _) => receiver.findings(),
        }
    }
}

/// What an XDP port sends in a trial.
pub(super) struct Live<'a> {
    pub(super) sender: &'a mut Sender,
    pub(super) info: &'a PortInfo,
    pub(super) unfinished: Unfinished<'a>,
}

/// What it sent.
pub(super) struct LiveSent {
    /// By stream, what the interface refused included: on a virtual link that is what the router's
    /// receive ring had no room for.
    pub(super) frames: Vec<u64>,
    /// By stream: due time of the last of them, ns of [`clock::now`]; 0 if there is none.
    pub(super) last_due: Vec<u64>,
    pub(super) lateness: Histogram<u64>,
    /// When it ended, ns of [`clock::now`].
    pub(super) last: u64,
}

impl Live<'_> {
    /// Sends all of the trial; to be called on a thread of its own.
    pub(super) fn send(self, common: &Common) -> anyhow::Result<LiveSent> {
        let Self {
            sender,
            info,
            unfinished,
        } = self;
        let sent = inside(info.netns.as_deref(), || {
            serve::place(info.cpu);
            sender.run(&common.schedule, common.start, common.stop())
        });
        // also if it failed: the others must not wait for it
        drop(unfinished);
        let Sent {
            streams,
            refused,
            lateness,
            last_due,
        } = sent.with_context(|| format!("port {}", info.name))?;
        let frames = streams.iter().zip(&refused);
        Ok(LiveSent {
            frames: frames.map(|(taken, refused)| taken + refused).collect(),
            last_due,
            lateness,
            last: clock::now(),
        })
    }
}
