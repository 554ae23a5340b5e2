//! The HTTP API on a unix socket, which the command line and other programs share: reports by GET,
//! orders by POST.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Duration;

use anyhow::Context;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router as Routes};
use serde::{Deserialize, Serialize};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::apply::ApplyOptions;
use crate::calls;
use crate::config::File;
use crate::page;
use crate::patience::Patient;
use crate::reports::{REPORTS, Report, Request};
use crate::router::Router;
use crate::runtime_dir::RuntimeDir;

type Caller = calls::Caller<Router>;

/// Longest time an answer may take: a full table being verified takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Octets of a configuration: with as many addresses as rules can have, the longest ones.
const LONGEST_FILE: usize = 16 << 20;
/// Longest time that workers measure themselves.
const LONGEST_PROFILE: Duration = Duration::from_secs(3600);

/// Makes the socket; from now on SIGTERM and SIGINT stop Bora.
///
/// # Errors
/// If the socket cannot be made.
pub async fn listen(dir: &RuntimeDir, calls: &Caller) -> anyhow::Result<UnixListener> {
    let path = dir.socket();
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
        signals.stop(false);
    });
    Ok(listener)
}

/// Answers on the socket until the process ends.
///
/// # Errors
/// If the socket fails.
pub async fn serve(listener: UnixListener, calls: Caller) -> anyhow::Result<()> {
    let orders = Routes::new()
        .route("/v1/workers", post(set_mode))
        .route("/v1/profile", post(profile))
        .route(
            "/v1/apply",
            post(apply).layer(DefaultBodyLimit::max(LONGEST_FILE)),
        )
        .route("/v1/confirm", post(confirm))
        .route("/v1/stop", post(stop));
    let routes = REPORTS.iter().fold(orders, |routes, report| {
        let get = get(|calls, arguments, flags| answer(report, calls, arguments, flags));
        routes.route(&report.route(), get)
    });
    let routes = routes.merge(page::routes(&calls)).with_state(calls);
    axum::serve(Patient(listener), routes).await.context("API")
}

/// A report.
async fn answer(
    report: &'static Report,
    calls: State<Caller>,
    Path(mut arguments): Path<BTreeMap<String, String>>,
    Query(flags): Query<BTreeMap<String, bool>>,
) -> Response {
    let given = flags.into_iter().filter(|&(_, is_given)| is_given);
    let request = Request {
        argument: arguments.remove("argument").unwrap_or_default(),
        flags: given.map(|(flag, _)| flag).collect(),
    };
    let answer = match ask(calls, move |router| report.make(router, &request)).await {
        Ok(answer) => answer,
        Err(response) => return response,
    };
    match answer.json() {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// What the control loop answers, or the response that says why there is nothing.
async fn ask<A: Send + 'static>(
    State(calls): State<Caller>,
    what: impl FnOnce(&mut Router) -> Result<A, String> + Send + 'static,
) -> Result<A, Response> {
    let answer = tokio::time::timeout(PATIENCE, calls.call(what)).await;
    Err(match answer {
        Ok(Ok(Ok(answer))) => return Ok(answer),
        Ok(Ok(Err(what))) => (StatusCode::BAD_REQUEST, what).into_response(),
        Ok(Err(_)) => (StatusCode::SERVICE_UNAVAILABLE, "Bora is stopping").into_response(),
        Err(_) => (StatusCode::GATEWAY_TIMEOUT, "the control loop is busy").into_response(),
    })
}

/// Has the control loop do something that may be refused.
async fn order<A: Serialize + Send + 'static>(
    calls: State<Caller>,
    what: impl FnOnce(&mut Router) -> Result<A, String> + Send + 'static,
) -> Response {
    match ask(calls, what).await {
        Ok(answer) => Json(answer).into_response(),
        Err(response) => response,
    }
}

#[derive(Deserialize)]
struct SetMode {
    worker: Option<usize>,
    mode: String,
}

async fn set_mode(calls: State<Caller>, Query(options): Query<SetMode>) -> Response {
    let worker = options.worker;
    match options.mode.parse() {
        Ok(mode) => order(calls, move |router| router.set_mode(worker, mode)).await,
        Err(what) => (StatusCode::BAD_REQUEST, what).into_response(),
    }
}

#[derive(Deserialize)]
struct ProfileOptions {
    seconds: u64,
}

/// Has the workers measure; the report `profile` tells what they find.
async fn profile(calls: State<Caller>, Query(options): Query<ProfileOptions>) -> Response {
    let time = Duration::from_secs(options.seconds);
    if time.is_zero() || time > LONGEST_PROFILE {
        let what = format!("`seconds` must be 1 to {}", LONGEST_PROFILE.as_secs());
        return (StatusCode::BAD_REQUEST, what).into_response();
    }
    order(calls, move |router| router.plane.profile(time)).await
}

/// The body is a file as text.
async fn apply(
    calls: State<Caller>,
    Query(options): Query<ApplyOptions>,
    text: String,
) -> Response {
    match File::parse(&text) {
        Ok(file) => order(calls, move |router| router.apply(&file, options)).await,
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error:#}")).into_response(),
    }
}

async fn confirm(calls: State<Caller>) -> Response {
    order(calls, Router::confirm).await
}

#[derive(Deserialize)]
struct StopOptions {
    #[serde(default)]
    detach: bool,
}

async fn stop(State(calls): State<Caller>, Query(options): Query<StopOptions>) -> StatusCode {
    match calls.stop(options.detach) {
        true => StatusCode::ACCEPTED,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn group_id(name: &str) -> Option<u32> {
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    let mut fields = groups.lines().map(|line| line.split(':'));
    fields.find_map(|mut line| (line.next() == Some(name)).then(|| line.nth(1)?.parse().ok())?)
}
