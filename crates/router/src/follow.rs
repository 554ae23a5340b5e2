//! Interfaces that change while Bora runs: an MTU beyond the packet buffers, another number of
//! receive queues, an interface that was deleted and made again.

use std::mem;
use std::time::{Duration, Instant};

use anyhow::Context;
use bora_port::af_xdp::{Mode, longest_mtu};
use bora_port::xdp::{Path, query};
use bora_port::{Refusal, interface};
use bora_worker::Command;

use crate::config::PortConfig;
use crate::engine::wanted_queues;
use crate::ports::{MAX_MTU, Port, Way};
use crate::router::Router;

/// When something that failed is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// What has become of a port's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Its frames are longer than the packet buffers.
    TooLong,
    /// It has sockets on too few queues, or on queues that are gone, or none at all any more.
    Queues,
    /// It is no longer there: deleted, or moved to another namespace.
    Gone,
    /// It is there again, or another one of its name.
    Back,
}

/// How attaching the program went for the interface's link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interruption {
    /// When it was attached.
    pub(crate) since: Instant,
    /// [`interface::carrier_changes`] before.
    pub(crate) changes: u64,
}

impl Router {
    /// Makes the sockets fit their interfaces again. What cannot be mended now is tried again at the
    /// next call.
    pub(crate) fn follow_interfaces(&mut self) {
        for index in 0..self.ports.len() {
            self.ports[index].watch_link();
            let Some(change) = self.change_of(&self.ports[index]) else {
                continue;
            };
            let name = self.ports[index].name.clone();
            let done = match change {
                Change::TooLong => self.leave_to_linux(index),
                Change::Queues => self.reopen(index),
                Change::Gone => self.let_go(index),
                Change::Back => self.replace(&name),
            };
            if let Err(error) = done {
                self.complain(&name, format!("{error:#}"));
            }
            if change == Change::Back {
                return; // the ports have moved
            }
        }
    }

    /// Says once what is wrong with a port.
    fn complain(&mut self, name: &str, what: String) {
        let port = self.ports.iter_mut().find(|port| port.name == name);
        let Some(port) = port else { return };
        if port.trouble.as_ref().is_none_or(|known| known.0 != what) {
            log::warn!("{name}: {what}");
        }
        port.trouble = Some((what, Instant::now()));
    }

    fn change_of(&self, port: &Port) -> Option<Change> {
        if !port.is_gone && port.has_program() && !self.is_there(port) {
            return Some(Change::Gone); // whatever else is wrong with it
        }
        let lately = |trouble: &(String, Instant)| trouble.1.elapsed() < RETRY;
        if port.trouble.as_ref().is_some_and(lately) {
            return None;
        }
        if port.is_gone {
            let mut links = self.mirror.links().values();
            return links
                .any(|link| link.name == port.name)
                .then_some(Change::Back);
        }
        if !port.has_program() {
            return None;
        }
        let zero_copy = matches!(port.af_xdp, Mode::ZeroCopy | Mode::Mixed);
        let driver = zero_copy.then_some(port.driver.as_str());
        let longest = longest_mtu(self.engine.as_ref()?.frame_size(), driver);
        // the sockets of the others only send
        if port.path != Path::Express && port.link.mtu > longest.min(MAX_MTU) {
            return (port.sockets > 0).then_some(Change::TooLong);
        }
        (wanted_queues(port) != port.opened_for).then_some(Change::Queues)
    }

    /// Whether the port's interface is in this namespace. Its number and name may be another's: only
    /// the port's has the program.
    fn is_there(&self, port: &Port) -> bool {
        let Some(link) = self.mirror.links().get(&port.ifindex) else {
            return false;
        };
        let found = if link.name == port.name {
            Some(port.query) // at most a second old
        } else {
            query(port.ifindex).ok()
        };
        found.is_some_and(|found| found.driver_program != 0 || found.generic_program != 0)
    }

    /// Closes the sockets of a port whose interface is not there: no other can share memory with
    /// them any more. Takes the program off the interface, wherever that is now.
    fn let_go(&mut self, index: usize) -> anyhow::Result<()> {
        let port = &mut self.ports[index];
        log::warn!("{}: the interface is gone", port.name);
        (port.path, port.why) = (Path::Kernel, "the interface is gone".into());
        port.forget_sockets();
        (port.is_gone, port.is_output, port.opened_for) = (true, false, 0);
        let (ifindex, id) = (port.ifindex, port.id);
        let published = self.publish_ports();
        self.discard(ifindex, id);
        drop(self.place.take_offloads(ifindex)); // the number may be another's
        let way = mem::replace(&mut self.ports[index].way, Way::Linux);
        if let Way::Xdp(attachment) = way {
            attachment.detach().context("cannot detach")?;
        }
        published
    }

