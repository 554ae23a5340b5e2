//! Reads the stream of live data.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use bora_daemon::{History, Now};
use http_body_util::BodyExt;
use hyper::Method;
use serde::Deserialize;

use crate::client;

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest time between two events: Bora may be busy with a full table.
const SILENCE: Duration = Duration::from_secs(15);
/// Longest event, octets.
const LONGEST: usize = 64 << 20;

/// What comes from Bora.
#[derive(Debug)]
pub(super) enum News {
    History(History),
    Now(Box<Now>),
    /// There is no connection, and why.
    Lost(String),
}

/// What a reason means and what to do, by its name.
pub(super) type Reasons = BTreeMap<String, Reason>;

/// A reason.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Reason {
    name: String,
    pub(super) cure: String,
}

/// Asks for the reasons; fails if no Bora runs here.
pub(super) fn reasons() -> anyhow::Result<Reasons> {
    let all: Vec<Reason> = serde_json::from_str(&client::get("/v1/reasons")?)?;
    Ok(all.into_iter().map(|one| (one.name.clone(), one)).collect())
}

/// Follows the stream, and connects again when it ends, until `tell` returns `false`.
pub(super) fn follow(tell: impl Fn(News) -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = match { runtime }.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tell(News::Lost(format!("cannot wait for answers: {error}")));
            return;
        }
    };
    loop {
        let why = match runtime.block_on(read(&tell)) {
            Ok(()) => return,
            Err(why) => format!("{why:#}"),
        };
        if !tell(News::Lost(why)) {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Reads one stream to its end, which is an error, or until nobody wants more.
async fn read(tell: &impl Fn(News) -> bool) -> anyhow::Result<()> {
    let response = client::send(Method::GET, "/v1/live", String::new()).await?;
    let status = response.status();
    let mut body = response.into_body();
    if !status.is_success() {
        let text = body.collect().await?.to_bytes();
        bail!("{}", String::from_utf8_lossy(&text));
    }
    let mut events = Events::default();
    loop {
        let frame = tokio::time::timeout(SILENCE, body.frame()).await;
        let frame = frame.context("Bora sends nothing")?;
        let frame = frame.context("Bora has ended the connection")??;
        for news in events.take(frame.data_ref().map_or(&[], |data| data))? {
            if !tell(news) {
                return Ok(());
            }
        }
    }
}

/// Puts events together of the pieces in which they come.
#[derive(Debug, Default)]
struct Events(Vec<u8>);

impl Events {
    fn take(&mut self, piece: &[u8]) -> anyhow::Result<Vec<News>> {
        self.0.extend_from_slice(piece);
        let mut news = Vec::new();
        while let Some(end) = self.0.windows(2).position(|two| two == b"\n\n") {
            let rest = self.0.split_off(end + 2);
            let event = std::mem::replace(&mut self.0, rest);
            news.extend(parse(&String::from_utf8_lossy(&event))?);
        }
        if self.0.len() > LONGEST {
            bail!("an event has no end");
        }
        Ok(news)
    }
}

/// An event; `None` for one that a newer Bora may send.
fn parse(event: &str) -> anyhow::Result<Option<News>> {
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
    let data = field("data: ").unwrap_or_default();
    let context = "Bora and this program have different versions";
    Ok(match field("event: ") {
        Some("history") => Some(News::History(serde_json::from_str(data).context(context)?)),
        Some("now") => Some(News::Now(serde_json::from_str(data).context(context)?)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_pieces() {
        let text = "event: history\ndata: {\"time\":7,\"ports\":[]}\n\nevent: x\ndata: y\n\n";
        let mut events = Events::default();
        let mut told = Vec::new();
        for octet in text.as_bytes() {
            told.extend(events.take(&[*octet]).unwrap());
        }
        assert!(matches!(&told[..], [News::History(history)] if history.time == 7));
        assert!(events.take(b"event: now\ndata: {}\n\n").is_err());
    }
}
