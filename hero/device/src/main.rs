//! The four simulated HERO cards (hero/README.md) as PCIe devices of virtual machines, by the vfio-user protocol
//! (QEMU's docs/interop/vfio-user.rst).
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::let_underscore_must_use,
        clippy::map_err_ignore
    )
)]

mod bus;
mod config;
mod guest;
mod interrupts;
mod server;
mod wires;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use bora_hero::{CARDS, Model};
use bora_port::Bell;
use clap::Parser;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use bus::Bus;
use server::{Desk, Task};
use wires::{Wire, WireOption};

/// Time between looks at the links of the cables' other ends.
const LINK_LOOKS: Duration = Duration::from_millis(100);
/// Pause of an idle simulation, ns.
const IDLE: i64 = 100_000_000;

/// Four simulated HERO cards for virtual machines, one vfio-user socket each.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The library with the cards; a name without a slash is looked for where the loader looks.
    #[arg(long, default_value = "libhero-xbar.so")]
    model: PathBuf,
    /// The folder for the sockets card0.sock to card3.sock.
    #[arg(long)]
    socket_dir: PathBuf,
    /// A card's cable: CARD=tap:NAME[,netns=NAME], CARD=if:NAME[,netns=NAME], CARD=socket:PATH, CARD=loop:CARD or
    /// CARD=none, which is the default.
    #[arg(long)]
    wire: Vec<WireOption>,
    /// Virtual time for each second of real time while nothing happens, in seconds.
    #[arg(long, default_value = "0.00001", value_parser = ratio)]
    idle_ratio: f64,
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("a number from 0 to 1 is needed".into()),
    }
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    match serve(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hero-device: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Serves virtual machines until the process is to end.
fn serve(options: &Options) -> anyhow::Result<()> {
    let ends = wires::ends(&options.wire).map_err(anyhow::Error::msg)?;
    let model = Model::load(&options.model)?;
    let mut wires = [const { Wire::None }; CARDS];
    for (card, (wire, end)) in wires.iter_mut().zip(&ends).enumerate() {
        *wire = Wire::open(end).with_context(|| format!("cable of card {card}"))?;
    }
    let bell = Arc::new(Bell::new()?);
    let (sender, tasks) = channel();
    let desk = Desk::new(sender, bell.clone());
    let paths: Vec<PathBuf> = (0..CARDS)
        .map(|card| options.socket_dir.join(format!("card{card}.sock")))
        .collect();
    for (card, path) in paths.iter().enumerate() {
        wires::remove_socket(path)?;
        server::start(card, path.clone(), desk.clone())
            .with_context(|| format!("cannot make {}", path.display()))?;
    }
    let ended = ended(bell.clone())?;
    run(
        Bus::new(model, wires),
        &tasks,
        &bell,
        &ended,
        options.idle_ratio,
    );
    remove(&paths);
    Ok(())
}

/// A flag that SIGINT and SIGTERM set.
fn ended(bell: Arc<Bell>) -> anyhow::Result<Arc<AtomicBool>> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = ended.clone();
    ctrlc::set_handler(move || {
        flag.store(true, Ordering::SeqCst);
        bell.ring();
    })?;
    Ok(ended)
}

fn remove(paths: &[PathBuf]) {
    for path in paths {
        if let Err(error) = std::fs::remove_file(path) {
            log::warn!("cannot remove {}: {error}", path.display());
        }
    }
}

/// Runs the cards until the process is to end.
fn run(mut bus: Bus, tasks: &Receiver<Task>, bell: &Bell, ended: &AtomicBool, ratio: f64) {
    let mut looked = None;
    while !ended.load(Ordering::SeqCst) {
        if looked.is_none_or(|at: Instant| at.elapsed() >= LINK_LOOKS) {
            bus.look_at_links();
            looked = Some(Instant::now());
        }
        match tasks.try_recv() {
            Ok(task) => task(&mut bus),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) if bus.is_busy() => {
                bus.quantum();
            }
            Err(TryRecvError::Empty) => sleep(&mut bus, tasks, bell, ended, ratio),
        }
    }
}

/// Sleeps until there is something to do; then lets the virtual time pass that belongs to the sleep.
fn sleep(bus: &mut Bus, tasks: &Receiver<Task>, bell: &Bell, ended: &AtomicBool, ratio: f64) {
    let start = Instant::now();
    bell.before_sleep();
    // a task, or the end, may have come before the bell was armed
    match tasks.try_recv() {
        Ok(task) => task(bus),
        Err(_) if ended.load(Ordering::SeqCst) => {}
        Err(_) => wait(bus, bell, ratio > 0.0),
    }
    bell.after_sleep();
    let passed = start.elapsed().min(Duration::from_nanos(IDLE as u64));
    bus.pass((passed.as_nanos() as f64 * ratio) as u64);
}

fn wait(bus: &mut Bus, bell: &Bell, is_limited: bool) {
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: IDLE,
    };
    let is_limited = is_limited || !bus.wires().iter_mut().all(Wire::wakes);
    let mut fds = vec![PollFd::new(bell, PollFlags::IN)];
    let wires = bus.wires().iter_mut().filter_map(Wire::wait);
    fds.extend(wires.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    if let Err(error) = poll(&mut fds, is_limited.then_some(&limit)) {
        // a signal only wakes us early
        log::debug!("woken: {error}");
    }
    let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    if fds[1..].iter().any(|fd| fd.revents().intersects(broken)) {
        // poll would return at once while an interface is gone
        std::thread::sleep(Duration::from_nanos(IDLE as u64));
    }
}
