//! Changes of a running Bora: what `bora apply` does, action by action.

use anyhow::{Context, anyhow, ensure};
use bora_fib::PortId;
use bora_kernel::message::Link;
use bora_port::Refusal;
use bora_port::xdp::{MAX_PORTS, Path};
use bora_worker::Command;

use crate::config::{Action, File, PathChoice, PortConfig, PortSection, RunConfig};
use crate::engine::Sockets;
use crate::ports::{self, Port};
use crate::router::{Router, check_cores, outputs};
use crate::rules::{self, CompiledRules};
use crate::spec::PortSpec;

/// A port that has its program and sockets, and no packets yet.
struct Staged {
    section: PortSection,
    port: Port,
    sockets: Option<Sockets>,
}

impl Router {
    /// Whether the actions could be done, as far as that shows without doing something.
    pub(crate) fn could(&self, new: &File, actions: &[Action]) -> anyhow::Result<()> {
        self.check_path(&new.clone().into_config())?;
        for action in actions {
            match action {
                Action::AddPort(section) => drop(self.could_add(&section.name)?),
                Action::SetCores(cores) => self.could_set_cores(cores, new)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Does the actions that lead to `new`. On an error some are done, and `self.file` says which.
    pub(crate) fn change(&mut self, new: &File, actions: Vec<Action>) -> anyhow::Result<()> {
        self.could(new, &actions)?;
        let config = new.clone().into_config();
        let staged = self.stage(&actions, &config)?;
        self.config = config;
        let done = self.commit(new, staged, actions);
        self.config = self.file.clone().into_config();
        self.check_fast_path(true);
        done
    }

    fn commit(
        &mut self,
        new: &File,
        staged: Vec<Staged>,
        actions: Vec<Action>,
    ) -> anyhow::Result<()> {
        let mut staged = staged.into_iter();
        while let Some(one) = staged.next() {
            let action = Action::AddPort(one.section.clone());
            if let Err(error) = self.add_port(one) {
                self.unstage(staged.collect());
                return Err(error);
            }
            action.apply(&mut self.file);
        }
        // rules and code points are one table for the workers
        let classified =
            |action: &Action| matches!(action, Action::SetRules(_) | Action::SetDscp(_));
        if actions.iter().any(classified) {
            self.set_rules()?;
            self.file.rules.clone_from(&new.rules);
            self.file.dscp = new.dscp.clone();
        }
        let divided_anew = actions.iter().any(|action| self.divides_anew(action));
        for action in actions {
            match &action {
                Action::AddPort(_) | Action::SetRules(_) | Action::SetDscp(_) => continue,
                Action::RemovePort(name) => self.remove_port(name)?,
                Action::SetBypass(_) => self.update_ports(false)?,
                Action::SetCores(_) => self.set_cores()?,
                other => self.tell_workers(other),
            }
            action.apply(&mut self.file);
        }
        if divided_anew {
            self.set_cores()?;
        }
        Ok(())
    }

    /// Whether an output gets rates or loses them, so that the workers share it otherwise.
    fn divides_anew(&self, action: &Action) -> bool {
        let Action::SetQueues { port, queues } = action else {
            return false;
        };
        let several = self
            .engine
            .as_ref()
            .is_some_and(|engine| engine.workers.len() > 1);
        let section = self.file.ports.iter().find(|section| section.name == *port);
        let before = section.is_some_and(|section| section.queues.output().has_rates());
        several && before != queues.output().has_rates()
    }

    /// Actions that are one command for each worker.
    fn tell_workers(&mut self, action: &Action) {
        let number = |name: &str| {
            self.ports
                .iter()
                .find(|port| port.section == name)
                .map(|p| p.id)
        };
        let Some(engine) = &mut self.engine else {
            return; // express has no workers
        };
        match action {
            Action::SetQuota { port, quota } => {
                if let Some(port) = number(port) {
                    let quota = *quota;
                    engine.tell(|| Command::SetQuota { port, quota });
                }
            }
            Action::SetQueues { port, queues } => {
                if let Some(port) = number(port) {
                    engine.set_output(port, &queues.output());
                }
            }
            Action::SetBudget(budget) => engine.tell(|| Command::SetBudget(*budget)),
            Action::SetMode(mode) => engine
                .workers
                .iter_mut()
                .for_each(|one| one.set_mode(*mode)),
            _ => {}
        }
    }

    /// Compiles the rules of the new configuration and gives them to the workers.
    fn set_rules(&mut self) -> anyhow::Result<()> {
        let rules: CompiledRules = rules::compile(&self.config, &self.ports, &mut self.mirror)?;
        let old = std::mem::replace(&mut self.rules, rules);
        if let Some(engine) = &self.engine {
            engine.set_rules(&self.rules.classifier);
        }
        old.release(&mut self.mirror);
        Ok(())
    }

    /// Rules and queues are the engine's; where express runs they would not be obeyed.
    fn check_path(&self, new: &RunConfig) -> anyhow::Result<()> {
        if !new.needs_engine || new.path == PathChoice::Express {
            return Ok(());
        }
        let express = self.ports.iter().find(|port| port.path == Path::Express);
        match express {
            Some(port) => Err(anyhow!(
                "rules, classes and queues need the engine, and {} takes the express path; restart \
                 to change that",
                port.name
            )),
            None => Ok(()),
        }
    }

    /// Whether workers on these CPUs could take over.
    fn could_set_cores(&self, cores: &[usize], new: &File) -> anyhow::Result<()> {
        check_cores(cores)?;
        let configs = new.clone().into_config().ports;
        match &self.engine {
            Some(engine) => engine.could_have_workers(cores.len().max(1), &self.ports, &configs),
            None => Ok(()), // express has no workers
        }
    }

    /// Replaces the workers by others on the CPUs of the new configuration. The lease goes on, unless
    /// it takes so long that the rings would overflow.
    fn set_cores(&mut self) -> anyhow::Result<()> {
        self.beat();
        let Some(engine) = &mut self.engine else {
            return Ok(());
        };
        let (hash, classifier) = (self.hash, &self.rules.classifier);
        let replaced = engine.replace_workers(&self.config, hash, classifier);
        if let Some(keeper) = &self.keeper {
            keeper.watch(engine.watched());
        }
        replaced
    }

    fn could_add(&self, name: &str) -> anyhow::Result<Link> {
        ensure!(
            matches!(name.parse(), Ok(PortSpec::Interface(_))),
            "port {name}: only interfaces can be added to a running Bora; restart to add it"
        );
        let link = ports::find(&self.mirror, name)?;
        if let Some(engine) = &self.engine {
            engine.could_add(&link)?;
        }
        Ok(link)
    }

    /// The lowest number that is free.
    fn free_number(&self, staged: &[Staged]) -> anyhow::Result<PortId> {
        let taken = |id: PortId| {
            let staged = staged.iter().map(|one| &one.port);
            let leaving = self
                .engine
                .as_ref()
                .is_some_and(|engine| engine.is_leaving(id));
            leaving || self.ports.iter().chain(staged).any(|port| port.id == id)
        };
        let mut numbers = (0..MAX_PORTS as u16).map(PortId);
        numbers
            .find(|&id| !taken(id))
            .with_context(|| format!("more than {MAX_PORTS} ports"))
    }

    /// Everything about new ports that can fail: programs attached, sockets open. They get no packet
    /// yet.
    fn stage(&mut self, actions: &[Action], config: &RunConfig) -> anyhow::Result<Vec<Staged>> {
        let mut staged = Vec::new();
        for action in actions {
            let Action::AddPort(section) = action else {
                continue;
            };
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
        config: &RunConfig,
        others: &[Staged],
    ) -> anyhow::Result<Staged> {
        self.beat(); // attaching takes some drivers a second
        let link = self.could_add(&section.name)?;
        let id = self.free_number(others)?;
        let mut port = Port::attach(id, link, &self.program, &self.pins, config)?;
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
            Ok(sockets) => {
                let section = section.clone();
                Ok(Staged {
                    section,
                    port,
                    sockets,
                })
            }
            Err(error) => {
                port.detach(&self.place);
                Err(error)
            }
        }
    }

    /// Takes back what was staged.
    fn unstage(&mut self, staged: Vec<Staged>) {
        for one in staged {
            if let (Some(engine), Some(sockets)) = (&mut self.engine, one.sockets) {
                engine.close_unused(one.port.id, sockets);
            }
            one.port.detach(&self.place);
        }
    }

    /// Lets packets come to a staged port. The workers know it before any packet can lead there.
    fn add_port(&mut self, staged: Staged) -> anyhow::Result<()> {
        let Staged {
            section,
            mut port,
            sockets,
        } = staged;
        let (id, name) = (port.id, port.name.clone());
        self.numbers = self.numbers.max(id.0 + 1);
        port.before = self.totals(id);
        port.expose_tags(&self.place);
        port.settings = port.wanted(&self.mirror, &self.config, &self.hooks.survey);
        if let (Some(engine), Some(sockets)) = (&mut self.engine, sockets) {
            if let Err(error) = engine.add_port(&port, sockets, &PortConfig::of(&section)) {
                port.detach(&self.place);
                return Err(error);
            }
            engine.wait_for_workers();
        }
        self.ports.push(port);
        let opened = self.publish_ports().and_then(|()| {
            self.program
                .watch_buffers(self.ports.iter().any(Port::is_generic))?;
            self.program
                .find_device(id.0, self.ports.last().context("just pushed")?.ifindex)?;
            self.hooks.update(&self.program);
            let port = self.ports.last_mut().context("just pushed")?;
            // the guard has looked at the new port only now
            port.settings = port.wanted(&self.mirror, &self.config, &self.hooks.survey);
            if let Some(engine) = &self.engine {
                engine.tell(|| Command::SetIngress(port.ingress()));
                engine.connect(id, &self.program)?;
            }
            if port.has_program() {
                self.program.set_port(port.ifindex, &port.settings)?;
            }
            Ok(())
        });
        opened.or_else(|error| {
            self.remove_port(&name)?;
            Err(error.context(format!("port {name}")))
        })
    }

    /// Puts the program on the interface that has the name of a port whose interface was gone.
    pub(crate) fn replace(&mut self, name: &str) -> anyhow::Result<()> {
        let section = self.file.ports.iter().find(|section| section.name == name);
        let section = section.context("no section")?.clone();
        let config = self.config.clone();
        let staged = self.stage_one(&section, &config, &[])?;
        let index = self.ports.iter().position(|port| port.name == name);
        let old = self.ports.remove(index.context("no such port")?);
        old.detach(&self.place);
        self.add_port(staged)?;
        self.set_rules()?; // its number may be another
        log::info!("{name}: there is an interface of this name again; it is the port");
        Ok(())
    }

    /// Takes a port that no route leads to away from the program and the workers.
    pub(crate) fn discard(&mut self, ifindex: u32, id: PortId) {
        if let Err(error) = self.program.remove_port(ifindex, id.0) {
            log::warn!("port {}: {error}", id.0);
        }
        if let Some(engine) = &mut self.engine {
            engine.remove_port(id);
        }
    }

    /// Leaves a port to Linux. First no route leads there any more, then the gate closes, then the
    /// workers empty what they hold: nothing is lost on the way.
    fn remove_port(&mut self, name: &str) -> anyhow::Result<()> {
        self.beat();
        let index = self.ports.iter().position(|port| port.section == name);
        let index = index.ok_or_else(|| anyhow!("there is no port {name}"))?;
        ensure!(self.ports.len() > 1, "{name} is the last port");
        let mut port = self.ports.remove(index);
        if let Err(error) = self.publish_ports() {
            self.ports.insert(index, port);
            return Err(error);
        }
        self.check_fast_path(true);
        if let Some(engine) = &self.engine {
            engine.wait_for_workers();
        }
        if let Some(twin) = port.twin_mut() {
            twin.close();
        }
        // once: of an interface that is gone that is done
        if !port.is_gone {
            self.discard(port.ifindex, port.id);
        }
        port.detach(&self.place);
        self.program
            .watch_buffers(self.ports.iter().any(Port::is_generic))?;
        Ok(())
    }

    /// Tells the mirror which interfaces are ports; the FIB leads to no others.
    pub(crate) fn publish_ports(&mut self) -> anyhow::Result<()> {
        Ok(self.mirror.set_ports(outputs(&self.ports))?)
    }
}
