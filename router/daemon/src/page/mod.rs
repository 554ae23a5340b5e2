//! The page for operators, and the stream of live data behind it. Both only show; nothing here changes
//! anything.

mod snapshot;
mod stream;

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router as Routes};

use crate::process::calls;
use crate::process::fair::Place;
use crate::router::Router;
use stream::Streams;

type Caller = calls::Caller<Router>;

const CSS: &str = "text/css; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, type and text of what the page consists of.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("index.html")),
    ("/app.css", CSS, include_str!("app.css")),
    ("/app.js", SCRIPT, include_str!("app.js")),
    ("/chart.js", SCRIPT, include_str!("chart.js")),
    ("/dom.js", SCRIPT, include_str!("dom.js")),
    ("/view.js", SCRIPT, include_str!("view.js")),
];

/// The browser loads nothing but these files and the data, from this server, and nobody may frame them.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page, and `/v1/live`. To be called inside the runtime that serves it.
pub(crate) fn routes(calls: &Caller) -> Routes<Caller> {
    let streams = Arc::new(Streams::start(calls.clone()));
    let live = move |State(calls): State<Caller>, Extension(place): Extension<Place>| async move {
        streams.open(&calls, &place).await
    };
    let routes = Routes::new().route("/v1/live", get(live));
    FILES.iter().fold(routes, |routes, &(path, kind, text)| {
        routes.route(path, get(move || async move { file(kind, text) }))
    })
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}
