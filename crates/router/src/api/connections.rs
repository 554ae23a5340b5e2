//! The connections: how many there may be, and which one makes room for another.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use axum::Router as Routes;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use crate::patience::PatientIo;

/// Most connections at a time. One more ends the oldest: slow clients cannot keep others out.
const MOST: usize = 256;
/// How long a client may take for the head of a request, also between two.
const PATIENCE: Duration = Duration::from_secs(30);

/// All connections of a listener, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<VecDeque<AbortHandle>>);

impl Connections {
    /// Answers requests of a new connection until it ends.
    pub(super) fn add<S>(&self, stream: S, routes: Routes)
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
        let task = tokio::spawn(async {
            // how a client ends is its own business
            let _ = connection.await;
        });
        let mut all = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        all.retain(|one| !one.is_finished());
        if all.len() >= MOST
            && let Some(oldest) = all.pop_front()
        {
            oldest.abort();
        }
        all.push_back(task.abort_handle());
    }
}
