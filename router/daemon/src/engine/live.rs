//! Ports that come and go while the workers run.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bora_contract::Reason;
use bora_fib::PortId;
use bora_mirror::message::Link;
use bora_port::af_xdp::{self, longest_mtu};
use bora_port::{Queue, QueueStats};
use bora_worker::{Command, Returned};
use bora_xdp::Program;

use super::sockets::{self, Sockets};
use super::{Engine, Leaving, PortSockets, way_to_linux, worker_port};
use crate::config::{File, PortSection};
use crate::engine::shares::divide;
use crate::ports::Port;

/// How long a worker is waited for: to take a command, to empty what it holds for a port.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
pub(super) const LOOK: Duration = Duration::from_millis(1);

impl Engine {
    /// Whether there is room for a port on this interface.
    pub(crate) fn could_add(&self, link: &Link) -> anyhow::Result<()> {
        let name = &link.name;
        ensure!(
            link.mtu <= longest_mtu(self.frame_size(), None),
            "MTU {} of {name} is more than the packet buffers of this run hold; restart to have \
             larger ones",
            link.mtu
        );
        Ok(())
    }

    /// Opens the sockets of a new port, and settles what path it takes.
    ///
    /// # Errors
    /// There is no memory for it, or it was to have the engine and cannot.
    pub(crate) fn open_port(&mut self, port: &mut Port, config: &File) -> anyhow::Result<Sockets> {
        let queues = port.wanted_queues();
        let wanted = sockets::frames_of_queues(queues) as usize;
        ensure!(
            self.common.frames.len() >= wanted,
            "no packet memory for {queues} more queues ({} of {wanted} frames are free); restart to \
             have more",
            self.common.frames.len()
        );
        let share = |zero_copy| {
            let mut readers = self.sockets.iter().flat_map(|sockets| &sockets.readers);
            let of_mode = readers.find_map(|reader| {
                let socket: &af_xdp::StatsReader = reader.as_kind()?;
                (socket.zero_copy() == zero_copy).then_some(socket)
            });
            of_mode.map(AsFd::as_fd)
        };
        let memory = (&self.common.region, &self.common.frames);
        let opened = sockets::open_port(port, memory, share);
        let settled = port.settle(&opened, config);
        let queues = opened.sockets;
        if let Err(error) = settled {
            self.close(port.id, queues.into_iter().map(Queue::AfXdp));
            return Err(error);
        }
        let readers = sockets::readers(&queues)?;
        Ok(Sockets { queues, readers })
    }

    /// Closes the sockets of a port that the workers do not have.
    pub(crate) fn close_unused(&mut self, port: PortId, sockets: Sockets) {
        drop(sockets.readers);
        self.close(port, sockets.queues.into_iter().map(Queue::AfXdp));
    }

    /// Gives a new port to the workers, and then its sockets to the program. Nothing comes in yet.
    ///
    /// # Errors
    /// Its queues cannot be shared, or the program does not take them.
    pub(crate) fn add_port(
        &mut self,
        port: &Port,
        sockets: Sockets,
        config: &PortSection,
        program: &Program,
    ) -> anyhow::Result<()> {
        let queues = sockets.queues.into_iter().map(Queue::AfXdp).collect();
        let bells: Vec<_> = self.workers.iter().map(|one| one.bell.clone()).collect();
        let parts = divide(port.id, queues, &config.queues.output(), &bells)?;
        let number = usize::from(port.id.0);
        self.past.forget_classes(number);
        if self.sockets.len() <= number {
            self.sockets.resize_with(number + 1, PortSockets::default);
        }
        let kept = &mut self.sockets[number];
        kept.readers = sockets.readers;
        self.devices.set(port.id, way_to_linux(port)?);
        for (worker, part) in self.workers.iter().zip(parts) {
            worker.tell(Command::AddPort(Box::new(worker_port(port, config, part))));
        }
        self.wait_for_workers();
        self.connect(port.id, program)
    }

    /// Tells the program of the sockets of a port, for when its gate opens.
    fn connect(&self, port: PortId, program: &Program) -> anyhow::Result<()> {
        let sockets = self
            .sockets
            .get(usize::from(port.0))
            .context("no sockets")?;
        for reader in &sockets.readers {
            if let Some(socket) = reader.as_kind::<af_xdp::StatsReader>() {
                program.set_socket(port.0, socket.queue(), socket.as_fd())?;
            }
        }
        Ok(())
    }

