//! `--canary`: the packets that the running Bora receives, decided about by both.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bora_daemon::{AnothersPort, Asked, Beside, File, RuntimeDir, Traced, Verdict};

use super::compare::{Comparison, Packet};
use crate::arguments::UpgradeOptions;
use crate::client::{self, Stream};
use crate::watch::flow_text;

/// Packets a second that the running Bora shows.
const RATE: u32 = 10_000;
/// How long packets are collected before both are asked.
const PERIOD: Duration = Duration::from_millis(50);

/// Compares until both agree on enough packets, or differ.
pub(super) fn compare(file: &File, options: &UpgradeOptions) -> anyhow::Result<Comparison> {
    running_decides(&[])?; // an old one does not know it
    let ports: Vec<AnothersPort> = serde_json::from_str(&client::get("/v1/ports")?)?;
    let beside = Beside::start(file.clone(), RuntimeDir::here()?, &ports);
    let mut new = beside.context("this binary cannot do what the Bora that runs does")?;
    let stream = client::stream(&format!("/v1/trace?rate={RATE}"), String::new())?;
    let mut packets = Packets {
        stream,
        text: Vec::new(),
    };
    let mut found = Comparison::default();
    let until = Instant::now() + Duration::from_secs(options.seconds);
    while !found.differs() && (found.equal < options.packets || !found.is_equal()) {
        let wanted = options.packets.saturating_sub(found.equal);
        let most = usize::try_from(wanted).unwrap_or(usize::MAX);
        let fresh = packets.next(found.room().min(most))?;
        let round = found.round(fresh, Instant::now());
        let asked = round.asked();
        if !asked.is_empty() {
            let by_running = running_decides(&asked)?;
            let by_new = new.decide(&asked)?;
            let verdicts = by_running.into_iter().zip(by_new);
            found.judge(round, verdicts, Instant::now());
        }
        show(found.equal, options.packets)?;
        if Instant::now() > until && !found.differs() {
            found.report()?;
            bail!(
                "both agree on fewer than {} packets after {} s, and nothing is replaced: ask for fewer (--packets), or \
                 wait for longer (--seconds)",
                options.packets,
                options.seconds
            );
        }
    }
    end_line()?;
    Ok(found)
}

/// What the running Bora does with packets.
fn running_decides(asked: &[Asked]) -> anyhow::Result<Vec<Verdict>> {
    let text = client::post_text("/v1/decide", serde_json::to_string(asked)?);
    let text = text.context("the Bora that runs does not decide")?;
    let verdicts: Vec<Verdict> = serde_json::from_str(&text)?;
    ensure!(
        verdicts.len() == asked.len(),
        "{} verdicts for {} packets",
        verdicts.len(),
        asked.len()
    );
    Ok(verdicts)
}

/// The packets that the running Bora shows.
struct Packets {
    stream: Stream,
    /// What has come and was not read yet.
    text: Vec<u8>,
}

impl Packets {
    /// At most `most` that come in a period; 0: a pause as long.
    fn next(&mut self, most: usize) -> anyhow::Result<Vec<Packet>> {
        if most == 0 {
            std::thread::sleep(PERIOD);
        }
        let (mut packets, until) = (Vec::new(), Instant::now() + PERIOD);
        while packets.len() < most {
            if let Some(end) = self.text.iter().position(|&octet| octet == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                packets.push(packet(&serde_json::from_slice(&line)?));
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            let more = self.stream.next_within(left)?;
            let more = more.context("the Bora that runs shows no more packets")?;
            if more.is_empty() {
                return Ok(packets);
            }
            self.text.extend_from_slice(&more);
        }
        Ok(packets)
    }
}

fn packet(traced: &Traced) -> Packet {
    Packet {
        asked: Asked {
            input: traced.input.clone(),
            head: traced.before.clone(),
            length: traced.length,
        },
        flow: match &traced.flow {
            Some(flow) => flow_text(flow),
            None => "no IP packet".into(),
        },
    }
}

fn show(equal: u64, wanted: u64) -> anyhow::Result<()> {
    if stderr().is_terminal() {
        write!(
            stderr(),
            "\r{equal} of {wanted} packets with equal verdicts "
        )?;
    }
    Ok(())
}

fn end_line() -> anyhow::Result<()> {
    if stderr().is_terminal() {
        writeln!(stderr())?;
    }
    Ok(())
}
