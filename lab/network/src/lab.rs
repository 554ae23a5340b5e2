//! A router in a namespace for the tester: its ports, and what can be done to the router.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use bora_linux::netns::Namespace;
use bora_tester::ports::{Attached, Kind, PortSpec};
use bora_tester::trial::Hook;

use crate::network::{
    Daemon, HOST_PORT, Network, Subject, letter, router_cpu, tester_cpus, v4, v6,
};

/// A router on this machine, under test; removed when this is dropped.
#[derive(Debug)]
pub struct Lab {
    subject: Subject,
    options: Vec<String>,
    daemon: Arc<Mutex<Option<Daemon>>>,
    network: Arc<Network>,
}

/// How Bora is stopped before it is started again.
#[derive(Clone, Copy)]
enum End {
    /// SIGTERM.
    Stop,
    /// kill -9: a crash.
    Kill,
}

impl Lab {
    /// Builds a router with this many hosts around it and starts Bora if it is to forward; `bora` is the
    /// binary, `options` are further options of `bora run`.
    ///
    /// # Errors
    /// If a namespace cannot be made (root?), or Bora does not start.
    pub fn new(
        subject: Subject,
        hosts: usize,
        bora: &Path,
        options: Vec<String>,
    ) -> anyhow::Result<Self> {
        let lab = Self {
            subject,
            options,
            daemon: Arc::default(),
            network: Arc::new(Network::new(hosts, bora)?),
        };
        if let Some(start) = lab.start() {
            *lock(&lab.daemon) = Some(start()?);
        }
        Ok(lab)
    }

    /// Starts Bora, if it is to forward.
    fn start(&self) -> Option<impl Fn() -> anyhow::Result<Daemon> + Send + Sync + use<>> {
        let (network, subject) = (self.network.clone(), self.subject);
        let options = self.options.clone();
        (subject != Subject::Kernel).then_some(move || {
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            network.start(subject.name(), &options)
        })
    }

    /// A port of the tester for each host; `kind` makes it from an interface.
    pub fn ports(&self, kind: impl Fn(String) -> Kind) -> Vec<PortSpec> {
        let cpus = tester_cpus();
        let hosts = self.network.hosts().iter().enumerate();
        let port = |(index, host): (usize, &Namespace)| PortSpec {
            name: letter(index).to_string(),
            kind: kind(HOST_PORT.into()),
            netns: Some(host.name().into()),
            v4: Some(Attached {
                address: v4(index, 2),
                prefix_length: 24,
                gateway: Some(v4(index, 1)),
            }),
            v6: Some(Attached {
                address: v6(index, 2),
                prefix_length: 64,
                gateway: Some(v6(index, 1)),
            }),
            speed: None,
            cpu: Some(cpus[index % cpus.len()]),
        };
        hosts.map(port).collect()
    }

    /// The CPU on which the hosts' interfaces receive: the router's.
    pub fn receive_cpu(&self) -> u32 {
        router_cpu()
    }

    /// Runs a command in the router's namespace.
    pub fn shell(&self) -> String {
        format!("ip netns exec {}", self.network.router().name())
    }

    /// Stops Bora (SIGTERM) and starts it again.
    pub fn restart(&self) -> Hook {
        self.again(End::Stop)
    }

    /// Kills Bora (SIGKILL) and starts it again.
    pub fn reset(&self) -> Hook {
        self.again(End::Kill)
    }

    fn again(&self, end: End) -> Hook {
        let Some(start) = self.start() else {
            return Arc::new(|| {
                bail!("in this lab Linux itself forwards: there is nothing to restart")
            });
        };
        let daemon = self.daemon.clone();
        Arc::new(move || {
            let mut daemon = lock(&daemon);
            if let Some(mut running) = daemon.take() {
                match end {
                    End::Kill => running.kill()?,
                    End::Stop => drop(running),
                }
            }
            *daemon = Some(start()?);
            Ok(())
        })
    }

    /// Facts about the router, for reports.
    ///
    /// # Errors
    /// If Bora does not answer.
    pub fn facts(&self) -> anyhow::Result<Vec<(String, String)>> {
        let uname = rustix::system::uname();
        let linux = format!("Linux {}", uname.release().to_string_lossy());
        let router = match self.subject {
            Subject::Kernel => linux,
            Subject::Express => format!("Bora {}, express, on {linux}", self.version()?),
            Subject::Engine => {
                let workers = self.workers()?;
                format!("Bora {}, engine, {workers}, on {linux}", self.version()?)
            }
        };
        let place = format!(
            "network namespace of the tester's machine, CPU {}",
            router_cpu()
        );
        let mut facts = vec![("router".into(), router), ("place".into(), place)];
        if self.subject != Subject::Kernel {
            let restart = "SIGTERM, and `bora run` again; reset: SIGKILL, and `bora run` again";
            facts.push(("restart".into(), restart.into()));
        }
        if !self.options.is_empty() {
            facts.push(("options".into(), self.options.join(" ")));
        }
        Ok(facts)
    }

    fn version(&self) -> anyhow::Result<String> {
        let said = self.network.bora(&["--version"])?;
        let version = said.split_whitespace().nth(1);
        version.map(str::to_owned).context("bora has no version")
    }

    /// `1 worker, adaptive`.
    fn workers(&self) -> anyhow::Result<String> {
        let report = self.network.show("workers")?;
        let workers = report.as_array().context("no list of workers")?;
        let count = match workers.len() {
            1 => "1 worker".to_owned(),
            count => format!("{count} workers"),
        };
        let first = workers.first().context("no workers")?;
        Ok(match first["mode"].as_str() {
            Some(mode) => format!("{count}, {mode}"),
            None => count,
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(daemon) = lock(&self.daemon).take() {
            // the namespaces are removed in any case
            let _ = self.network.stop(daemon);
        }
    }
}

fn lock(daemon: &Mutex<Option<Daemon>>) -> std::sync::MutexGuard<'_, Option<Daemon>> {
    daemon.lock().unwrap_or_else(PoisonError::into_inner)
}
