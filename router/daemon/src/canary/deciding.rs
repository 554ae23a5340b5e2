//! `POST /v1/decide`: what this Bora does with packets that somebody else names. A thread of its own answers, as long as somebody
//! asks.

use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bora_linux::lock;
use tokio::sync::oneshot;

use super::judge::Judge;
use super::verdict::{Asked, MOST, Verdict};
use crate::process::calls::Caller;
use crate::process::threads::in_background;
use crate::proof::facts::{Facts, Parts};
use crate::router::Router;

/// How long the thread waits for the next request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the tables of workers are good for.
const FRESH: Duration = Duration::from_millis(200);

/// The way to the thread, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deciding(Arc<Mutex<Option<Sender<Request>>>>);

type Answer = Result<Vec<Verdict>, String>;

#[derive(Debug)]
struct Request {
    asked: Vec<Asked>,
    reply: oneshot::Sender<Answer>,
}

impl Deciding {
    /// Has the thread decide. To be called by the control loop, whose rights a new thread inherits.
    ///
    /// # Errors
    /// The packets are too many, or there can be no more threads.
    pub(crate) fn ask(
        &self,
        calls: &Caller<Router>,
        asked: Vec<Asked>,
    ) -> Result<oneshot::Receiver<Answer>, String> {
        if asked.len() > MOST {
            return Err(format!("more than {MOST} packets in one request"));
        }
        let (reply, answer) = oneshot::channel();
        let request = Request { asked, reply };
        let mut thread = lock(&self.0);
        let request = match &*thread {
            None => request,
            Some(thread) => match thread.send(request) {
                Ok(()) => return Ok(answer),
                Err(SendError(request)) => request, // nobody has asked for a while, and it has ended
            },
        };
        *thread = Some(start(calls, request)?);
        Ok(answer)
    }
}

/// Starts the thread with its first request.
fn start(calls: &Caller<Router>, first: Request) -> Result<Sender<Request>, String> {
    let (sender, requests) = channel();
    let calls = calls.clone();
    in_background("bora-decide", move || serve(&calls, first, &requests))?;
    Ok(sender)
}

/// Answers until nobody asks any more, or the control loop has ended.
fn serve(calls: &Caller<Router>, first: Request, requests: &Receiver<Request>) {
    let Some(parts) = Parts::of(calls) else {
        return;
    };
    let mut judge = match Judge::new(parts) {
        Ok(judge) => judge,
        Err(error) => return tell(first.reply, Err(error.to_string())),
    };
    let (mut request, mut read) = (first, None::<Instant>);
    loop {
        if read.is_none_or(|read| read.elapsed() > FRESH) {
            let Some(facts) = Facts::of(calls) else {
                return;
            };
            judge.adopt(facts);
            read = Some(Instant::now());
        }
        tell(request.reply, Ok(judge.decide(&request.asked)));
        request = match requests.recv_timeout(PATIENCE) {
            Ok(next) => next,
            Err(_) => return, // nobody asks
        };
    }
}

/// A client that has gone away needs no answer.
fn tell(reply: oneshot::Sender<Answer>, answer: Answer) {
    drop(reply.send(answer));
}
