//! Waits, beside the control loop, until no XDP program can read what was replaced in the FIB.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::{mem, thread};

use anyhow::Context;
use bora_fib::ProgramReader;
use bora_xdp::GracePeriods;

/// The thread that waits; it ends with this value.
pub(crate) struct Reclaimer(SyncSender<()>);

impl Reclaimer {
    pub(crate) fn start(program: ProgramReader, periods: GracePeriods) -> anyhow::Result<Self> {
        // one request may wait while another is served, and stands for all that come meanwhile
        let (ask, asked) = sync_channel(1);
        let thread = thread::Builder::new().name("reclaim".into());
        let serve = move || serve(&asked, program, &periods);
        thread.spawn(serve).context("cannot start a thread")?;
        Ok(Self(ask))
    }

    /// Has what was replaced until now become free. Does not wait.
    pub(crate) fn ask(&self) {
        match self.0.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => {} // a request waits already
            Err(error @ TrySendError::Disconnected(())) => {
                log::error!("memory of the FIB is not used again: {error}");
            }
        }
    }
}

fn serve(asked: &Receiver<()>, mut program: ProgramReader, periods: &GracePeriods) {
    bora_confine::thread(bora_confine::KERNEL);
    let mut failed = false;
    for () in asked {
        match program.wait(|| periods.wait()) {
            Ok(()) => failed = false,
            Err(error) => {
                if !mem::replace(&mut failed, true) {
                    log::error!("memory of the FIB is not used again: {error}");
                }
            }
        }
    }
}
