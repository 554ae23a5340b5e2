//! Routes that come and go while a test measures.

use std::fmt::Write as _;
use std::io::Write;
use std::net::IpAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::{Device, Hook, PROTOCOL, wait};

/// Changes of routes are handed over this often.
const TICK: Duration = Duration::from_millis(10);
/// Routes that change where the plan does not say how many.
const CHURN_ROUTES: u32 = 10_000;

impl Device {
    /// What changes routes for a time, as fast as the plan says; adds what it did to `changes`.
    ///
    /// # Errors
    /// If the plan has no `churn`.
    pub fn churn(
        &self,
        via: IpAddr,
        time: Duration,
        changes: Arc<AtomicU64>,
    ) -> anyhow::Result<Hook> {
        let churn = self.section.churn.context("[router] has no `churn`")?;
        let device = self.clone();
        let (rate, count) = (churn.rate, churn.routes.unwrap_or(CHURN_ROUTES));
        Ok(Arc::new(move || {
            let done = device.change_routes(via, rate, count, time);
            changes.fetch_add(done?, Ordering::Relaxed);
            Ok(())
        }))
    }

    fn change_routes(
        &self,
        via: IpAddr,
        rate: u32,
        count: u32,
        time: Duration,
    ) -> anyhow::Result<u64> {
        let mut child = self
            .command("ip -force -batch -")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run sh")?;
        let mut pipe = child.stdin.take().context("no way to ip")?;
        let (start, mut done) = (Instant::now(), 0_u64);
        let mut written = Ok(());
        while start.elapsed() < time && written.is_ok() {
            let due = (start.elapsed().as_secs_f64() * f64::from(rate)) as u64;
            let lines: String = (done..due)
                .map(|number| change(number, count, via))
                .collect();
            written = pipe.write_all(lines.as_bytes());
            done = due;
            thread::sleep(TICK);
        }
        let last = removals(done, count, via);
        written = written.and(pipe.write_all(last.as_bytes()));
        drop(pipe);
        wait(&mut child)?;
        written.context("the router takes no more changes")?;
        Ok(done)
    }
}

/// Lines that remove the routes which are there after so many changes.
fn removals(done: u64, count: u32, via: IpAddr) -> String {
    let (round, index) = (done / u64::from(count), done % u64::from(count));
    let there = match round.is_multiple_of(2) {
        true => 0..index,
        false => index..u64::from(count),
    };
    let removals = there.map(|index| change(u64::from(count) + index, count, via));
    removals.collect()
}

/// The change with this number: all routes are added one after the other, then all removed.
fn change(number: u64, count: u32, via: IpAddr) -> String {
    let (round, index) = (number / u64::from(count), number % u64::from(count));
    let verb = if round.is_multiple_of(2) {
        "add"
    } else {
        "del"
    };
    let mut line = format!("route {verb} ");
    let _ = match via {
        // above those of `Routes`
        IpAddr::V4(_) => write!(
            line,
            "{}.{}.{}.0/24",
            112 + (index >> 16),
            index >> 8 & 255,
            index & 255
        ),
        IpAddr::V6(_) => write!(line, "2a00:{:x}:{:x}::/48", index >> 16, index & 0xffff),
    };
    let _ = writeln!(line, " via {via} proto {PROTOCOL}");
    line
}
