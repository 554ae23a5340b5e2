//! The HTTP API, which the command line and other programs share: reports by GET, orders by POST. It answers
//! on a unix socket, and reports also on the address of `[api]`.

mod access;
mod bodies;
mod connections;
pub(crate) mod inject;
mod metrics;
mod network;
pub(crate) mod open_metrics;
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
use axum::{Extension, Router as Routes};
use serde::{Deserialize, Serialize};
use tokio::net::UnixListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use access::Peer;
pub use access::is_this_machine;
use connections::{Accepting, Admitted, Connections};
pub(crate) use network::check;
use network::{Network, Secrets};

use crate::apply::ApplyOptions;
use crate::canary::{Asked, Deciding};
use crate::config::{ApiSection, File};
use crate::page;
use crate::process::calls;
use crate::process::fair::{Clients, Place, Turn};
use crate::process::runtime_dir::{RuntimeDir, remove_if_there};
use crate::proof::{ProofOptions, Proofs};
use crate::reports::trace;
use crate::reports::{Answer, Json, REPORTS, Report, Request, Steps};
use crate::router::Router;

type Caller = calls::Caller<Router>;

/// Longest time an answer may take: a full table being verified takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Octets of a configuration: with as many addresses as rules can have, the longest ones.
const LONGEST_FILE: usize = 16 << 20;
/// Longest time that workers measure themselves.
const LONGEST_PROFILE: Duration = Duration::from_secs(3600);

/// The API, before it answers.
pub struct Api {
    socket: UnixListener,
    network: Option<Network>,
    hang_up: Signal,
}

