//! Talks to the daemon of this network namespace.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bora_daemon::{RuntimeDir, other_namespaces};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Builder;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

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

/// An answer that goes on.
pub(crate) struct Stream {
    runtime: Runtime,
    body: Incoming,
}

/// Orders something whose answer goes on.
pub(crate) fn stream(path: &str, text: String) -> anyhow::Result<Stream> {
    let runtime = runtime()?;
    let body = runtime.block_on(ask(Method::POST, path, text))?;
    Ok(Stream { runtime, body })
}

impl Stream {
    /// The next piece; nothing at the end.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        while let Some(frame) = self.runtime.block_on(self.body.frame()) {
            // what is no data is a trailer
            if let Ok(octets) = frame.context("Bora has ended")?.into_data() {
                return Ok(Some(octets));
            }
        }
        Ok(None)
    }

    /// The next piece; an empty one if none comes in time, nothing at the end.
    pub(crate) fn next_within(&mut self, time: Duration) -> anyhow::Result<Option<Bytes>> {
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let next = async { tokio::time::timeout(left, self.body.frame()).await };
            match self.runtime.block_on(next) {
                Err(_) => return Ok(Some(Bytes::new())),
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => {
                    // what is no data is a trailer
                    if let Ok(octets) = frame.context("Bora has ended")?.into_data() {
                        return Ok(Some(octets));
                    }
                }
            }
        }
    }
}

/// The process of the Bora that runs.
pub(crate) fn process() -> anyhow::Result<i32> {
    let credentials = runtime()?.block_on(async { anyhow::Ok(connect().await?.peer_cred()?) })?;
    let pid = credentials.pid().filter(|&pid| pid > 0);
    pid.context("the Bora that runs is in a container that this process does not see into: replace the container")
}

fn request(method: Method, path: &str, text: String) -> anyhow::Result<String> {
    runtime()?.block_on(async { text_of(ask(method, path, text).await?).await })
}

fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}

/// The body of the answer, if it is good.
async fn ask(method: Method, path: &str, text: String) -> anyhow::Result<Incoming> {
    let response = send(method, path, text).await?;
    let status = response.status();
    let body = response.into_body();
    if status.is_success() {
        return Ok(body);
    }
    let text = text_of(body).await?;
    if status == StatusCode::NOT_FOUND && text.is_empty() {
        bail!("the Bora that runs is of another version, and does not know {path}: restart it");
    }
    bail!(
        "{}",
        if text.is_empty() {
            status.to_string()
        } else {
            text
        }
    )
}

async fn text_of(body: Incoming) -> anyhow::Result<String> {
    let octets = body.collect().await?.to_bytes();
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

/// Passes on what somebody else asks for, who may know no secrets.
pub(crate) async fn send_as_reader(
    method: Method,
    path: &str,
) -> anyhow::Result<Response<Incoming>> {
    let request = Request::builder().header("bora-role", "reader");
    carry(request.method(method).uri(path), String::new()).await
}

/// Sends a request; the answer's body is still to be read.
pub(crate) async fn send(
    method: Method,
    path: &str,
    text: String,
) -> anyhow::Result<Response<Incoming>> {
    carry(Request::builder().method(method).uri(path), text).await
}

async fn carry(request: Builder, text: String) -> anyhow::Result<Response<Incoming>> {
    let stream = connect().await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = request
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
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            bail!("no permission to talk to Bora: be root or in the group `bora`")
        }
        Err(error) if !is_absent(&error) => {
            Err(error).with_context(|| format!("cannot talk to Bora at {}", path.display()))
        }
        Err(_) => {
            // nobody listens
            let others: Vec<u32> = other_namespaces()?
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

/// Whether nobody listens on a socket.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused)
}

/// The name `ip netns` knows a namespace by, with what to type.
fn name_of(netns: u32) -> String {
    use std::os::unix::fs::MetadataExt;
    // a namespace whose name cannot be found out is shown by its number
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
