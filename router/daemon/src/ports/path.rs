//! Which path a port takes, from what its interface and driver can do.

use std::mem;

use anyhow::{Context, bail};
use bora_contract::Path;
use bora_fib::PortId;
use bora_linux::Refusal;
use bora_linux::interface::Interface;
use bora_mirror::message::Link;
use bora_port::af_xdp::Opened;
use bora_xdp::{AttachError, AttachMode, Attachment, Program, XdpQuery, query};

use super::find::MAX_MTU;
use super::port::{Port, SocketState, Way};
use crate::config::{File, PathChoice};
use crate::ports::link_loss::Interruption;
use crate::process::runtime_dir::Pins;

impl Port {
    /// Puts the program on an interface. It passes everything until the lease begins.
    pub(crate) fn attach(
        id: PortId,
        link: Link,
        program: &Program,
        pins: &Pins,
        config: &File,
    ) -> anyhow::Result<Self> {
        let (name, ifindex) = (link.name.clone(), link.index);
        let pin = pins.link(ifindex);
        let known = Interface::named(&name).with_context(|| format!("cannot look at {name}"))?;
        let driver = known.map(|found| found.driver);
        let driver = driver.unwrap_or_default();
        let interruption = Interruption::announce(&link, &driver, &pin);
        let attached = Attachment::new(program.fd(), &name, ifindex, &pin, most(&link, program));
        let query = match query(ifindex) {
            Ok(query) => query,
            Err(error) => {
                give_up(attached, &name);
                return Err(error).with_context(|| format!("cannot query XDP of {name}"));
            }
        };
        let (way, path, why, refusal) = match attached {
            Ok(attachment) => {
                let (path, why) = choose(config, attachment.mode(), &query, link.mtu);
                let refusal = attachment.refusal().cloned();
                (Way::Xdp(attachment), path, why, refusal)
            }
            // the others can do without this one
            Err(AttachError::System { source, .. }) if config.path == PathChoice::Auto => {
                let refusal = Refusal::new("XDP", source.to_string());
                (Way::Linux, Path::Kernel, "no XDP at all", Some(refusal))
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            path,
            why: why.into(),
            query,
            driver,
            refusals: refusal.into_iter().collect(),
            interruption,
            ..Self::new(id, link, way)
        })
    }

    /// Asks the kernel again what the driver can do. What is known stays if there is no answer.
    pub(crate) fn ask_driver(&mut self) {
        match query(self.ifindex) {
            Ok(found) => (self.query, self.query_failed) = (found, false),
            Err(error) => {
                if !mem::replace(&mut self.query_failed, true) {
                    log::warn!("{}: cannot query XDP: {error}", self.name);
                }
            }
        }
    }

    /// Notes which sockets could be opened, and takes another path if this one needs more.
    ///
    /// # Errors
    /// The configuration wants the engine, which cannot have the port.
    pub(crate) fn settle(&mut self, opened: &Opened, config: &File) -> anyhow::Result<()> {
        self.sockets = SocketState::Opened {
            mode: opened.mode(),
            count: opened.sockets.len() as u32,
            wanted: self.wanted_queues(),
        };
        self.refusals.extend(opened.refusals.iter().cloned());
        let wants_zero_copy = config.path == PathChoice::Auto && !config.needs_engine();
        let is_enough = match wants_zero_copy {
            true => self.sockets.zero_copy(),
            false => self.sockets.count() > 0,
        };
        if self.path == Path::Engine && !is_enough {
            return self.leave_engine(config);
        }
        Ok(())
    }

    /// Chooses the path anew, before sockets are opened again.
    pub(crate) fn begin_again(&mut self, config: &File) {
        if let Some(mode) = self.mode() {
            let (path, why) = choose(config, mode, &self.query, self.link.mtu);
            (self.path, self.why) = (path, why.into());
        }
        let of_sockets = |refusal: &Refusal| {
            let mut steps = ["zero-copy", "copy", "engine"].iter();
            steps.any(|step| refusal.step.starts_with(step))
        };
        self.refusals.retain(|refusal| !of_sockets(refusal));
    }

    /// Takes the path that comes after the engine.
    ///
    /// # Errors
    /// The engine was asked for.
    pub(crate) fn leave_engine(&mut self, config: &File) -> anyhow::Result<()> {
        let (path, why) = match config.path {
            PathChoice::Engine => {
                let refusals: Vec<_> = self.refusals.iter().map(Refusal::to_string).collect();
                bail!(
                    "the engine cannot have {}: {}",
                    self.name,
                    refusals.join("; ")
                )
            }
            _ if config.needs_engine() => (
                Path::Kernel,
                "something is configured that only the engine does, and it cannot have the port",
            ),
            _ => (Path::Express, "zero-copy does not work"),
        };
        (self.path, self.why) = (path, why.into());
        self.settings.path = path;
        Ok(())
    }
}

/// How the program may be attached: a veth's VLAN tags do not show in the driver of each kernel.
fn most(link: &Link, program: &Program) -> AttachMode {
    if link.kind == "veth" && !program.sees_veth_buffers() {
        AttachMode::Generic
    } else {
        AttachMode::Driver
    }
}

/// Takes a program off again that has just been put on the interface `name`.
fn give_up(attached: Result<Attachment, AttachError>, name: &str) {
    if let Ok(attachment) = attached // or there is none
        && !attachment.taken_over()
        && let Err(error) = attachment.detach()
    {
        log::warn!("{name}: cannot detach: {error}");
    }
}

/// The path to try first; [`Port::settle`] has the last word.
fn choose(config: &File, mode: AttachMode, query: &XdpQuery, mtu: u32) -> (Path, &'static str) {
    // kernels that do not tell are asked by opening sockets
    match (config.path, mode, query.zero_copy || !query.tells) {
        (PathChoice::Express, ..) => (Path::Express, "asked for"),
        (PathChoice::Engine, ..) => (Path::Engine, "asked for"),
        (PathChoice::Auto, ..) if config.needs_engine() => (
            Path::Engine,
            "something is configured that only the engine does",
        ),
        (PathChoice::Auto, ..) if mtu > MAX_MTU => {
            (Path::Express, "its frames need several buffers")
        }
        (PathChoice::Auto, AttachMode::Driver, true) => (Path::Engine, "driver does zero-copy"),
        (PathChoice::Auto, ..) => (Path::Express, "driver does no zero-copy"),
    }
}
