//! Routes that come and go while a test measures.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::ioctl_fionbio;

use super::{CHURN_PROTOCOL, Device, PATIENCE, read, wait};
use crate::report::remark;
use crate::trial::Hook;

/// Changes of routes are handed over this often.
const TICK: Duration = Duration::from_millis(10);
/// Most changes handed over at once: a router that falls behind is not given ever more.
const MOST: u64 = 10_000;
/// Routes that change where the plan does not say how many.
const CHURN_ROUTES: u32 = 10_000;
/// Longest time that changes may take which are under way when the user stops.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// As much of an error's text is told.
const LINES: usize = 3;

/// Route changes that were made, and how many were asked for.
#[derive(Debug, Default)]
pub struct Changes {
    asked: AtomicU64,
    done: AtomicU64,
    /// ns.
    time: AtomicU64,
}

impl Changes {
    fn add(&self, asked: u64, done: u64, time: Duration) {
        self.asked.fetch_add(asked, Ordering::Relaxed);
        self.done.fetch_add(done, Ordering::Relaxed);
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.time.fetch_add(time, Ordering::Relaxed);
    }

    /// Changes that the router has made.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// What the reader of a report must know; `None` if no routes changed.
    pub fn note(&self) -> Option<String> {
        let (done, asked) = (self.done(), self.asked.load(Ordering::Relaxed));
        let seconds = self.time.load(Ordering::Relaxed) as f64 / 1e9;
        (done > 0).then(|| {
            format!(
                "{done} route changes in all, {:.0} a second; {asked} were asked for",
                done as f64 / seconds
            )
        })
    }
}

/// Takes the routes that came off the router when it is dropped.
struct Changing<'a>(&'a Device);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.flush(CHURN_PROTOCOL) {
            remark(format_args!(
                "the tester's routes are still on the router: {error:#}"
            ));
        }
    }
}

/// `ip` on the router, which changes a route for each line it is given.
struct Changer {
    child: Child,
    pipe: ChildStdin,
    said: File,
    complaints: File,
}

impl Device {
    /// What changes routes for a time, as fast as the plan says; adds what it did to `changes`. It
    /// ends early, without an error, when the user stops.
    ///
    /// # Errors
    /// If the plan has no `churn`. The hook's: the router refuses a change.
    pub fn churn(
        &self,
        via: IpAddr,
        time: Duration,
        changes: Arc<Changes>,
    ) -> anyhow::Result<Hook> {
        let churn = self.section.churn.context("[router] has no `churn`")?;
        let device = self.clone();
        let (rate, count) = (churn.rate, churn.routes.unwrap_or(CHURN_ROUTES));
        Ok(Arc::new(move || {
            // what a run that was killed has left would be there already
            device.flush(CHURN_PROTOCOL)?;
            let _changing = Changing(&device);
            let (start, mut changer) = (Instant::now(), device.changer()?);
            let fed = changer.feed(&device, via, rate, count, time);
            let done = changer.end(fed, &device.stop, via)?;
            let asked = (time.as_secs_f64() * f64::from(rate)) as u64;
            changes.add(asked, done, start.elapsed());
            Ok(())
        }))
    }

    fn changer(&self) -> anyhow::Result<Changer> {
        let said = File::from(memfd_create("output", MemfdFlags::CLOEXEC)?);
        let complaints = File::from(memfd_create("errors", MemfdFlags::CLOEXEC)?);
        let mut child = self
            // without -force: it ends at the first change that fails
            .command("ip -batch -")
            .stdin(Stdio::piped())
            .stdout(said.try_clone()?)
            .stderr(complaints.try_clone()?)
            .spawn()
            .context("cannot run sh")?;
        let pipe = child.stdin.take().context("no way to ip")?;
        // so that a router which hangs does not hang the tester
        ioctl_fionbio(&pipe, true)?;
        Ok(Changer {
            child,
            pipe,
            said,
            complaints,
        })
    }
}

impl Changer {
    /// Hands changes over as they fall due; how many.
    fn feed(
        &mut self,
        device: &Device,
        via: IpAddr,
        rate: u32,
        count: u32,
        time: Duration,
    ) -> anyhow::Result<u64> {
        let (start, mut done) = (Instant::now(), 0_u64);
        while start.elapsed() < time && !device.is_stopped() {
            let due = (start.elapsed().as_secs_f64() * f64::from(rate)) as u64;
            let until = due.min(done + MOST);
            let mut lines = String::new();
            for number in done..until {
                lines += &change(number, count, via);
                if number == 0 {
                    lines += look(via);
                }
            }
            self.write(lines.as_bytes(), &device.stop)?;
            done = until;
            if done == due {
                thread::sleep(TICK);
            }
        }
        Ok(done)
    }

    /// Writes as fast as the router reads, until the user stops.
    fn write(&mut self, mut bytes: &[u8], stop: &AtomicBool) -> anyhow::Result<()> {
        let mut last = Instant::now();
        while !bytes.is_empty() && !stop.load(Ordering::Relaxed) {
            match self.pipe.write(bytes) {
                Ok(written) => {
                    bytes = &bytes[written..];
                    last = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ensure!(last.elapsed() < PATIENCE, "the router takes no changes");
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("the router takes no more changes"),
            }
        }
        Ok(())
    }

    /// Waits until all that was handed over is done, and checks that it was.
    fn end(self, fed: anyhow::Result<u64>, stop: &AtomicBool, via: IpAddr) -> anyhow::Result<u64> {
        let Self {
            mut child,
            pipe,
            said,
            complaints,
        } = self;
        drop(pipe);
        let never = AtomicBool::new(false);
        if stop.load(Ordering::Relaxed) {
            // what is under way comes to its end before the routes go
            let _ = wait(&mut child, &never, STOP_PATIENCE);
            return Ok(0);
        }
        let status = wait(&mut child, stop, PATIENCE)?;
        if !status.success() {
            let complaints = read(complaints)?;
            let first: Vec<&str> = complaints.lines().take(LINES).collect();
            return Err(anyhow!("ip on the router: {}", first.join("; ")));
        }
        let done = fed?;
        ensure!(
            done == 0 || read(said)?.contains(&via.to_string()),
            "the routes did not come: `{}` does not find the first one",
            look(via).trim()
        );
        Ok(done)
    }
}

/// The change with this number: all routes are added one after the other, then all removed.
fn change(number: u64, count: u32, via: IpAddr) -> String {
    let (round, index) = (number / u64::from(count), number % u64::from(count));
    let verb = match round.is_multiple_of(2) {
        true => "add",
        false => "del",
    };
    let prefix = match via {
        // above those of `Routes`
        IpAddr::V4(_) => format!(
            "{}.{}.{}.0/24",
            112 + (index >> 16),
            index >> 8 & 255,
            index & 255
        ),
        IpAddr::V6(_) => format!("2a00:{:x}:{:x}::/48", index >> 16, index & 0xffff),
    };
    format!("route {verb} {prefix} via {via} proto {CHURN_PROTOCOL}\n")
}

/// Asks which route the first one's addresses take.
fn look(via: IpAddr) -> &'static str {
    match via {
        IpAddr::V4(_) => "route get fibmatch 112.0.0.1\n",
        IpAddr::V6(_) => "route get fibmatch 2a00::1\n",
    }
}
