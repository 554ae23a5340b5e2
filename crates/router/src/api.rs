//! The HTTP API on a unix socket: the CLI, a web page and Prometheus share it.

use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Context;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bora_kernel::Waker;
use bora_worker::Mode;
use serde::Deserialize;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::apply::ApplyOptions;
use crate::config::File;
use crate::place::Place;
use crate::report::{
    ApplyReport, ClassReport, DropsReport, FibReport, FramesReport, NeighbourReport, OffloadReport,
    PortReport, RouteReport, RuleReport, SyncReport, WorkerReport,
};

/// A question to the control loop, or the order to stop.
#[derive(Debug)]
pub enum Call {
    /// All ports.
    Ports(oneshot::Sender<Vec<PortReport>>),
    /// Where all packets went.
    Drops(oneshot::Sender<DropsReport>),
    /// Where the frames are; `None` without an engine.
    Frames(oneshot::Sender<Option<FramesReport>>),
    /// All workers.
    Workers(oneshot::Sender<Vec<WorkerReport>>),
    /// All routes.
    Routes(oneshot::Sender<Vec<RouteReport>>),
    /// The route of one address.
    Route(IpAddr, oneshot::Sender<Option<RouteReport>>),
    /// The FIB.
    Fib(oneshot::Sender<FibReport>),
    /// All neighbours.
    Neighbours(oneshot::Sender<Vec<NeighbourReport>>),
    /// Whether kernel and FIB agree.
    Sync {
        /// Dump and compare.
        verify: bool,
        /// The answer.
        reply: oneshot::Sender<SyncReport>,
    },
    /// What HERO cards forward by themselves.
    Offload(oneshot::Sender<Vec<OffloadReport>>),
    /// All classes.
    Classes(oneshot::Sender<Vec<ClassReport>>),
    /// All rules.
    Rules(oneshot::Sender<Vec<RuleReport>>),
    /// Make this the configuration in force.
    Apply {
        /// The configuration.
        file: Box<File>,
        /// How.
        options: ApplyOptions,
        /// The answer: what was changed, or what is wrong.
        reply: oneshot::Sender<Result<ApplyReport, String>>,
    },
    /// Keep what was applied.
    Confirm(oneshot::Sender<Result<(), String>>),
    /// The configuration in force.
    Config(oneshot::Sender<File>),
    /// Change when workers look at their queues.
    SetMode {
        /// Which worker; all if none.
        worker: Option<usize>,
        /// How.
        mode: Mode,
        /// The answer: what is wrong, if anything.
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// End.
    Stop {
        /// Whether to take the XDP program off the interfaces, too.
        detach: bool,
    },
}

/// Sends questions to the control loop, and wakes it for them.
#[derive(Clone, Debug)]
pub struct Caller {
    calls: Sender<Call>,
    waker: Waker,
}

impl Caller {
    pub(crate) fn new(calls: Sender<Call>, waker: Waker) -> Self {
        Self { calls, waker }
    }

    /// `false` once the control loop has ended.
    fn send(&self, call: Call) -> bool {
        let sent = self.calls.send(call).is_ok();
        self.waker.wake();
        sent
    }
}

/// Longest time an answer may take: a full table being verified takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes the socket; from now on SIGTERM and SIGINT become [`Call::Stop`].
///
/// # Errors
/// If the socket cannot be made.
pub async fn listen(place: &Place, calls: &Caller) -> anyhow::Result<UnixListener> {
    let path = place.socket();
    let _ = std::fs::remove_file(&path); // of a Bora that was killed; we hold the lock
    let listener =
        UnixListener::bind(&path).with_context(|| format!("cannot make {}", path.display()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660))?;
    if let Some(group) = group_id("bora") {
        chown(&path, None, Some(group))?;
    }
    let signals = calls.clone();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        signals.send(Call::Stop { detach: false });
    });
    Ok(listener)
}

