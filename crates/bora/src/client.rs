//! Talks to the daemon of this network namespace.

use anyhow::{Context, bail};
use bora_router::{RuntimeDir, other_namespaces};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// Asks for a resource and returns its JSON text.
pub(crate) fn get(path: &str) -> anyhow::Result<String> {
    request(Method::GET, path, String::new())
}

/// Orders something.
pub(crate) fn post(path: &str) -> anyhow::Result<String> {
    request(Method::POST, path, String::new())
}

/// Orders something that takes a text.
pub(crate) fn post_text(path: &str, text: String) -> anyhow::Result<String> {
    request(Method::POST, path, text)
}

fn request(method: Method, path: &str, text: String) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let response = send(method, path, text).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        if !status.is_success() {
            bail!(
                "{}",
                if text.is_empty() {
                    status.to_string()
                } else {
                    text
                }
            );
        }
        Ok(text)
    })
}

/// Sends a request; the answer's body is still to be read.
pub(crate) async fn send(
    method: Method,
    path: &str,
    text: String,
) -> anyhow::Result<Response<Incoming>> {
    let stream = connect().await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "bora")
        .body(Full::<Bytes>::from(text))?;
    let response = sender.send_request(request).await;
    response.context("Bora did not answer")
}

async fn connect() -> anyhow::Result<UnixStream> {
    let dir = RuntimeDir::here()?;
    let path = dir.socket();
    match UnixStream::connect(&path).await {
        Ok(stream) => Ok(stream),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            bail!("no permission to talk to Bora: be root or in the group `bora`")
        }
        Err(_) => {
            let others: Vec<u32> = other_namespaces()
                .into_iter()
                .filter(|&netns| netns != dir.netns)
                .collect();
            if others.is_empty() {
                bail!("no Bora runs here; start one with `bora run --port …`");
            }
            bail!(
                "no Bora runs in this network namespace, but there is one in {}",
                others
                    .into_iter()
                    .map(name_of)
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
    }
}

/// The name `ip netns` knows a namespace by, with what to type.
fn name_of(netns: u32) -> String {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    let named = entries
        .filter(|entry| {
            entry
                .metadata()
                .is_ok_and(|meta| meta.ino() == u64::from(netns))
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .next();
    named.map_or_else(
        || format!("namespace {netns}"),
        |name| format!("`{name}` (ip netns exec {name} bora …)"),
    )
}
