//! How a worker sleeps while there is nothing to do.

use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use bora_port::Queue;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::WorkerConfig;
use crate::share::Share;
use crate::worker::{LONGEST_SLEEP, Worker};

/// Longest sleep if a queue cannot wake the worker.
const BLIND_SLEEP: Duration = Duration::from_millis(1);
/// Descriptors that can wake the worker.
const MOST_FDS: usize = 256;

impl Worker {
    /// Waits for a packet in the kernel; the tables may change meanwhile.
    pub(crate) fn sleep(&mut self) {
        self.publish_details();
        self.config.counters.sleeps.add(1);
        self.config.fib.offline();
        let mut longest = self.longest_sleep();
        self.config.bell.before_sleep();
        let mut fds: ArrayVec<PollFd<'_>, MOST_FDS> = ArrayVec::new();
        fds.push(PollFd::new(&self.config.bell, PollFlags::IN));
        for port in &mut self.config.ports {
            if port.share.has_messages() {
                longest = Duration::ZERO;
            }
            if let Some(fd) = port.twin.as_mut().and_then(Queue::wait)
                && fds
                    .try_push(PollFd::from_borrowed_fd(fd, PollFlags::IN))
                    .is_err()
            {
                longest = longest.min(BLIND_SLEEP);
            }
            for queue in &mut port.queues {
                // the worker that fills a ring rings the bell
                if !port.reception.is_direct() {
                    if queue.waiting(1) > 0 {
                        longest = Duration::ZERO;
                    }
                    continue;
                }
                let fd = queue.wait();
                let fd = fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
                if fd.is_none_or(|fd| fds.try_push(fd).is_err()) {
                    longest = longest.min(BLIND_SLEEP);
                }
            }
        }
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: longest.as_nanos().try_into().unwrap_or(i64::MAX),
        };
        // an interrupted or failed wait is only a short sleep
        let _ = poll(&mut fds, Some(&timeout));
        self.config.bell.after_sleep();
        // it may have been a packet of Linux
        self.twins_due_ns = 0;
        self.config.fib.online();
    }

    /// The time until a rate lets a waiting packet go, at most [`LONGEST_SLEEP`]. For packets that
    /// wait for another worker, that worker rings the bell.
    fn longest_sleep(&mut self) -> Duration {
        let now = self.now_ns;
        let ports = self.config.ports.iter_mut().zip(&mut self.egress);
        let own = ports.filter_map(|(port, egress)| match &mut port.share {
            Share::Alone => Some(egress),
            Share::Owner(owner) => Some(&mut owner.egress),
            Share::Member(_) => None,
        });
        let waiting = own.filter(|egress| egress.held() > 0);
        let next = waiting.filter_map(|egress| egress.next_ready_ns(now)).min();
        let until = next.map(|next| Duration::from_nanos(next.saturating_sub(now)));
        until.map_or(LONGEST_SLEEP, |until| until.min(LONGEST_SLEEP))
    }

    /// Lets packets gather in the receive rings until there are `enough`, or `time` is up
    /// ([`crate::Mode::Moderated`]).
    pub(crate) fn gather(&mut self, enough: usize, time: Duration) {
        let start = Instant::now();
        let arrived = |config: &mut WorkerConfig| -> usize {
            let queues = config.ports.iter_mut().flat_map(|port| &mut port.queues);
            queues.map(|queue| queue.waiting(enough)).sum()
        };
        self.config.fib.offline();
        loop {
            let waiting = arrived(&mut self.config);
            let left = time.saturating_sub(start.elapsed());
            if waiting == 0 || waiting >= enough || left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(time / 4));
        }
        self.config.fib.online();
    }
}
