//! `bora run` and `bora stop`.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bora_router::{Bypass, PathChoice, Place, Router, RunConfig, detach_leftovers, serve};

use bora_fib::{FibConfig, Ipv4Table};

use crate::arguments::{BypassArgument, FibArgument, PathArgument, RunOptions};
use crate::client;

/// How long `bora stop` waits.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(options: RunOptions) -> anyhow::Result<()> {
    let config = RunConfig {
        ports: options.ports,
        cores: options.cores.0,
        mode: options.mode,
        path: match options.path {
            PathArgument::Auto => PathChoice::Auto,
            PathArgument::Express => PathChoice::Express,
            PathArgument::Engine => PathChoice::Engine,
        },
        bypass: Bypass {
            netfilter: options.bypass.contains(&BypassArgument::Netfilter),
        },
        fib: FibConfig {
            max_bytes4: usize::from(options.fib_memory) << 20,
            max_bytes6: usize::from(options.fib_memory) << 20,
            ipv4: match options.fib {
                FibArgument::Tree => Ipv4Table::D,
                FibArgument::Dir24 => Ipv4Table::Dir24,
            },
            ..FibConfig::default()
        },
        punt_budget: options.punt_budget,
    };
    let place = Place::here()?;
    let started = Instant::now();
    let router = Router::start(config, place.clone())?;
    let (calls, inbox) = router.calls();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the API")?;
    let (failed, failure) = mpsc::channel();
    std::thread::Builder::new()
        .name("bora-api".into())
        .spawn(move || {
            if let Err(error) = runtime.block_on(serve(place, calls)) {
                let _ = failed.send(error);
            }
        })?;
    for line in router.summary() {
        eprintln!("bora: {line}");
    }
    eprintln!("bora: ready after {} ms", started.elapsed().as_millis());
    router.run(&inbox)?;
    match failure.try_recv() {
        Ok(error) => Err(error),
        Err(_) => Ok(()),
    }
}

pub(crate) fn stop() -> anyhow::Result<()> {
    let place = Place::here()?;
    if !place.socket().exists() || client::post("/v1/stop").is_err() {
        let count = detach_leftovers(&place)?;
        println!("no Bora runs here; took its XDP program off {count} interfaces");
        return Ok(());
    }
    let start = Instant::now();
    while place.socket().exists() {
        if start.elapsed() > STOP_PATIENCE {
            bail!("Bora has not stopped after {} s", STOP_PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("stopped");
    Ok(())
}
