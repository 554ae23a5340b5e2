//! `bora web`: the page in a browser. A server that only reads: it passes GET on to the daemon's socket,
//! and refuses everything else.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, serve};
use bora_daemon::{Patient, is_this_machine};
use clap::Args;
use tokio::net::TcpListener;

use crate::client;
use bora_terminal::{remark, say};

#[derive(Clone, Debug, Args)]
pub(crate) struct WebOptions {
    /// Where to listen; other addresses than the machine itself reach everybody who reaches it
    #[arg(
        short,
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8080"
    )]
    pub(crate) listen: SocketAddr,
    /// Also answer to this name of the machine; repeat it
    ///
    /// Without, browsers must use an address, or localhost: so that no site can have its own name lead
    /// here and read what is shown.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
}

/// Serves until it is ended.
pub(crate) fn web(options: WebOptions) -> anyhow::Result<()> {
    let listen = options.listen;
    if !listen.ip().is_loopback() {
        remark(format_args!(
            "{listen} can be reached from other machines: whoever reaches it sees everything, without a \
             password, and without encryption"
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr()?;
        say!("http://{address}/")?;
        let routes = Router::new().fallback(answer);
        let routes = routes.with_state(Arc::new(options.host));
        serve(Patient(listener), routes).await?;
        Ok(())
    })
}

async fn answer(State(names): State<Arc<Vec<String>>>, request: Request) -> Response {
    if let Err((status, why)) = check(&request, &names) {
        return (status, [(header::CONNECTION, "close")], why).into_response();
    }
    match pass_on(request.method().clone(), request.uri().path()).await {
        Ok(response) => response,
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

/// Whether the request only reads, and comes from the page or from the user.
fn check(request: &Request, names: &[String]) -> Result<(), (StatusCode, &'static str)> {
    let uri = request.uri();
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "this server only shows"));
    }
    if !is_this_machine(host(request.headers()), names) {
        let why = "use the machine's address, or tell `bora web` this name with --host";
        return Err((StatusCode::MISDIRECTED_REQUEST, why));
    }
    if is_foreign(request.headers()) {
        return Err((StatusCode::FORBIDDEN, "another site asks"));
    }
    if uri.query().is_some() {
        // such as the comparison of whole tables
        return Err((StatusCode::FORBIDDEN, "options are not passed on"));
    }
    Ok(())
}

fn host(headers: &HeaderMap) -> &str {
    let host = headers.get(header::HOST);
    host.and_then(|host| host.to_str().ok()).unwrap_or_default()
}

/// Whether a page of another site asks in the background. A link from there is the user's will.
fn is_foreign(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|it| it == value);
    is("sec-fetch-site", "cross-site") && !is("sec-fetch-mode", "navigate")
}

/// The daemon's answer, as it comes.
async fn pass_on(method: Method, path: &str) -> anyhow::Result<Response> {
    let (mut parts, body) = client::send_as_reader(method, path).await?.into_parts();
    for hop in [header::CONNECTION, header::TRANSFER_ENCODING] {
        parts.headers.remove(hop);
    }
    Ok(Response::from_parts(parts, Body::new(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(method: Method, path: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        let request = request.body(Body::empty()).unwrap();
        let checked = check(&request, &["router.example".into()]);
        checked.err().map(|(status, _)| status.as_u16())
    }

    #[test]
    fn only_reading_is_passed_on() {
        let host = [("host", "127.0.0.1:8080")];
        for path in ["/", "/app.js", "/v1/live", "/v1/ports"] {
            assert_eq!(refusal(Method::GET, path, &host), None, "{path}");
            assert_eq!(refusal(Method::HEAD, path, &host), None, "{path}");
        }
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(refusal(method, "/v1/stop", &host), Some(405));
        }
        assert_eq!(
            refusal(Method::GET, "/v1/sync?verify=true", &host),
            Some(403)
        );
    }

    #[test]
    fn names_of_other_sites_are_refused() {
        let known = [
            "127.0.0.1",
            "[::1]:80",
            "192.0.2.1:8080",
            "LocalHost:8080",
            "router.example:1",
        ];
        for host in known {
            assert_eq!(refusal(Method::GET, "/", &[("host", host)]), None, "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example:8080",
            "localhost.evil",
            "[evil]",
        ] {
            assert_eq!(
                refusal(Method::GET, "/", &[("host", host)]),
                Some(421),
                "{host}"
            );
        }
    }

    #[test]
    fn other_sites_may_link_and_not_ask() {
        let asks = [("host", "localhost"), ("sec-fetch-site", "cross-site")];
        assert_eq!(refusal(Method::GET, "/v1/live", &asks), Some(403));
        let follows = [asks[0], asks[1], ("sec-fetch-mode", "navigate")];
        assert_eq!(refusal(Method::GET, "/", &follows), None);
    }
}