/// What all requests share.
#[derive(Clone)]
struct Shared {
    calls: Caller,
    proofs: Proofs,
    deciding: Deciding,
    bodies: bodies::Budget,
    /// Token, certificate and key of the address of `[api]`.
    secrets: Option<Arc<Secrets>>,
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
        // left by a Bora that was killed; we hold the lock
        remove_if_there(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        let socket =
            UnixListener::bind(&path).with_context(|| format!("cannot make {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660))?;
        match access::group_id(access::READERS) {
            Ok(None) => {}
            Ok(Some(group)) => chown(&path, None, Some(group))?,
            Err(error) => log::warn!(
                "the group `{}` cannot be looked up: {error}; only root can talk to Bora until it is started anew",
                access::READERS
            ),
        }
        let signals = calls.clone();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::spawn(async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            signals.stop(false);
        });
        Ok(Self {
            socket,
            network,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Answers until the process ends.
    pub async fn serve(self, calls: Caller) {
        let page = page::routes(&calls).with_state(calls.clone());
        let shared = Shared {
            calls,
            proofs: Proofs::default(),
            deciding: Deciding::default(),
            bodies: bodies::Budget::default(),
            secrets: self.network.as_ref().map(Network::secrets),
        };
        tokio::spawn(reread_when_hung_up(self.hang_up, shared.clone()));
        let routes = routes(shared).merge(page);
        let clients = Arc::new(Clients::default());
        if let Some(network) = self.network {
            tokio::spawn(network.serve(routes.clone(), clients.clone()));
        }
        let connections = Connections::default();
        let mut accepting = Accepting::default();
        loop {
            let accepted = self.socket.accept().await;
            let Some((stream, _)) = accepting.or_pause(accepted).await else {
                continue;
            };
            let credentials = match stream.peer_cred() {
                Ok(credentials) => credentials,
                Err(error) => {
                    log::warn!("whoever connects to the API cannot be found out: {error}");
                    continue;
                }
            };
            if !connections.have_room_for(&stream) {
                continue;
            }
            let client = format!("uid {}", credentials.uid());
            let place = clients.place(&client);
            let admitted = Admitted::default();
            admitted.admit(); // by the permissions of the socket
            let routes = routes.clone();
            connections.add(client, admitted, async move {
                let peer = Peer::local(&credentials).await;
                Some((stream, with_check(routes, peer, place)))
            });
        }
    }
}

/// Reads token and certificate again at each SIGHUP.
async fn reread_when_hung_up(mut hang_up: Signal, shared: Shared) {
    while hang_up.recv().await.is_some() {
        if let Some(line) = shared.reread_secrets().await {
            log::info!("{line}");
        }
    }
}

/// The routes as a peer may use them.
fn with_check(routes: Routes, peer: Peer, place: Place) -> Routes {
    let check = move |request, next| access::check(peer.clone(), place.clone(), request, next);
    routes.layer(from_fn(check))
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
        .route("/v1/prove", post(prove).get(proof))
        .route("/v1/decide", post(decide))
        .route("/v1/capture", post(watch::capture))
        .route("/v1/trace", post(watch::trace))
        .route("/v1/explain/{address}", get(explain))
        .route("/v1/stop", post(stop))
        .route("/v1/history/{number}", get(old_configuration))
        .route("/metrics", get(metrics::metrics));
    let routes = REPORTS.iter().fold(orders, |routes, report| {
        let get = get(|shared, arguments, flags, peer, place| {
            answer(report, shared, arguments, flags, peer, place)
        });
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
    Extension(place): Extension<Place>,
) -> Response {
    let given = flags.into_iter().filter(|&(_, is_given)| is_given);
    let request = Request {
        argument: arguments.remove("argument").unwrap_or_default(),
        flags: given.map(|(flag, _)| flag).collect(),
        secrets: peer.is_admin(),
    };
    let reserved = |flag: &String| report.admin_flags.contains(&flag.as_str());
    if let Some(flag) = request.flags.iter().find(|flag| reserved(flag))
        && !peer.is_admin()
    {
        return peer.refused(&format!("ask for `{} --{flag}`", report.name));
    }
    let written = async {
        let _turn = turn(&place).await?; // until it is written: so few long ones take memory
        let mut begun = None;
        let step = move |router: &mut Router| step(report, &request, &mut begun, router);
        let json = answer_of(shared.calls.call_in_steps(report.name, step)).await?;
        elsewhere(json).await
    };
    match written.await {
        Ok(Ok(json)) => shared.bodies.response("application/json", json),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(response) => response,
    }
}

/// One step of a report in the control loop.
fn step(
    report: &Report,
    request: &Request,
    begun: &mut Option<Steps>,
    router: &mut Router,
) -> Option<Result<Json, String>> {
    let step = match begun {
        Some(step) => step,
        None => match report.make(router, request) {
            Ok(Answer::Whole(json)) => return Some(Ok(json)),
            Ok(Answer::Begun(step)) => begun.insert(step),
            Err(what) => return Some(Err(what)),
        },
    };
    step(router).map(Ok)
}

/// Runs what takes a while in another thread than the API's only one.
async fn elsewhere<A: Send + 'static>(
    what: impl FnOnce() -> A + Send + 'static,
) -> Result<A, Response> {
    let done = tokio::task::spawn_blocking(what).await;
    done.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response())
}

impl Shared {
    /// Asks the control loop when it is this question's turn. An error is the response that says why there is no
    /// answer.
    async fn ask<A: Send + 'static>(
        &self,
        place: &Place,
        name: &'static str,
        what: impl FnOnce(&mut Router) -> Result<A, String> + Send + 'static,
    ) -> Result<A, Response> {
        let _turn = turn(place).await?;
        self.call(name, what).await
    }

    /// Reads the token and the certificate of `[api]` again. A line says so, if they have changed or cannot be read.
    async fn reread_secrets(&self) -> Option<String> {
        let secrets = self.secrets.clone()?;
        match elsewhere(move || secrets.reread()).await {
            Ok(Ok(false)) => None,
            Ok(Ok(true)) => Some("[api]: the token and the certificate are read again".into()),
            Ok(Err(error)) => {
                let line = format!("[api]: token and certificate stay as they were: {error:#}");
                log::error!("{line}");
                Some(line)
            }
            Err(_) => None, // the process ends
        }
    }

    /// Has the control loop do something that may be refused.
    async fn order<A: Serialize + Send + 'static>(
        &self,
        name: &'static str,
        what: impl FnOnce(&mut Router) -> Result<A, String> + Send + 'static,
    ) -> Response {
        match self.call(name, what).await {
            Ok(answer) => axum::Json(answer).into_response(),
            Err(response) => response,
        }
    }

    async fn call<A: Send + 'static>(
        &self,
        name: &'static str,
        what: impl FnOnce(&mut Router) -> Result<A, String> + Send + 'static,
    ) -> Result<A, Response> {
        answer_of(self.calls.call(name, what)).await
    }
}

/// Waits until it is a client's turn to ask.
async fn turn(place: &Place) -> Result<Turn, Response> {
    match tokio::time::timeout(PATIENCE, place.turn()).await {
        Ok(Ok(turn)) => Ok(turn),
        Ok(Err(_)) | Err(_) => Err(too_busy()), // the time is over, or Bora ends
    }
}

/// Waits for the control loop.
async fn answer_of<A>(answer: oneshot::Receiver<Result<A, String>>) -> Result<A, Response> {
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    Err(match answer {
        Ok(Ok(Ok(answer))) => return Ok(answer),
        Ok(Ok(Err(what))) => (StatusCode::BAD_REQUEST, what).into_response(),
        // the loop has ended, or has not answered in time
        Ok(Err(_)) => (StatusCode::SERVICE_UNAVAILABLE, "Bora is stopping").into_response(),
        Err(_) => too_busy(),
    })
}

fn too_busy() -> Response {
    (StatusCode::GATEWAY_TIMEOUT, "the control loop is busy").into_response()
}

#[derive(Deserialize)]
struct SetMode {
    worker: Option<usize>,
    mode: String,
}

async fn set_mode(
    State(shared): State<Shared>,
    Query(options): Query<SetMode>,
    Extension(peer): Extension<Peer>,
) -> Response {
    let worker = options.worker;
    match options.mode.parse() {
        Ok(mode) => {
            let set = move |router: &mut Router| router.set_mode(worker, mode, &peer.name());
            shared.order("a mode", set).await
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
    let profile = move |router: &mut Router| router.plane.profile(time);
    shared.order("a profile", profile).await
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
            let dry_run = options.dry_run;
            let apply = move |router: &mut Router| router.apply(&file, options, &peer.name());
            let mut report = match shared.call("an apply", apply).await {
                Ok(report) => report,
                Err(response) => return response,
            };
            if !dry_run {
                report.actions.extend(shared.reread_secrets().await);
            }
            axum::Json(report).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error:#}")).into_response(),
    }
}

/// Why packets to an address go where they go.
async fn explain(
    State(shared): State<Shared>,
    Extension(place): Extension<Place>,
    Path(address): Path<IpAddr>,
    Query(origin): Query<trace::Origin>,
) -> Response {
    let explain = move |router: &mut Router| Ok(trace::explain(router, address, &origin));
    match shared.ask(&place, "an explanation", explain).await {
        Ok(explanation) => axum::Json(explanation).into_response(),
        Err(response) => response,
    }
}

/// A configuration that was in force, as `bora.toml` would say it.
async fn old_configuration(
    State(shared): State<Shared>,
    Extension(peer): Extension<Peer>,
    Extension(place): Extension<Place>,
    Path(number): Path<u64>,
) -> Response {
    let history = |router: &mut Router| Ok(router.in_force.history().clone());
    let history = match shared.ask(&place, "history", history).await {
        Ok(history) => history,
        Err(response) => return response,
    };
    let read = move || {
        let Some(file) = history.read(number).transpose() else {
            let what = format!("no configuration {number} is kept: see `bora show history`");
            return Err((StatusCode::BAD_REQUEST, what));
        };
        let text = file.and_then(|file| match peer.is_admin() {
            true => file.to_text(),
            false => file.without_secrets().to_text(),
        });
        text.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")))
    };
    match elsewhere(read).await {
        Ok(Ok(text)) => shared.bodies.response("application/toml", text),
        Ok(Err(refusal)) => refusal.into_response(),
        Err(response) => response,
    }
}

async fn confirm(State(shared): State<Shared>) -> Response {
    shared.order("a confirmation", Router::confirm).await
}

/// Starts a proof that Bora does what Linux does, goes on with one, or pauses it.
async fn prove(State(shared): State<Shared>, Query(options): Query<ProofOptions>) -> Response {
    let (proofs, calls) = (shared.proofs.clone(), shared.calls.clone());
    // the control loop starts the thread, because that inherits its rights
    let order = move |_: &mut Router| proofs.order(&calls, options);
    shared.order("a proof", order).await
}

/// What the last proof has found so far.
async fn proof(State(shared): State<Shared>) -> Response {
    match shared.proofs.last() {
        Some(proof) => axum::Json(proof).into_response(),
        None => {
            let what = "nothing was proven yet: `bora prove` does it";
            (StatusCode::NOT_FOUND, what).into_response()
        }
    }
}

/// What becomes of packets, which are neither sent nor counted. The body is a list of them in JSON.
async fn decide(State(shared): State<Shared>, text: String) -> Response {
    let asked: Vec<Asked> = match serde_json::from_str(&text) {
        Ok(asked) => asked,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let (deciding, calls) = (shared.deciding.clone(), shared.calls.clone());
    // the control loop starts the thread, because that inherits its rights
    let ask = move |_: &mut Router| deciding.ask(&calls, asked);
    let answer = match shared.call("packets to decide about", ask).await {
        Ok(answer) => answer,
        Err(response) => return response,
    };
    match answer_of(answer).await {
        Ok(verdicts) => axum::Json(verdicts).into_response(),
        Err(response) => response,
    }
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
