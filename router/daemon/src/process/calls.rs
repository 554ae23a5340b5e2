//! How other threads call the control loop: they send it closures and wake it. The loop makes one step for them between two
//! looks at Linux, however many call.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{self, Receiver, Sender};

use bora_mirror::Waker;
use tokio::sync::oneshot;

/// A call of the control loop, whose state is a `T`.
enum Call<T> {
    /// Run this until it says that it is done; the caller gets the result.
    Do(&'static str, Step<T>),
    /// Stop.
    Stop {
        /// Whether to take the XDP program off the interfaces, too.
        detach: bool,
    },
}

/// Part of the work for a call; true when all is done.
type Step<T> = Box<dyn FnMut(&mut T) -> bool + Send>;

/// What [`Inbox::serve`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// Nobody calls.
    Nothing,
    /// A step of this.
    Step(&'static str),
    /// The loop is to stop.
    Stop {
        /// Whether to take the XDP program off the interfaces, too.
        detach: bool,
    },
}

/// Sends calls.
pub struct Caller<T> {
    calls: Sender<Call<T>>,
    waker: Waker,
}

/// Where calls arrive.
pub struct Inbox<T> {
    calls: Receiver<Call<T>>,
    /// The next ones, those that have begun and need more steps among them.
    waiting: VecDeque<Call<T>>,
}

/// A way to call the control loop that `waker` wakes.
pub(crate) fn channel<T>(waker: Waker) -> (Caller<T>, Inbox<T>) {
    let (sender, calls) = mpsc::channel();
    let caller = Caller {
        calls: sender,
        waker,
    };
    let waiting = VecDeque::new();
    (caller, Inbox { calls, waiting })
}

impl<T> Caller<T> {
    /// Has the loop run `what`, which `name` names in reports. The receiver gets its result, or an error if the loop has ended.
    pub(crate) fn call<A: Send + 'static>(
        &self,
        name: &'static str,
        what: impl FnOnce(&mut T) -> A + Send + 'static,
    ) -> oneshot::Receiver<A> {
        let mut what = Some(what);
        self.call_in_steps(name, move |on: &mut T| what.take().map(|what| what(on)))
    }

    /// Has the loop run `what`, and waits for the result; `None` if the loop has ended.
    #[expect(
        clippy::disallowed_methods,
        reason = "the error says no more than that the loop has ended"
    )]
    pub(crate) fn ask<A: Send + 'static>(
        &self,
        name: &'static str,
        what: impl FnOnce(&mut T) -> A + Send + 'static,
    ) -> Option<A> {
        self.call(name, what).blocking_recv().ok()
    }

    /// Has the loop run `step` again and again, until it has a result. In between the loop follows Linux.
    pub(crate) fn call_in_steps<A: Send + 'static>(
        &self,
        name: &'static str,
        mut step: impl FnMut(&mut T) -> Option<A> + Send + 'static,
    ) -> oneshot::Receiver<A> {
        let (reply, answer) = oneshot::channel();
        let mut reply = Some(reply);
        let step = move |on: &mut T| {
            // a caller that has gone away needs no more of its answer; but what it has ordered is done
            if let Some(answer) = step(on)
                && let Some(reply) = reply.take()
            {
                drop(reply.send(answer));
            }
            reply.as_ref().is_none_or(oneshot::Sender::is_closed)
        };
        self.send(Call::Do(name, Box::new(step)));
        answer
    }

    /// Stops the loop. `false` if it has ended already.
    pub(crate) fn stop(&self, detach: bool) -> bool {
        self.send(Call::Stop { detach })
    }

    fn send(&self, call: Call<T>) -> bool {
        let sent = self.calls.send(call);
        self.waker.wake();
        matches!(sent, Ok(())) // or the loop has ended, and the caller's receiver says so
    }
}

impl<T> Inbox<T> {
    /// Makes one step for one caller, in turn.
    pub(crate) fn serve(&mut self, on: &mut T) -> Served {
        match self.receive().then(|| self.waiting.pop_front()).flatten() {
            None => Served::Nothing,
            Some(Call::Stop { detach }) => Served::Stop { detach },
            Some(Call::Do(name, mut step)) => {
                if !step(on) {
                    self.waiting.push_back(Call::Do(name, step));
                }
                Served::Step(name)
            }
        }
    }

    /// Whether somebody waits for the loop.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes what has been sent; returns whether there is something to do. Once all callers are gone, that is to stop.
    fn receive(&mut self) -> bool {
        loop {
            match self.calls.try_recv() {
                Ok(call) => self.waiting.push_back(call),
                Err(mpsc::TryRecvError::Empty) => return self.is_waiting(),
                Err(mpsc::TryRecvError::Disconnected) => {
                    self.waiting.push_back(Call::Stop { detach: false });
                    return true;
                }
            }
        }
    }
}

impl<T> Clone for Caller<T> {
    fn clone(&self) -> Self {
        Self {
            calls: self.calls.clone(),
            waker: self.waker.clone(),
        }
    }
}

impl<T> fmt::Debug for Caller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Caller")
    }
}