    /// Takes a port that receives no more packets away from the workers, and closes its sockets. If a
    /// shaped queue needs longer than [`PATIENCE`] to send what it holds, they are closed later, and
    /// the number stays in use until then.
    pub(crate) fn remove_port(&mut self, port: PortId) {
        // an interface may go while its queues still send
        if !self.is_leaving(port) {
            self.tell(|| Command::RemovePort(port));
            self.leaving.push(Leaving {
                port,
                queues: Vec::new(),
                missing: self.workers.len(),
            });
        }
        let deadline = Instant::now() + PATIENCE;
        while (self.is_leaving(port) || self.is_closing(port)) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
            self.close_returned();
        }
        if self.is_leaving(port) {
            log::warn!("the workers still send what they hold for a removed port");
        }
    }

    /// Whether workers still have queues of a removed port with this number.
    pub(crate) fn is_leaving(&self, port: PortId) -> bool {
        self.leaving.iter().any(|leaving| leaving.port == port)
    }

    /// Whether the kernel may still use frames that sockets of this port had.
    fn is_closing(&self, port: PortId) -> bool {
        self.closing.iter().any(|&(of, _)| of == port)
    }

    /// Closes the sockets of removed ports that all workers have given back, and collects the frames
    /// that the kernel no longer uses.
    pub(crate) fn close_returned(&mut self) {
        while let Some(Returned { port, queues }) = self.common.returns.pop() {
            let mut leaving = self.leaving.iter_mut();
            if let Some(leaving) = leaving.find(|leaving| leaving.port == port) {
                leaving.missing -= 1;
                leaving.queues.extend(queues);
            }
        }
        let done = |leaving: &mut Leaving| leaving.missing == 0;
        for leaving in self.leaving.extract_if(.., done).collect::<Vec<_>>() {
            self.forget_sockets(leaving.port);
            self.close(leaving.port, leaving.queues);
        }
        let home = &self.common.frames;
        self.closing
            .retain_mut(|(_, closing)| !closing.finish(home));
    }

    /// Closes queues of a port. Packets that they had still to send count as [`Reason::TxLinkDown`].
    fn close(&mut self, port: PortId, queues: impl IntoIterator<Item = Queue>) {
        for queue in queues {
            let Some(closing) = queue.close(&self.common.frames) else {
                continue;
            };
            if let Some(kept) = self.sockets.get_mut(usize::from(port.0)) {
                let unsent = u64::from(closing.unsent());
                kept.counted.take_back(Reason::TxLinkDown, unsent);
            }
            self.closing.push((port, closing));
        }
    }

    /// Keeps what the sockets of a port have counted, and drops the readers.
    fn forget_sockets(&mut self, port: PortId) {
        let counted = self.counted(port);
        if let Some(kept) = self.sockets.get_mut(usize::from(port.0)) {
            kept.readers.clear();
            kept.counted = counted;
        }
    }

    /// What the queues of a port number have counted.
    pub(crate) fn counted(&self, port: PortId) -> QueueStats {
        let Some(kept) = self.sockets.get(usize::from(port.0)) else {
            return QueueStats::default();
        };
        let mut counted = kept.counted.clone();
        for reader in &kept.readers {
            counted.add(&reader.read());
        }
        counted
    }

    /// Waits until every worker goes by the latest tables.
    pub(super) fn wait_for_tables(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_up_to_date() {
            if Instant::now() >= deadline {
                return log::warn!(
                    "a worker has not adopted its tables within {} s; it does as soon as it goes on",
                    PATIENCE.as_secs()
                );
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until every worker has taken its commands and finished the turn it was in.
    pub(crate) fn wait_for_workers(&self) {
        let deadline = Instant::now() + PATIENCE;
        for worker in &self.workers {
            worker.bell.ring();
            let wait = |done: &dyn Fn() -> bool| {
                while !done() && Instant::now() < deadline {
                    std::thread::sleep(LOOK);
                }
            };
            wait(&|| worker.commands.is_empty());
            let turn = worker.counters.loops.get();
            wait(&|| worker.counters.loops.get() != turn);
        }
        if Instant::now() >= deadline {
            log::warn!("a worker has not answered within {} s", PATIENCE.as_secs());
        }
    }
}
