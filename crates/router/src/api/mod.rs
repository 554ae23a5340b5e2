//! The HTTP API, which the command line and other programs share: reports by GET, orders by POST. It answers
//! on a unix socket, and reports also on the address of `[api]`.

mod access;
mod bodies;
mod connections;
mod metrics;
mod network;
mod watch;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router as Routes};
use serde::{Deserialize, Serialize};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use access::Peer;
pub use access::is_this_machine;
use connections::Connections;
use network::Network;
pub(crate) use network::check;

use crate::apply::ApplyOptions;
use crate::calls;
use crate::config::{ApiSection, File};
use crate::page;
use crate::reports::{REPORTS, Report, Request};
use crate::router::Router;
use crate::runtime_dir::RuntimeDir;
use crate::trace;

type Caller = calls::Caller<Router>;

/// Longest time an answer may take: a full table being verified takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Octets of a configuration: with as many addresses as rules can have, the longest ones.
const LONGEST_FILE: usize = 16 << 20;
/// Longest time that workers measure themselves.
const LONGEST_PROFILE: Duration = Duration::from_secs(3600);

/// Questions that may be in the control loop at a time: a flood of them must not keep it from following Linux.
const QUESTIONS: usize = 2;
/// When to accept again after it has failed.
const RETRY: Duration = Duration::from_millis(100);
/// Longest time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The API, before it answers.
pub struct Api {
    socket: UnixListener,
    network: Option<Network>,
}

/// What all requests share.
#[derive(Clone)]
struct Shared {
    calls: Caller,
    questions: Arc<Semaphore>,
    bodies: bodies::Budget,
}

impl Api {
    /// Makes the socket, and listens on the address of the section; from now on SIGTERM and SIGINT stop Bora.
    ///
    /// # Errors
    /// If the socket cannot be made, or what is wrong with the section.
    pub async fn listen(
        dir: &RuntimeDir,
        section: &ApiSection,
        calls: &Caller,
    ) -> anyhow::Result<Self> {
        let network = Network::listen(section).await?;
        let path = dir.socket();
        let _ = std::fs::remove_file(&path); // of a Bora that was killed; we hold the lock
        let socket =
            UnixListener::bind(&path).with_context(|| format!("cannot make {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660))?;
        if let Some(group) = access::group_id(access::READERS) {
            chown(&path, None, Some(group))?;
        }
        let signals = calls.clone();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::spawn(async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            signals.stop(false);
        });
        Ok(Self { socket, network })
    }

    /// Answers until the process ends.
    pub async fn serve(self, calls: Caller) {
        let page = page::routes(&calls).with_state(calls.clone());
        let routes = routes(Shared {
            calls,
            questions: Arc::new(Semaphore::new(QUESTIONS)),
            bodies: bodies::Budget::default(),
        })
        .merge(page);
        if let Some(network) = self.network {
            tokio::spawn(network.serve(routes.clone()));
        }
        let connections = Connections::default();
        loop {
            let Ok((stream, _)) = self.socket.accept().await else {
                tokio::time::sleep(RETRY).await; // out of descriptors
                continue;
            };
            let Ok(credentials) = stream.peer_cred() else {
                continue; // it has gone
            };
            let peer = Peer::local(&credentials);
            let check = from_fn(move |request, next| access::check(peer.clone(), request, next));
            connections.add(stream, routes.clone().layer(check));
        }
    }
}

fn routes(shared: Shared) -> Routes {
    let orders = Routes::new()
        .route("/v1/workers", post(set_mode))
        .route("/v1/profile", post(profile))
        .route(
            "/v1/apply",
            post(apply).layer(DefaultBodyLimit::max(LONGEST_FILE)),
        )
        .route("/v1/confirm", post(confirm))
        .route("/v1/capture", post(watch::capture))
        .route("/v1/trace", post(watch::trace))
        .route("/v1/explain/{address}", get(explain))
        .route("/v1/stop", post(stop))
        .route("/v1/history/{number}", get(old_configuration))
        .route("/metrics", get(metrics::metrics));
    let routes = REPORTS.iter().fold(orders, |routes, report| {
        let get =
            get(|shared, arguments, flags, peer| answer(report, shared, arguments, flags, peer));
        routes.route(&report.route(), get)
    });
    routes.with_state(shared)
}

/// A report.
async fn answer(
    report: &'static Report,
    State(shared): State<Shared>,
    Path(mut arguments): Path<BTreeMap<String, String>>,
    Query(flags): Query<BTreeMap<String, bool>>,
    Extension(peer): Extension<Peer>,
) -> Response {
    let given = flags.into_iter().filter(|&(_, is_given)| is_given);
    let request = Request {
        argument: arguments.remove("argument").unwrap_or_default(),
        flags: given.map(|(flag, _)| flag).collect(),
        secrets: peer.is_admin(),
    };
    let answer = match shared
        .ask(move |router| report.make(router, &request))
        .await
    {
        Ok(answer) => answer,
        Err(response) => return response,
    };
    match answer.json() {
        Ok(json) => shared.bodies.response("application/json", json),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

impl Shared {
    /// Asks the control loop when it is this question's turn. An error is the response that says why there is no
    /// answer.
    async fn ask<A: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Router) -> Result<A, String> + Send + 'static,
    ) -> Result<A, Response> {
        let turn = tokio::time::timeout(PATIENCE, self.questions.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(too_busy());
        };
        self.call(what).await
    }

    /// Has the control loop do something that may be refused.
    async fn order<A: Serialize + Send + 'static>(
        &self,
        what: impl FnOnce(&mut Router) -> Result<A, String> + Send + 'static,
    ) -> Response {
        match self.call(what).await {
            Ok(answer) => Json(answer).into_response(),
            Err(response) => response,
        }
    }

