//! `/v1/capture` and `/v1/trace`: answers that go on while somebody watches. The body of the request is a filter as
//! `tcpdump -ddd` prints it; without one every packet is taken.

use std::collections::VecDeque;
use std::fmt::Display;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bora_capture::pcapng::{Direction, Writer};
use bora_capture::{Filter, Outcome, SNAP, Seen};
use hyper::body::{Body as HttpBody, Frame};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use super::{Caller, Shared};
use crate::captures::{View, Wanted};
use crate::reports::trace;

/// How long a packet that is put in may take.
const ONE_PACKET: Duration = Duration::from_secs(2);

#[derive(Debug, Deserialize)]
pub(super) struct Options {
    /// End after this many packets; 0: never.
    #[serde(default)]
    limit: u64,
    /// Octets to keep of each packet.
    #[serde(default = "whole")]
    snap: usize,
    /// Most packets a second.
    #[serde(default = "usual_rate")]
    rate: u32,
    /// One packet in this many.
    #[serde(default = "all")]
    one_in: u32,
    /// Only what comes in by this port.
    port: Option<String>,
    /// The body is no filter but a packet, to be put in at the port; only that one is shown.
    #[serde(default)]
    inject: bool,
    /// Captures: also what left.
    #[serde(default)]
    out: bool,
}

fn whole() -> usize {
    SNAP
}

fn usual_rate() -> u32 {
    10_000
}

fn all() -> u32 {
    1
}

/// Writes a packet that was seen.
type Write = Box<dyn FnMut(&Watching, &Seen) -> Vec<u8> + Send>;

pub(super) async fn capture(
    State(shared): State<Shared>,
    Query(options): Query<Options>,
    filter: String,
) -> Response {
    let out = options.out;
    let mut file = match Writer::new() {
        Ok(file) => file,
        Err(error) => {
            return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
        }
    };
    let start = file.take();
    let write = move |watching: &Watching, one: &Seen| {
        watching.add(&mut file, one, out);
        file.take()
    };
    watch(
        shared,
        options,
        &filter,
        "application/x-pcapng",
        start,
        Box::new(write),
    )
    .await
}

pub(super) async fn trace(
    State(shared): State<Shared>,
    Query(options): Query<Options>,
    filter: String,
) -> Response {
    let write = |watching: &Watching, one: &Seen| {
        let facts = trace::of_packet(
            one,
            &watching.watch.view.names,
            watching.wall_clock(one.time),
        );
        match serde_json::to_vec(&facts) {
            Ok(text) => [&text[..], b"\n"].concat(),
            Err(error) => {
                log::warn!("a packet cannot be shown: {error}");
                Vec::new()
            }
        }
    };
    watch(
        shared,
        options,
        &filter,
        "application/x-ndjson",
        Vec::new(),
        Box::new(write),
    )
    .await
}

async fn watch(
    shared: Shared,
    options: Options,
    body: &str,
    kind: &'static str,
    start: Vec<u8>,
    write: Write,
) -> Response {
    let (filter, packet) = match (body, options.inject) {
        ("", false) => (Ok(Filter::everything()), None),
        (text, false) => (text.parse(), None),
        (text, true) => (Ok(Filter::everything()), Some(text.to_owned())),
    };
    let filter = match filter {
        Ok(filter) => filter,
        Err(what) => return (StatusCode::BAD_REQUEST, what).into_response(),
    };
    let wanted = Wanted {
        filter,
        one_in: options.one_in,
        snap: options.snap.min(SNAP),
        rate: options.rate,
        port: options.port,
    };
    let calls = shared.calls.clone();
    let started = shared.call("a watch", move |router| {
        let view = match packet {
            None => router.watches.start(&mut router.plane, wanted),
            Some(packet) => router.trace_packet(wanted, &packet),
        };
        Ok(Watch { view: view?, calls })
    });
    let watch = match started.await {
        Ok(watch) => watch,
        Err(response) => return response,
    };
    if options.inject {
        end_soon(shared.calls.clone(), watch.view.number);
    }
    let left = match options.limit {
        0 => u64::MAX,
        limit => limit,
    };
    let body = Body::new(Watching {
        watch,
        left,
        write: Some(write),
        ready: VecDeque::from([start]),
        offset: offset_of_wall_clock(),
    });
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

/// Ends the watch for a packet that never comes.
fn end_soon(calls: Caller, number: u64) {
    tokio::spawn(async move {
        tokio::time::sleep(ONE_PACKET).await;
        drop(calls.call("the end of a watch", move |router| {
            router.watches.end(&mut router.plane, number);
        }));
    });
}

/// A body that goes on until it has shown enough, or the client is gone.
struct Watching {
    watch: Watch,
    /// Packets still to show.
    left: u64,
    write: Option<Write>,
    ready: VecDeque<Vec<u8>>,
    /// From CLOCK_MONOTONIC to the time since 1970, ns.
    offset: u64,
}

impl Watching {
    fn wall_clock(&self, time: u64) -> Duration {
        Duration::from_nanos(time.wrapping_add(self.offset))
    }

    /// Adds a packet to a capture file: as it came in and, if wanted, as it left.
    fn add(&self, file: &mut Writer, one: &Seen, out: bool) {
        let time = self.wall_clock(one.time);
        let lost = match self.watch.view.lost.load(Relaxed) {
            0 => String::new(),
            lost => format!("; {lost} packets were not captured so far"),
        };
        let comment = trace::summary(one, &self.watch.view.names) + &lost;
        let received = one.received();
        let (input, whole) = (
            trace::name(&self.watch.view.names, one.input),
            (&received[..], one.length),
        );
        log_failure(file.packet(&input, Direction::In, time, whole, &comment));
        if let (Outcome::Sent(output), true) = (one.outcome, out) {
            let now = (&one.now[..], one.length_now);
            let output = trace::name(&self.watch.view.names, output);
            log_failure(file.packet(&output, Direction::Out, time, now, &comment));
        }
    }
}

/// What is written goes to memory, so that only a packet with no form in the file's format can fail.
fn log_failure(written: Result<(), impl Display>) {
    if let Err(error) = written {
        log::warn!("a packet is missing in a capture: {error}");
    }
}

impl HttpBody for Watching {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            if let Some(octets) = self.ready.pop_front()
                && !octets.is_empty()
            {
                return Poll::Ready(Some(Ok(Frame::data(octets.into()))));
            }
            if self.left == 0 {
                return Poll::Ready(None);
            }
            match self.watch.view.seen.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(one)) => {
                    self.left -= 1;
                    let Some(mut write) = self.write.take() else {
                        return Poll::Ready(None);
                    };
                    let octets = write(&self, &one);
                    self.write = Some(write);
                    self.ready.push_back(octets);
                }
            }
        }
    }
}

/// A watch that ends when this is dropped, also if the client was gone before it had begun.
struct Watch {
    view: View,
    calls: Caller,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let number = self.view.number;
        drop(self.calls.call("the end of a watch", move |router| {
            router.watches.end(&mut router.plane, number);
        }));
    }
}

fn offset_of_wall_clock() -> u64 {
    let now = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    now(ClockId::Realtime).wrapping_sub(now(ClockId::Monotonic))
}
