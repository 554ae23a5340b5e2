//! `bora run` and `bora stop`.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bora_daemon::{
    Api, ApiSection, Caller, File, PathChoice, PortSection, Router, RuntimeDir, Table,
    check_machine, detach_leftovers, watch_linux,
};

use crate::arguments::{BypassArgument, FibArgument, PathArgument, RunOptions};
use crate::client;
use crate::notify::Supervisor;
use bora_terminal::{remark, say};

/// Most threads of the API that write long reports, read files, and find out who asks.
const BLOCKING: usize = 8;
/// How long `bora stop` waits.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(options: RunOptions) -> anyhow::Result<()> {
    end_with_a_panic();
    let file = configuration(options)?;
    check_machine(&file)?;
    let dir = RuntimeDir::here()?;
    let started = Instant::now();
    let section = file.api.clone();
    let mut router = Router::start(file, dir.clone())?;
    let (calls, inbox) = router.calls();
    let served = watch_linux(&router, calls.clone());
    let supervisor = match served.and_then(|()| serve(&dir, &section, calls)) {
        Ok(supervisor) => supervisor,
        Err(error) => {
            router.abandon();
            return Err(error);
        }
    };
    router.settle();
    for line in router.summary() {
        remark(format_args!("{line}"));
    }
    remark(format_args!(
        "ready after {} ms",
        started.elapsed().as_millis()
    ));
    router.run(inbox, || {
        if let Some(supervisor) = supervisor {
            supervisor.stopping();
        }
    })
}

/// Starts the API, and tells the supervisor.
fn serve(
    dir: &RuntimeDir,
    section: &ApiSection,
    calls: Caller<Router>,
) -> anyhow::Result<Option<Supervisor>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING)
        .build()
        .context("cannot start the API")?;
    let api = runtime.block_on(Api::listen(dir, section, &calls))?;
    let supervisor = Supervisor::here();
    if let Some(supervisor) = &supervisor {
        supervisor.ready(calls.clone())?;
    }
    std::thread::Builder::new()
        .name("bora-api".into())
        .spawn(move || {
            bora_confine::thread(bora_confine::NONE);
            runtime.block_on(api.serve(calls));
        })?;
    Ok(supervisor)
}

/// A thread that panics takes the process along: the kernel ends the lease then, Linux forwards, and
/// whoever looks after Bora can start it anew.
fn end_with_a_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        std::process::abort();
    }));
}

/// The file, and what was typed over it.
fn configuration(options: RunOptions) -> anyhow::Result<File> {
    let mut file = match &options.config {
        Some(path) => File::read(path)?,
        None => File::default(),
    };
    if !options.ports.is_empty() {
        let named = options.ports.iter().map(|text| text.parse::<PortSection>());
        file.ports = named
            .collect::<Result<_, _>>()
            .map_err(anyhow::Error::msg)?;
    }
    if let Some(path) = options.path {
        file.path = match path {
            PathArgument::Auto => PathChoice::Auto,
            PathArgument::Express => PathChoice::Express,
            PathArgument::Engine => PathChoice::Engine,
        };
    }
    if let Some(table) = options.fib {
        file.fib.table = match table {
            FibArgument::Tree => Table::Tree,
            FibArgument::Dir24 => Table::Dir24,
        };
    }
    if !options.cores.0.is_empty() {
        file.workers.cores = options.cores.0;
    }
    if let Some(count) = options.workers {
        let names: Vec<&str> = file.ports.iter().map(|port| &*port.name).collect();
        file.workers.cores = bora_daemon::choose_cpus(count.into(), &names)?;
    }
    file.workers.mode = options.mode.unwrap_or(file.workers.mode);
    file.fib.memory = options.fib_memory.unwrap_or(file.fib.memory);
    file.linux.punt_budget = options.punt_budget.unwrap_or(file.linux.punt_budget);
    file.linux.bypass_netfilter |= options.bypass.contains(&BypassArgument::Netfilter);
    Ok(file)
}

pub(crate) fn stop(detach: bool) -> anyhow::Result<()> {
    let dir = RuntimeDir::here()?;
    if !dir.is_in_use()? {
        if detach {
            let count = detach_leftovers(dir)?;
            say!("no Bora runs here; took what one left off {count} interfaces")?;
        } else {
            say!(
                "no Bora runs here; what one left on its interfaces goes with `bora stop --detach`"
            )?;
        }
        return Ok(());
    }
    order_stop(&dir, detach)?;
    say!("stopped")?;
    Ok(())
}

/// Has the Bora that runs stop, and waits until it has.
pub(crate) fn order_stop(dir: &RuntimeDir, detach: bool) -> anyhow::Result<()> {
    client::post(&format!("/v1/stop?detach={detach}"))?;
    let start = Instant::now();
    while dir.socket().exists() {
        if start.elapsed() > STOP_PATIENCE {
            bail!("Bora has not stopped after {} s", STOP_PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