/// Answers on the socket until the process ends.
///
/// # Errors
/// If the socket fails.
pub async fn serve(listener: UnixListener, calls: Caller) -> anyhow::Result<()> {
    let app = Router::new()
        .route("/v1/ports", get(|State(calls)| ask(calls, Call::Ports)))
        .route("/v1/drops", get(|State(calls)| ask(calls, Call::Drops)))
        .route("/v1/frames", get(|State(calls)| ask(calls, Call::Frames)))
        .route("/v1/config", get(|State(calls)| ask(calls, Call::Config)))
        .route("/v1/fib", get(|State(calls)| ask(calls, Call::Fib)))
        .route(
            "/v1/workers",
            get(|State(calls)| ask(calls, Call::Workers)).post(set_mode),
        )
        .route("/v1/routes", get(|State(calls)| ask(calls, Call::Routes)))
        .route("/v1/routes/{addr}", get(route))
        .route(
            "/v1/neighbours",
            get(|State(calls)| ask(calls, Call::Neighbours)),
        )
        .route("/v1/sync", get(sync))
        .route("/v1/classes", get(|State(calls)| ask(calls, Call::Classes)))
        .route("/v1/offload", get(|State(calls)| ask(calls, Call::Offload)))
        .route("/v1/rules", get(|State(calls)| ask(calls, Call::Rules)))
        .route("/v1/apply", post(apply))
        .route("/v1/confirm", post(confirm))
        .route("/v1/stop", post(stop))
        .with_state(calls);
    axum::serve(listener, app).await.context("API")
}

async fn ask<T: serde::Serialize>(
    calls: Caller,
    call: impl FnOnce(oneshot::Sender<T>) -> Call,
) -> Response {
    let (reply, answer) = oneshot::channel();
    let stopping = || (StatusCode::SERVICE_UNAVAILABLE, "Bora is stopping").into_response();
    if !calls.send(call(reply)) {
        return stopping();
    }
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(value)) => Json(value).into_response(),
        Ok(Err(_)) => stopping(),
        Err(_) => (StatusCode::GATEWAY_TIMEOUT, "the control loop is busy").into_response(),
    }
}

async fn route(State(calls): State<Caller>, Path(addr): Path<String>) -> Response {
    match addr.parse() {
        Ok(addr) => ask(calls, |reply| Call::Route(addr, reply)).await,
        Err(_) => (
            StatusCode::BAD_REQUEST,
            format!("`{addr}` is not an address"),
        )
            .into_response(),
    }
}

#[derive(Deserialize)]
struct SyncOptions {
    #[serde(default)]
    verify: bool,
}

async fn sync(State(calls): State<Caller>, Query(options): Query<SyncOptions>) -> Response {
    ask(calls, |reply| Call::Sync {
        verify: options.verify,
        reply,
    })
    .await
}

#[derive(Deserialize)]
struct SetMode {
    worker: Option<usize>,
    mode: String,
}

async fn set_mode(State(calls): State<Caller>, Query(options): Query<SetMode>) -> Response {
    let bad = |what: String| (StatusCode::BAD_REQUEST, what).into_response();
    let mode = match options.mode.parse() {
        Ok(mode) => mode,
        Err(what) => return bad(what),
    };
    let worker = options.worker;
    order(calls, |reply| Call::SetMode {
        worker,
        mode,
        reply,
    })
    .await
}

/// The body is a file as text.
async fn apply(
    State(calls): State<Caller>,
    Query(options): Query<ApplyOptions>,
    text: String,
) -> Response {
    match File::parse(&text) {
        Ok(file) => {
            let file = Box::new(file);
            order(calls, |reply| Call::Apply {
                file,
                options,
                reply,
            })
            .await
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error:#}")).into_response(),
    }
}

async fn confirm(State(calls): State<Caller>) -> Response {
    order(calls, Call::Confirm).await
}

/// Like [`ask`], for what may be refused.
async fn order<T: serde::Serialize>(
    calls: Caller,
    call: impl FnOnce(oneshot::Sender<Result<T, String>>) -> Call,
) -> Response {
    let (reply, answer) = oneshot::channel();
    calls.send(call(reply));
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(Ok(value))) => Json(value).into_response(),
        Ok(Ok(Err(what))) => (StatusCode::BAD_REQUEST, what).into_response(),
        Ok(Err(_)) => (StatusCode::SERVICE_UNAVAILABLE, "Bora is stopping").into_response(),
        Err(_) => (StatusCode::GATEWAY_TIMEOUT, "the control loop is busy").into_response(),
    }
}

#[derive(Deserialize)]
struct StopOptions {
    #[serde(default)]
    detach: bool,
}

async fn stop(State(calls): State<Caller>, Query(options): Query<StopOptions>) -> StatusCode {
    let detach = options.detach;
    match calls.send(Call::Stop { detach }) {
        true => StatusCode::ACCEPTED,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn group_id(name: &str) -> Option<u32> {
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    let mut fields = groups.lines().map(|line| line.split(':'));
    fields.find_map(|mut line| (line.next() == Some(name)).then(|| line.nth(1)?.parse().ok())?)
}
