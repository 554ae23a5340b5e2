//! Waits, beside the control loop, until no XDP program can read what was replaced in the FIB.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::Context;
use bora_fib::ProgramReader;
use bora_port::xdp::GracePeriods;

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
        // the error says that a request waits already
        let _ = self.0.try_send(());
    }
}

fn serve(asked: &Receiver<()>, mut program: ProgramReader, periods: &GracePeriods) {
    bora_confine::thread(bora_confine::KERNEL);
    let mut failed = false;
    while asked.recv().is_ok() {
        let waited = program.wait(|| periods.wait());
        if let Err(error) = &waited
            && !failed
        {
            log::error!("memory of the FIB is not used again: {error}");
        }
        failed = waited.is_err();
    }
}
