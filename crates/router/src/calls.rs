//! How other threads call the control loop: they send it closures and wake it.

use std::fmt;
use std::sync::mpsc::{self, Receiver, Sender};

use bora_kernel::Waker;
use tokio::sync::oneshot;

/// A call of the control loop, whose state is a `T`.
pub(crate) enum Call<T> {
    /// Run this; the caller gets the result.
    Do(Box<dyn FnOnce(&mut T) + Send>),
    /// Stop.
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
pub struct Inbox<T>(Receiver<Call<T>>);

/// A way to call the control loop that `waker` wakes.
pub(crate) fn channel<T>(waker: Waker) -> (Caller<T>, Inbox<T>) {
    let (calls, inbox) = mpsc::channel();
    (Caller { calls, waker }, Inbox(inbox))
}

impl<T> Caller<T> {
    /// Has the loop run `what`. The receiver gets its result, or an error if the loop has ended.
    pub(crate) fn call<A: Send + 'static>(
        &self,
        what: impl FnOnce(&mut T) -> A + Send + 'static,
    ) -> oneshot::Receiver<A> {
        let (reply, answer) = oneshot::channel();
        self.send(Call::Do(Box::new(|on: &mut T| {
            // a caller that has gone away needs no answer
            drop(reply.send(what(on)));
        })));
        answer
    }

    /// Stops the loop. `false` if it has ended already.
    pub(crate) fn stop(&self, detach: bool) -> bool {
        self.send(Call::Stop { detach })
    }

    fn send(&self, call: Call<T>) -> bool {
        let sent = self.calls.send(call).is_ok();
        self.waker.wake();
        sent
    }
}

impl<T> Inbox<T> {
    /// The next call, if there is one now; [`Call::Stop`] once all callers are gone.
    pub(crate) fn next(&self) -> Option<Call<T>> {
        match self.0.try_recv() {
            Ok(call) => Some(call),
            Err(mpsc::TryRecvError::Empty) => None,
            Err(mpsc::TryRecvError::Disconnected) => Some(Call::Stop { detach: false }),
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
