//! `bora prove`: has the daemon ask Linux, and shows what it finds.

use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};
use bora_terminal::say;
use serde_json::Value;

use crate::arguments::ProveOptions;
use crate::client;

/// How often to look.
const PERIOD: Duration = Duration::from_millis(200);
/// Characters of the progress bar.
const BAR: u64 = 40;

pub(crate) fn prove(options: &ProveOptions) -> anyhow::Result<ExitCode> {
    if options.pause {
        client::post(&url(options)?)?;
        say!("paused; `bora prove` goes on")?;
        return Ok(ExitCode::SUCCESS);
    }
    let proof = wait(options)?;
    if options.json {
        say!("{proof:#}")?;
    } else {
        report(&proof)?;
    }
    match number(&proof, "differ") {
        0 => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::FAILURE),
    }
}

/// Orders a proof, and waits until it ends or is paused; returns what it has found.
pub(crate) fn wait(options: &ProveOptions) -> anyhow::Result<Value> {
    client::post(&url(options)?)?;
    let proof = watch()?;
    match proof["state"].as_str() {
        Some("failed") => bail!("{}", proof["why"].as_str().unwrap_or("the proof failed")),
        _ => Ok(proof),
    }
}

fn url(options: &ProveOptions) -> anyhow::Result<String> {
    Ok(format!(
        "/v1/prove?{}",
        serde_urlencoded::to_string(options)?
    ))
}

/// Shows how far the proof is, until it ends or is paused; returns what it has found.
fn watch() -> anyhow::Result<Value> {
    let shows = stderr().is_terminal();
    loop {
        let text = client::get("/v1/prove")?;
        let proof: Value = serde_json::from_str(&text).context("the answer of Bora")?;
        if shows {
            write!(stderr(), "\r{}", bar(&proof))?;
        }
        if proof["state"] != "running" {
            if shows {
                writeln!(stderr())?;
            }
            return Ok(proof);
        }
        sleep(PERIOD);
    }
}

fn bar(proof: &Value) -> String {
    let done = number(proof, "compared") + number(proof, "looked_up");
    let total = number(proof, "total");
    let filled = (done * BAR).checked_div(total).unwrap_or(0).min(BAR);
    let marks = "#".repeat(filled as usize);
    let differ = number(proof, "differ");
    format!("[{marks:<40}] {done} of {total} questions, {differ} differ ")
}

fn number(proof: &Value, name: &str) -> u64 {
    proof["progress"][name].as_u64().unwrap_or(0)
}

fn report(proof: &Value) -> anyhow::Result<()> {
    for difference in proof["differences"].as_array().into_iter().flatten() {
        let part = |name: &str| difference[name].as_str().unwrap_or_default().to_owned();
        say!("differs: {}", part("what"))?;
        say!("  packet by {} {}", part("input"), part("packet"))?;
        say!("  Linux: {}", part("linux"))?;
        say!("  Bora:  {}", part("bora"))?;
    }
    let inputs = proof["inputs"].as_array().into_iter().flatten();
    let inputs: Vec<&str> = inputs.filter_map(Value::as_str).collect();
    let count = |name| number(proof, name);
    say!(
        "{} answers of Linux compared in {:.1} s, for packets by {}: {} differ, {} changed all the time",
        count("compared"),
        proof["seconds"].as_f64().unwrap_or(0.0),
        inputs.join(", "),
        count("differ"),
        count("unsettled"),
    )?;
    say!(
        "{} addresses looked up by all readers of the FIB",
        count("looked_up")
    )?;
    let left = proof["progress"]["left_to_linux"].as_object();
    for (reason, packets) in left.into_iter().flatten() {
        say!("left to Linux: {packets} ({reason})")?;
    }
    say!("hash of Linux's answers: {:016x}", count("hash"))?;
    if proof["state"] == "paused" {
        say!("paused; `bora prove` goes on")?;
    }
    Ok(())
}
