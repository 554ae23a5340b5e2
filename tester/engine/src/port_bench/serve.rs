//! The thread that serves some of the ports.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::common::{Common, place};
use super::lane::Lane;
use crate::clock;

/// A thread that must send within this time, ns, does not sleep. One that sleeps wakes up this much
/// earlier, because Linux may wake it that late.
const WAKE_UP: u64 = 50_000;
/// Longest sleep, ns: how soon a thread sees that the trial is over or that the user stops it.
const LONGEST_SLEEP: u64 = 5_000_000;
/// Longest sleep on a port that has no file descriptor to wait on.
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
        // frames that the kernel judges need no work here, so the thread may sleep and leave the CPU
        // to a sender
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
