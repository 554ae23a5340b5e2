//! Ports that come and go while packets flow.

use anyhow::{Context, bail, ensure};
use bora_fib::PortId;
use bora_linux::Refusal;
use bora_mirror::Changes;
use bora_mirror::message::Link;
use bora_xdp::Path;

use super::DataPlane;
use crate::config::{File, PortSection};
use crate::engine::Sockets;
use crate::ports::{self, Port};

/// A port that has its program and sockets, and no packets yet.
pub(crate) struct Staged {
    port: Port,
    sockets: Option<Sockets>,
}

impl DataPlane {
    /// Whether a port could be added, as far as that shows without doing it.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn could_add(&self, section: &PortSection) -> anyhow::Result<Link> {
        let name = &section.name;
        ensure!(
            section.is_interface(),
            "port {name}: only interfaces can be added to a running Bora; restart to add it"
        );
        let link = ports::find(&self.mirror, name)?;
        if let Some(why) = ports::too_long(&link, self.express.long_frames) {
            bail!(why);
        }
        let mut known = self.ports.iter().filter(|port| port.name != *name);
        if let Some(port) = known.find(|port| !port.is_gone && port.ifindex == link.index) {
            bail!(
                "interface {name} is port {} already, and was renamed: take {0} out of the file",
                port.name
            );
        }
        if let Some(engine) = &self.engine {
            engine.could_add(&link)?;
        }
        Ok(link)
    }

    /// Everything about new ports that can fail: programs attached, sockets open. They get no packet
    /// yet.
    ///
    /// # Errors
    /// What failed; nothing is left of any of them then.
    pub(crate) fn stage<'a>(
        &mut self,
        sections: impl Iterator<Item = &'a PortSection>,
        config: &File,
    ) -> anyhow::Result<Vec<Staged>> {
        let mut staged = Vec::new();
        for section in sections {
            match self.stage_one(section, config, &staged) {
                Ok(one) => staged.push(one),
                Err(error) => {
                    self.unstage(staged);
                    return Err(error.context(format!("port {}", section.name)));
                }
            }
        }
        Ok(staged)
    }

    fn stage_one(
        &mut self,
        section: &PortSection,
        config: &File,
        others: &[Staged],
    ) -> anyhow::Result<Staged> {
        self.vitals.beat(); // attaching takes some drivers a second
        let link = self.could_add(section)?;
        let id = self.ports.free_number(|id| {
            let leaving = self.engine.as_ref().is_some_and(|it| it.is_leaving(id));
            leaving || others.iter().any(|one| one.port.id == id)
        })?;
        let program = &self.express.program;
        let mut port = Port::attach(id, link, program, &self.runtime.pins, config)?;
        let sockets = match &mut self.engine {
            None if port.path == Path::Engine => {
                let why = "it does not run; restart to have it";
                port.refusals.push(Refusal::new("engine", why));
                port.leave_engine(config).map(|()| None)
            }
            Some(engine) if port.has_program() => engine.open_port(&mut port, config).map(Some),
            None | Some(_) => Ok(None),
        };
        match sockets {
            Ok(sockets) => Ok(Staged { port, sockets }),
            Err(error) => {
                port.detach(&self.runtime.dir);
                Err(error)
            }
        }
    }

    /// Takes back what was staged.
    pub(crate) fn unstage(&mut self, staged: Vec<Staged>) {
        for one in staged {
            if let (Some(engine), Some(sockets)) = (&mut self.engine, one.sockets) {
                engine.close_unused(one.port.id, sockets);
            }
            one.port.detach(&self.runtime.dir);
        }
    }

    /// Lets packets come to staged ports, if there are some, and goes by a configuration that has them. `before` has not.
    ///
    /// # Errors
    /// What failed; none of them is a port then, and `before` is in force.
    pub(crate) fn add_ports(
        &mut self,
        staged: Vec<Staged>,
        config: &File,
        before: &File,
    ) -> anyhow::Result<()> {
        let mut names = Vec::new();
        let mut rest = staged.into_iter();
        let introduced = rest.by_ref().try_for_each(|one| {
            let name = one.port.name.clone();
            self.introduce(one, config)?;
            names.push(name);
            Ok(())
        });
        let Err(error) = introduced.and_then(|()| self.converge(config, &Changes::everything()))
        else {
            return Ok(());
        };
        self.unstage(rest.collect());
        for name in names {
            if let Err(second) = self.remove_port(&name, before) {
                log::warn!("{name}: {second:#}");
            }
        }
        if let Err(second) = self.converge(before, &Changes::everything()) {
            return Err(error.context(format!("and cannot go back: {second:#}")));
        }
        Err(error)
    }

    /// Gives a staged port to the workers. No packet comes in before its gate opens.
    fn introduce(&mut self, staged: Staged, config: &File) -> anyhow::Result<()> {
        let Staged { mut port, sockets } = staged;
        port.before = self.totals(port.id);
        port.expose_tags(&self.runtime.dir);
        port.settings = port.wanted(&self.mirror, config, self.express.hooks());
        if let (Some(engine), Some(sockets)) = (&mut self.engine, sockets) {
            let program = &self.express.program;
            let section = config.port(&port.name).context("no section");
            let added =
                section.and_then(|section| engine.add_port(&port, sockets, section, program));
            if let Err(error) = added {
                let error = error.context(format!("port {}", port.name));
                port.detach(&self.runtime.dir);
                return Err(error);
            }
        }
        self.ports.push(port);
        Ok(())
    }

    /// Puts the program on the interface that has the name of a port whose interface was gone.
    pub(super) fn replace(&mut self, name: &str, config: &File) -> anyhow::Result<()> {
        let section = config.port(name).context("no section")?;
        let staged = self.stage_one(section, config, &[])?;
        let old = self.ports.take(|port| port.name == name);
        let old = old.context("no such port")?;
        if !old.is_gone {
            self.discard(old.id); // this is done for an interface that is gone
        }
        old.detach(&self.runtime.dir);
        self.add_ports(vec![staged], config, config)?;
        log::info!("{name}: the interface of this name becomes the port");
        Ok(())
    }

    /// The port on the interface that has this name now, if it has another name itself.
    pub(crate) fn renamed(&self, name: &str) -> Option<&str> {
        let mut links = self.mirror.links().values();
        let link = links.find(|link| link.name == name)?;
        let on = |port: &&Port| port.has_program() && !port.is_gone && port.ifindex == link.index;
        let port = self.ports.iter().find(on)?;
        (port.name != name).then_some(&*port.name)
    }

    /// Gives a port the name that its interface has now.
    pub(crate) fn rename(&mut self, old: &str, new: &str) {
        let mut ports = self.ports.iter_mut();
        if let Some(port) = ports.find(|port| port.name == old) {
            log::info!("{old}: the port is now {new}, as its interface");
            port.name = new.to_owned();
        }
    }

    /// Takes a port that no route leads to away from the program and the workers.
    pub(super) fn discard(&mut self, id: PortId) {
        if let Err(error) = self.express.program.remove_port(id.0) {
            log::warn!("port {}: {error}", id.0);
        }
        if let Some(engine) = &mut self.engine {
            engine.remove_port(id);
        }
    }

    /// Leaves a port to Linux. First no route leads there any more, then the gate closes, then the
    /// workers empty what they hold: nothing is lost on the way.
    ///
    /// # Errors
    /// It is the last one; or the FIB did not take it, and the port stays.
    pub(crate) fn remove_port(&mut self, name: &str, config: &File) -> anyhow::Result<()> {
        self.vitals.beat();
        ensure!(self.ports.len() > 1, "{name} is the last port");
        let port = self.ports.take(|port| port.name == name);
        let mut port = port.with_context(|| format!("there is no port {name}"))?;
        if let Err(error) = self.converge(config, &Changes::everything()) {
            self.ports.push(port);
            return Err(error);
        }
        self.check_fast_path(config, true);
        if let Some(engine) = &self.engine {
            engine.wait_for_workers();
        }
        if let Some(twin) = port.twin_mut() {
            twin.close();
        }
        // once: of an interface that is gone that is done
        if !port.is_gone {
            self.discard(port.id);
        }
        port.detach(&self.runtime.dir);
        Ok(())
    }
}