    /// Closes the sockets of a port, which would lose what is longer than their frames.
    fn leave_to_linux(&mut self, index: usize) -> anyhow::Result<()> {
        let port = &self.ports[index];
        log::warn!(
            "{}: MTU {} is more than the packet buffers of this run hold; the port is left to Linux \
             until it is lowered or Bora is restarted",
            port.name,
            port.link.mtu
        );
        self.close_sockets(index)?;
        let port = &mut self.ports[index];
        port.why = format!(
            "MTU {} is more than the packet buffers of this run hold; lower it or restart Bora",
            port.link.mtu
        );
        Ok(())
    }

    /// From now on the interface is Linux's, and no route of the engine leads there.
    fn close_sockets(&mut self, index: usize) -> anyhow::Result<()> {
        self.beat();
        let port = &mut self.ports[index];
        let id = port.id;
        port.path = Path::Kernel;
        port.settings.path = Path::Kernel;
        port.forget_sockets();
        (port.is_output, port.opened_for) = (false, 0);
        let told = self.program.set_port(port.ifindex, &port.settings);
        let published = self.publish_ports();
        // also of an interface that is gone meanwhile: a second set of queues would replace these
        if let Some(engine) = &mut self.engine {
            engine.wait_for_workers();
            engine.remove_port(id);
        }
        told?;
        published
    }

    /// Opens the sockets of a port anew, on the queues that there are now.
    fn reopen(&mut self, index: usize) -> anyhow::Result<()> {
        if self.ports[index].sockets > 0 {
            self.close_sockets(index)?;
        }
        let id = self.ports[index].id;
        if let Some(engine) = &self.engine
            && engine.is_leaving(id)
        {
            return Ok(()); // the workers still send; later
        }
        let port = &mut self.ports[index];
        port.begin_again(&self.config);
        if let Some(engine) = &mut self.engine {
            let opened = engine.open_port(port, &self.config);
            if let Err(error) = opened {
                (port.path, port.settings.path) = (Path::Kernel, Path::Kernel);
                port.why = "it cannot have its sockets back".into();
                return Err(error);
            }
            let section = self.file.ports.iter().find(|s| s.name == port.section);
            let section = PortConfig::of(section.context("no section")?);
            engine.add_port(port, opened?, &section)?;
            engine.wait_for_workers();
        } else {
            port.forget_sockets();
        }
        port.trouble = None;
        self.publish_ports()?;
        let port = &mut self.ports[index];
        port.settings = port.wanted(&self.mirror, &self.config, &self.hooks.survey);
        if let Some(engine) = &self.engine {
            engine.tell(|| Command::SetIngress(port.ingress()));
            engine.connect(id, &self.program)?;
        }
        self.program.set_port(port.ifindex, &port.settings)?;
        let (name, path) = (&port.name, crate::ports::path_name(port.path));
        log::info!("{name}: {path}, {} sockets ({})", port.sockets, port.why);
        Ok(())
    }
}

impl Port {
    /// Forgets what its sockets were refused, for another try.
    fn begin_again(&mut self, config: &crate::config::RunConfig) {
        self.choose_again(config);
        let of_sockets = |refusal: &Refusal| {
            ["zero-copy", "copy", "engine"]
                .iter()
                .any(|step| refusal.step.starts_with(step))
        };
        self.refusals.retain(|refusal| !of_sockets(refusal));
    }

    /// Says how long attaching the program interrupted the link.
    fn watch_link(&mut self) {
        let Some(attached) = self.interruption else {
            return;
        };
        let changes = interface::carrier_changes(&self.name).unwrap_or(attached.changes);
        let waited = attached.since.elapsed();
        if changes == attached.changes {
            // drivers take the carrier away before they return
            self.interruption = None;
        } else if self.link.carrier {
            self.interruption = None;
            let text = format!(
                "attaching the XDP program interrupted its link, which was back within {:.1} s; \
                 restarts and stops leave the program, and the link, alone",
                waited.as_secs_f64()
            );
            log::info!("{}: {text}", self.name);
            self.interrupted = Some(text);
        }
    }
}
