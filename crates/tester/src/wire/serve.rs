//! The thread that serves some of the ports.

use std::num::NonZero;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, gettid, sched_setaffinity, set_current_timer_slack};

use super::common::Common;
use super::lane::Lane;
use crate::clock;

/// A thread that is to send sooner than that, ns, does not sleep; and one that sleeps wakes up that
/// much before, because Linux may need as long.
const WAKE_UP: u64 = 50_000;
/// Longest sleep, ns: the end of the trial and the user's wish to stop are seen so soon.
const LONGEST_SLEEP: u64 = 5_000_000;
/// Longest sleep where nothing tells that frames have come.
const LONGEST_BLIND_SLEEP: u64 = 100_000;

/// Serves ports until the trial is over.
pub(super) fn serve<'a>(
    mut lanes: Vec<Lane<'a>>,
    cpu: Option<u32>,
    common: &Common,
) -> Vec<Lane<'a>> {
    place(cpu);
    loop {
        let received: usize = lanes.iter_mut().map(Lane::receive).sum();
        let next = lanes.iter_mut().filter_map(|lane| lane.send(common)).min();
        let now = clock::now();
        // what the kernel judges needs no looking after, and a port that sends may share the CPU:
        // no reason not to sleep
        let elsewhere: usize = lanes.iter_mut().map(Lane::elsewhere).sum();
        if received + elsewhere > 0 {
            common.is_active(now);
        }
        if common.is_over(now) {
            return lanes;
        }
        if received == 0 && !common.busy {
            let next = next.unwrap_or(u64::MAX).min(now + LONGEST_SLEEP);
            if next > now + WAKE_UP {
                sleep(&mut lanes, next - now - WAKE_UP);
            }
        }
    }
}

/// Prepares this thread for a trial.
pub(super) fn place(cpu: Option<u32>) {
    // best effort, both: without them the measurement is only noisier
    if let Some(cpu) = cpu {
        let mut cpus = CpuSet::new();
        cpus.set(cpu as usize);
        let _ = sched_setaffinity(None, &cpus);
    }
    let _ = set_current_timer_slack(NonZero::new(1));
}

/// Lets this thread have nearly all of its CPU: in a turn of others, milliseconds long, frames would be
/// late. Best effort, too.
pub(super) fn hurry() {
    let _ = setpriority_process(Some(gettid()), -20);
}

/// Sleeps until a frame comes, at most for this time, ns.
fn sleep(lanes: &mut [Lane], most: u64) {
    let queues = lanes.iter_mut().flat_map(|lane| &mut lane.side.queues);
    let mut blind = false;
    let mut fds = Vec::new();
    for queue in queues {
        match queue.wait() {
            Some(fd) => fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN)),
            None => blind = true,
        }
    }
    let most = if blind {
        most.min(LONGEST_BLIND_SLEEP)
    } else {
        most
    };
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: most as _,
    };
    // an error is as good as a frame: look again
    let _ = poll(&mut fds, Some(&timeout));
}