    async fn call<A: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Router) -> Result<A, String> + Send + 'static,
    ) -> Result<A, Response> {
        let answer = tokio::time::timeout(PATIENCE, self.calls.call(what)).await;
        Err(match answer {
            Ok(Ok(Ok(answer))) => return Ok(answer),
            Ok(Ok(Err(what))) => (StatusCode::BAD_REQUEST, what).into_response(),
            Ok(Err(_)) => (StatusCode::SERVICE_UNAVAILABLE, "Bora is stopping").into_response(),
            Err(_) => too_busy(),
        })
    }
}

fn too_busy() -> Response {
    (StatusCode::GATEWAY_TIMEOUT, "the control loop is busy").into_response()
}

#[derive(Deserialize)]
struct SetMode {
    worker: Option<usize>,
    mode: String,
}

async fn set_mode(State(shared): State<Shared>, Query(options): Query<SetMode>) -> Response {
    let worker = options.worker;
    match options.mode.parse() {
        Ok(mode) => {
            shared
                .order(move |router| router.set_mode(worker, mode))
                .await
        }
        Err(what) => (StatusCode::BAD_REQUEST, what).into_response(),
    }
}

#[derive(Deserialize)]
struct ProfileOptions {
    seconds: u64,
}

/// Has the workers measure; the report `profile` tells what they find.
async fn profile(State(shared): State<Shared>, Query(options): Query<ProfileOptions>) -> Response {
    let time = Duration::from_secs(options.seconds);
    if time.is_zero() || time > LONGEST_PROFILE {
        let what = format!("`seconds` must be 1 to {}", LONGEST_PROFILE.as_secs());
        return (StatusCode::BAD_REQUEST, what).into_response();
    }
    shared.order(move |router| router.plane.profile(time)).await
}

/// The body is a file as text.
async fn apply(
    State(shared): State<Shared>,
    Query(options): Query<ApplyOptions>,
    Extension(peer): Extension<Peer>,
    text: String,
) -> Response {
    match File::parse(&text) {
        Ok(file) => {
            let apply = move |router: &mut Router| router.apply(&file, options, &peer.name());
            shared.order(apply).await
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error:#}")).into_response(),
    }
}

/// Why packets to an address go where they go.
async fn explain(
    State(shared): State<Shared>,
    Path(address): Path<IpAddr>,
    Query(origin): Query<trace::Origin>,
) -> Response {
    let explain = move |router: &mut Router| Ok(trace::explain(router, address, &origin));
    match shared.ask(explain).await {
        Ok(explanation) => Json(explanation).into_response(),
        Err(response) => response,
    }
}

/// A configuration that was in force, as `bora.toml` would say it.
async fn old_configuration(
    State(shared): State<Shared>,
    Extension(peer): Extension<Peer>,
    Path(number): Path<u64>,
) -> Response {
    let read = move |router: &mut Router| {
        let file = router.in_force.history().read(number);
        let text = file.and_then(|file| match peer.is_admin() {
            true => file.to_text(),
            false => file.without_secrets().to_text(),
        });
        text.map_err(|_| format!("no configuration {number} is kept: see `bora show history`"))
    };
    match shared.ask(read).await {
        Ok(text) => shared.bodies.response("application/toml", text),
        Err(response) => response,
    }
}

async fn confirm(State(shared): State<Shared>) -> Response {
    shared.order(Router::confirm).await
}

#[derive(Deserialize)]
struct StopOptions {
    #[serde(default)]
    detach: bool,
}

async fn stop(State(shared): State<Shared>, Query(options): Query<StopOptions>) -> StatusCode {
    match shared.calls.stop(options.detach) {
        true => StatusCode::ACCEPTED,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}
