//! `GET /v1/live`: server-sent events. The text of an event is made once for all clients, and only while
//! there are some. A client that is slow misses events; it delays nobody.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{Caller, snapshot};
use crate::process::fair::Place;
use crate::router::Router;

/// Most streams at the same time.
const MOST: usize = 64;

/// All streams of live data.
pub(super) struct Streams {
    places: Arc<Semaphore>,
    /// The last event `now`.
    events: watch::Sender<Bytes>,
}

impl Streams {
    /// Begins to ask for a snapshot after every sample.
    pub(super) fn start(calls: Caller) -> Self {
        let events = watch::Sender::new(Bytes::new());
        tokio::spawn(publish(calls, events.clone()));
        Self {
            places: Arc::new(Semaphore::new(MOST)),
            events,
        }
    }

    /// A new stream: the last ten minutes, now, and every second from now on.
    pub(super) async fn open(&self, calls: &Caller, client: &Place) -> Response {
        // the error says that there are no more
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return refuse(&format!("{MOST} clients watch already; close one"));
        };
        let receiver = self.events.subscribe();
        // the error says that Bora ends
        let Ok(turn) = client.turn().await else {
            return refuse("Bora is stopping");
        };
        let look = |router: &mut Router| (router.live.history(), snapshot::now(router));
        // the error says that the control loop has ended
        let Ok((history, now)) = calls.call("live data", look).await else {
            return refuse("Bora is stopping");
        };
        drop(turn);
        let first = [event("history", &history), event("now", &now)];
        let all = stream::iter(first).chain(following(receiver, place));
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        let body = Body::from_stream(all.map(Ok::<_, Infallible>));
        (headers, body).into_response()
    }
}

/// The connection ends, too: there may be many who ask.
fn refuse(why: &str) -> Response {
    let headers = [(header::CONNECTION, "close")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, why.to_string()).into_response()
}

/// The newest event whenever the client has room for one, as long as it has its place.
fn following(
    receiver: watch::Receiver<Bytes>,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Bytes> {
    stream::unfold((receiver, place), |(mut receiver, place)| async move {
        match receiver.changed().await {
            Ok(()) => {
                let text = receiver.borrow_and_update().clone();
                Some((text, (receiver, place)))
            }
            Err(_) => None, // Bora ends, and its events with it
        }
    })
}

/// Makes the text of each second until Bora stops.
async fn publish(calls: Caller, events: watch::Sender<Bytes>) {
    // each error says that the loop has ended
    let Ok(mut beats) = calls.call("live data", |router| router.live.beats()).await else {
        return;
    };
    // the error says that Bora ends
    while let Ok(()) = beats.changed().await {
        if events.receiver_count() == 0 {
            continue;
        }
        // the loop has ended
        let Ok(now) = calls.call("live data", snapshot::now).await else {
            return;
        };
        events.send_replace(event("now", &now));
    }
}

/// An event as text: JSON has no line breaks.
fn event(name: &str, of: &impl Serialize) -> Bytes {
    match serde_json::to_string(of) {
        Ok(json) => format!("event: {name}\ndata: {json}\n\n").into(),
        Err(error) => {
            log::error!("live data: {error}");
            Bytes::from_static(b": no data\n\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_client_gets_the_newest_and_gives_its_place_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let places = Arc::new(Semaphore::new(1));
            let events = watch::Sender::new(Bytes::new());
            let place = places.clone().try_acquire_owned().unwrap();
            let mut client = Box::pin(following(events.subscribe(), place));
            for number in 0..1000 {
                events.send_replace(event("now", &number));
            }
            assert_eq!(client.next().await.unwrap(), "event: now\ndata: 999\n\n");
            assert_eq!(places.available_permits(), 0);
            drop(client);
            assert_eq!(
                (places.available_permits(), events.receiver_count()),
                (1, 0)
            );
        });
    }
}
