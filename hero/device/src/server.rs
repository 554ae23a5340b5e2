//! Each card's virtual machine: a thread that answers its vfio-user requests by asking the thread with the bus.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, sync_channel};

use bora_port::Bell;
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_NORESIZE, VFIO_IRQ_SET_ACTION_TRIGGER,
    VFIO_IRQ_SET_ACTION_TYPE_MASK, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_MSIX_IRQ_INDEX,
    VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};

use crate::bus::{Bus, region_octets};
use crate::config::VECTORS;

/// Addresses that a card's registers can name, but where its bus has apertures and nothing else.
const OUT_OF_REACH: Range<u64> = 1 << 31..1 << 32;

/// What the thread with the bus is to do.
pub(crate) type Task = Box<dyn FnOnce(&mut Bus) + Send>;

/// The way to the thread with the bus.
#[derive(Clone)]
pub(crate) struct Desk {
    tasks: Sender<Task>,
    bell: Arc<Bell>,
}

impl Desk {
    pub(crate) fn new(tasks: Sender<Task>, bell: Arc<Bell>) -> Self {
        Self { tasks, bell }
    }

    /// Has something done with the bus, and returns what came of it.
    ///
    /// # Errors
    /// The thread with the bus has ended.
    fn ask<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Bus) -> T + Send + 'static,
    ) -> io::Result<T> {
        let (reply, answer) = sync_channel(1);
        let ended = |error: &dyn std::error::Error| {
            let text = format!("the cards are gone: {error}");
            io::Error::new(io::ErrorKind::BrokenPipe, text)
        };
        let task: Task = Box::new(move |bus| {
            if let Err(error) = reply.send(task(bus)) {
                log::debug!("a request whose thread is gone: {error}");
            }
        });
        self.tasks.send(task).map_err(|error| ended(&error))?;
        self.bell.ring();
        answer.recv().map_err(|error| ended(&error))
    }
}

/// One card's requests.
struct Backend {
    card: usize,
    desk: Desk,
}

impl ServerBackend for Backend {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let (card, octets) = (self.card, checked(region, offset, data.len())?);
        let read = self.desk.ask(move |bus| {
            let mut data = vec![0; octets];
            bus.read(card, region, offset, &mut data);
            data
        })?;
        data.copy_from_slice(&read);
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        checked(region, offset, data.len())?;
        let (card, data) = (self.card, data.to_vec());
        self.desk
            .ask(move |bus| bus.write(card, region, offset, &data))
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        let (card, is_writable) = (self.card, flags.contains(DmaMapFlags::WRITE));
        if file.is_some()
            && address < OUT_OF_REACH.end
            && OUT_OF_REACH.start < address.saturating_add(size)
        {
            log::warn!(
                "card {card} does not reach memory from 2 to 4 GiB: give QEMU max-ram-below-4g=2G"
            );
        }
        log::debug!(
            "card {card}: memory {address:#x}, {size:#x} octets, shared: {}",
            file.is_some()
        );
        self.desk.ask(move |bus| {
            let mut guests = bus.guests().lock();
            guests[card].map((address, size), file, offset, is_writable)
        })?
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        let card = self.card;
        let all = flags.contains(DmaUnmapFlags::UNMAP_ALL);
        self.desk.ask(move |bus| {
            let mut guests = bus.guests().lock();
            if all {
                guests[card].unmap_all();
                return Ok(());
            }
            guests[card].unmap(address, size)
        })?
    }

    fn reset(&mut self) -> io::Result<()> {
        let card = self.card;
        log::info!("card {card}: reset by its virtual machine");
        self.desk.ask(move |bus| bus.reset_function(card))
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        files: Vec<File>,
    ) -> io::Result<()> {
        let is_trigger = flags & VFIO_IRQ_SET_ACTION_TYPE_MASK == VFIO_IRQ_SET_ACTION_TRIGGER;
        if index != VFIO_PCI_MSIX_IRQ_INDEX || !is_trigger {
            // QEMU masks by itself, and takes away what was never set
            return Ok(());
        }
        let card = self.card;
        let is_set = self.desk.ask(move |bus| {
            if flags & VFIO_IRQ_SET_DATA_EVENTFD == 0 {
                bus.release_triggers(card);
                return true;
            }
            bus.set_triggers(card, start, count, files)
        })?;
        match is_set {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

/// The size of an access, if it is within its region.
fn checked(region: u32, offset: u64, octets: usize) -> io::Result<usize> {
    match offset.checked_add(octets as u64) {
        Some(end) if end <= region_octets(region) => Ok(octets),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Makes a card's socket, and a thread that serves one virtual machine after the other on it.
///
/// # Errors
/// The socket or the thread cannot be made.
pub(crate) fn start(card: usize, path: PathBuf, desk: Desk) -> anyhow::Result<()> {
    let server = Server::new(&path, true, irqs(), regions())?;
    let name = format!("card{card}");
    let thread = std::thread::Builder::new().name(name);
    thread.spawn(move || serve(card, &path, &server, &desk))?;
    Ok(())
}

fn serve(card: usize, path: &Path, server: &Server, desk: &Desk) {
    loop {
        log::info!(
            "card {card}: waits for a virtual machine at {}",
            path.display()
        );
        let mut backend = Backend {
            card,
            desk: desk.clone(),
        };
        // the library panics if the first message is not as it should be
        match catch_unwind(AssertUnwindSafe(|| server.run(&mut backend))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => log::warn!("card {card}: connection lost: {error}"),
            Err(_) => log::error!("card {card}: what connected does not speak vfio-user"),
        }
        match desk.ask(move |bus| bus.disconnect(card)) {
            Ok(report) => log::info!("card {card}: virtual machine gone: {report}"),
            Err(_) => return, // the process ends
        }
    }
}

fn irqs() -> Vec<IrqInfo> {
    let irq = |index| IrqInfo {
        index,
        flags: VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_NORESIZE,
        count: match index {
            VFIO_PCI_MSIX_IRQ_INDEX => VECTORS as u32,
            _ => 0,
        },
    };
    (0..VFIO_PCI_NUM_IRQS).map(irq).collect()
}

fn regions() -> Vec<ServerRegion> {
    let region = |index| {
        let size = region_octets(index);
        let flags = match size {
            0 => 0,
            _ => VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE,
        };
        ServerRegion {
            region_info: vfio_region_info {
                argsz: size_of::<vfio_region_info>() as u32,
                flags,
                index,
                cap_offset: 0,
                size,
                offset: 0,
            },
            sparse_areas: Vec::new(),
            mmap_fd: None,
        }
    };
    (0..VFIO_PCI_NUM_REGIONS).map(region).collect()
}

#[cfg(test)]
mod tests;
