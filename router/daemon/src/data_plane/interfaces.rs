//! Interfaces that change while Bora runs: an MTU beyond the packet buffers, another number of
//! receive queues, an interface that was deleted and made again.

use std::time::{Duration, Instant};
use std::{io, mem};

use anyhow::Context;
use bora_mirror::Changes;
use bora_port::af_xdp::longest_mtu;
use bora_xdp::{Path, XdpQuery, query};
use rustix::io::Errno;

use super::DataPlane;
use crate::config::File;
use crate::ports::{MAX_MTU, Port, SocketState, Way, path_name, too_long};

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
    /// It is there again, or another one of its name, or nothing is in the way of the program any more.
    Back,
}

/// Whether the kernel says that it has no such interface.
fn is_gone(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NODEV)
}

impl DataPlane {
    /// Makes the sockets fit their interfaces again. What cannot be mended now is tried again at the
    /// next call.
    pub(super) fn follow_interfaces(&mut self, config: &File) {
        for index in 0..self.ports.len() {
            let port = &mut self.ports[index];
            port.interruption.watch(&port.link);
            let Some(change) = self.change_of(&self.ports[index]) else {
                continue;
            };
            let name = self.ports[index].name.clone();
            let done = match change {
                Change::TooLong => self.leave_to_linux(index, config),
                Change::Queues => self.reopen(index, config),
                Change::Gone => self.let_go(index, config),
                Change::Back => self.replace(&name, config),
            };
            if let Err(error) = done {
                self.complain(&name, format!("{error:#}"));
            }
            if change == Change::Back {
                return; // the ports have moved
            }
        }
    }

    /// Notes what is wrong with a port, and logs it once.
    fn complain(&mut self, name: &str, what: String) {
        let port = self.ports.iter_mut().find(|port| port.name == name);
        let Some(port) = port else { return };
        if port.trouble.as_ref().is_none_or(|known| known.0 != what) {
            log::warn!("{name}: {what}");
        }
        port.trouble = Some((what, Instant::now()));
    }

    fn change_of(&self, port: &Port) -> Option<Change> {
        if port.has_program() && !self.is_there(port) {
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
        if port.is_left {
            return self.is_free(port).then_some(Change::Back);
        }
        if !port.has_program() {
            return None;
        }
        let driver = port.sockets.zero_copy().then_some(port.driver.as_str());
        let longest = longest_mtu(self.engine.as_ref()?.frame_size(), driver);
        // the sockets of the others only send
        if port.path != Path::Express && port.link.mtu > longest.min(MAX_MTU) {
            return (port.sockets.count() > 0).then_some(Change::TooLong);
        }
        (port.wanted_queues() != port.sockets.wanted()).then_some(Change::Queues)
    }

    /// Whether nothing is in the way of the program any more at a port that Linux has alone.
    fn is_free(&self, port: &Port) -> bool {
        let link = self.mirror.links().get(&port.ifindex);
        let free = |found: XdpQuery| found.driver_program == 0 && found.generic_program == 0;
        link.is_some_and(|link| {
            link.name == port.name && too_long(link, self.express.long_frames).is_none()
        }) && match query(port.ifindex) {
            Ok(found) => free(found),
            Err(error) => !is_gone(&error), // the attempt says what is wrong
        }
    }

    /// Whether the port's interface is in this namespace. Its number and name may be another's: only
    /// the port's has the program.
    fn is_there(&self, port: &Port) -> bool {
        let Some(link) = self.mirror.links().get(&port.ifindex) else {
            return false;
        };
        let found = if link.name == port.name {
            Ok(port.query) // at most a second old
        } else {
            query(port.ifindex)
        };
        match found {
            Ok(found) => found.driver_program != 0 || found.generic_program != 0,
            Err(error) => !is_gone(&error), // what cannot be asked for now is there until it is known not to be
        }
    }

    /// Closes the sockets of a port whose interface is not there: no other can share memory with
    /// them any more. Takes the program off the interface, wherever that is now.
    fn let_go(&mut self, index: usize, config: &File) -> anyhow::Result<()> {
        let port = &mut self.ports[index];
        log::warn!("{}: the interface is gone", port.name);
        (port.path, port.why) = (Path::Kernel, "the interface is gone".into());
        (port.sockets, port.is_gone) = (SocketState::Closed, true);
        let (ifindex, id) = (port.ifindex, port.id);
        let published = self.converge(config, &Changes::everything());
        self.discard(id);
        if let Err(error) = self.runtime.dir.forget_offloads(ifindex) {
            log::warn!("{error:#}; it may be taken for another interface's notes");
        }
        let way = mem::replace(&mut self.ports[index].way, Way::Linux);
        if let Way::Xdp(attachment) = way {
            attachment.detach().context("cannot detach")?;
        }
        published.map(drop)
    }

    /// Closes the sockets of a port, which would lose what is longer than their frames.
    fn leave_to_linux(&mut self, index: usize, config: &File) -> anyhow::Result<()> {
        let port = &self.ports[index];
        log::warn!(
            "{}: MTU {} is more than the packet buffers of this run hold; the port is left to Linux \
             until it is lowered or Bora is restarted",
            port.name,
            port.link.mtu
        );
        self.close_sockets(index, config)?;
        let port = &mut self.ports[index];
        port.why = format!(
            "MTU {} is more than the packet buffers of this run hold; lower it or restart Bora",
            port.link.mtu
        );
        Ok(())
    }

    /// From now on the interface is Linux's, and no route of the engine leads there.
    fn close_sockets(&mut self, index: usize, config: &File) -> anyhow::Result<()> {
        self.vitals.beat();
        let port = &mut self.ports[index];
        let id = port.id;
        (port.path, port.sockets) = (Path::Kernel, SocketState::Closed);
        let converged = self.converge(config, &Changes::everything());
        // also of an interface that is gone meanwhile: a second set of queues would replace these
        if let Some(engine) = &mut self.engine {
            engine.wait_for_workers();
            engine.remove_port(id);
        }
        converged.map(drop)
    }

    /// Opens the sockets of a port anew, on the queues that there are now.
    fn reopen(&mut self, index: usize, config: &File) -> anyhow::Result<()> {
        if self.ports[index].sockets.count() > 0 {
            self.close_sockets(index, config)?;
        }
        let id = self.ports[index].id;
        let engine = self.engine.as_mut().context("no engine")?;
        if engine.is_leaving(id) {
            return Ok(()); // the workers still send; later
        }
        let port = &mut self.ports[index];
        port.begin_again(config);
        let opened = engine.open_port(port, config).inspect_err(|_| {
            port.path = Path::Kernel;
            port.why = "its sockets could not be opened again".into();
        })?;
        let section = config.port(&port.name).context("no section")?;
        engine.add_port(port, opened, section, &self.express.program)?;
        port.trouble = None;
        self.converge(config, &Changes::everything())?;
        let port = &self.ports[index];
        let (name, path) = (&port.name, path_name(port.path));
        log::info!(
            "{name}: {path}, {} sockets ({})",
            port.sockets.count(),
            port.why
        );
        Ok(())
    }
}
