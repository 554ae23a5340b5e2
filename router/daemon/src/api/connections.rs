//! The connections: how many there may be, and which one makes room for another.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router as Routes;
use bora_linux::lock;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::process::timeouts::PatientIo;

/// Most connections at a time, those that are still being opened among them.
const MOST: usize = 256;
/// How long opening one may take: a TLS handshake, or a look at who is there.
const OPENING: Duration = Duration::from_secs(10);
/// How long a client may take for the head of a request, also between two.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait after a connection could not be accepted.
const RETRY: Duration = Duration::from_millis(100);
/// Descriptors that connections leave to the rest of Bora, which reads files in /proc and opens sockets.
const RESERVE: u64 = 128;

/// All connections of a listener, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Vec<Connection>>);

#[derive(Debug)]
struct Connection {
    client: String,
    admitted: Admitted,
    task: AbortHandle,
}

/// Whether a listener can accept connections; the log has when that changes.
#[derive(Debug, Default)]
pub(super) struct Accepting {
    fails: bool,
}

impl Accepting {
    /// What was accepted. After a failure a while passes, because descriptors may have run out.
    pub(super) async fn or_pause<T>(&mut self, accepted: io::Result<T>) -> Option<T> {
        match accepted {
            Ok(accepted) => {
                self.fails = false;
                Some(accepted)
            }
            Err(error) => {
                if !mem::replace(&mut self.fails, true) {
                    log::warn!("the API cannot accept a connection, and tries on: {error}");
                }
                sleep(RETRY).await;
                None
            }
        }
    }
}

/// Whether a connection's client has shown that it may ask.
#[derive(Clone, Debug, Default)]
pub(super) struct Admitted(Arc<AtomicBool>);

impl Admitted {
    pub(super) fn admit(&self) {
        self.0.store(true, Relaxed);
    }
}

impl Connections {
    /// Answers requests of a new connection until it ends, once `opening` has its stream and the routes.
    pub(super) fn add<S>(
        &self,
        client: String,
        admitted: Admitted,
        opening: impl Future<Output = Option<(S, Routes)>> + Send + 'static,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.make_room(MOST - 1);
        let task = tokio::spawn(async {
            // the error says that opening took too long
            if let Ok(Some((stream, routes))) = timeout(OPENING, opening).await {
                serve(stream, routes).await;
            }
        });
        self.all().push(Connection {
            client,
            admitted,
            task: task.abort_handle(),
        });
    }

    /// Whether there are descriptors for a new connection; if not, an old one ends.
    pub(super) fn have_room_for(&self, stream: &impl AsFd) -> bool {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX); // `None`: no limit
        // the kernel gives the lowest number that is free
        let number = stream.as_fd().as_raw_fd().unsigned_abs();
        let enough = u64::from(number) + RESERVE < limit;
        if !enough {
            let count = self.all().len();
            self.make_room(count.saturating_sub(1));
        }
        enough
    }

    /// Ends connections until there are no more than `most`.
    fn make_room(&self, most: usize) {
        let mut all = self.all();
        all.retain(|one| !one.task.is_finished());
        while all.len() > most {
            let index = victim(&all);
            all.remove(index).task.abort();
        }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        lock(&self.0)
    }
}

/// Which connection makes room: the oldest whose client has shown nothing; if there is none, the oldest of the client that has the
/// most.
fn victim(all: &[Connection]) -> usize {
    let strange = |one: &Connection| !one.admitted.0.load(Relaxed);
    if let Some(index) = all.iter().position(strange) {
        return index;
    }
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(&one.client).or_insert(0) += 1;
    }
    let most = counts.values().copied().max();
    let index = all
        .iter()
        .position(|one| counts.get(&one.client).copied() == most);
    index.unwrap_or(0)
}

async fn serve<S>(stream: S, routes: Routes)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(
            TokioIo::new(PatientIo::of_writes(stream)),
            TowerToHyperService::new(routes),
        );
    if let Err(error) = connection.await {
        log::debug!("a connection of the API ended: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_make_room_before_clients_and_many_before_few() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let task = || runtime.as_ref().unwrap().spawn(async {}).abort_handle();
        let one = |client: &str, is_admitted: bool| {
            let admitted = Admitted::default();
            if is_admitted {
                admitted.admit();
            }
            Connection {
                client: client.into(),
                admitted,
                task: task(),
            }
        };
        let all = [
            one("a", true),
            one("b", true),
            one("x", false),
            one("b", true),
        ];
        assert_eq!(victim(&all), 2);
        assert_eq!(victim(&[one("a", true), one("b", true), one("b", true)]), 1);
    }
}
