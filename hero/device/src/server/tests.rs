//! A virtual machine's side of the protocol. Needs the library of hero/model.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;

use bora_hero::{CARDS, Model};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vfio_user::Client;

use super::*;
use crate::bus::{REGION_CONFIG, REGION_MSIX, REGION_REGISTERS};
use crate::wires::Wire;

/// A server of card 0 at a path; `None`, said aloud, without the library.
fn serve_card(name: &str) -> Option<PathBuf> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/hero/libhero-xbar.so");
    if !library.exists() {
        let library = library.display();
        bora_testing::skip(format!("no {library}; `make hero-model` builds it"));
        return None;
    }
    let (sender, tasks) = channel::<Task>();
    let desk = Desk::new(sender, Arc::new(Bell::new().unwrap()));
    let path = std::env::temp_dir().join(format!("hero-device-{name}-{}", std::process::id()));
    std::thread::spawn(move || {
        let model = Model::load(&library).unwrap();
        let mut bus = Bus::new(model, [const { Wire::None }; CARDS]);
        for task in tasks {
            task(&mut bus);
        }
    });
    start(0, path.clone(), desk).unwrap();
    Some(path)
}

fn read32(client: &mut Client, region: u32, offset: u64) -> u32 {
    let mut data = [0; 4];
    client.region_read(region, offset, &mut data).unwrap();
    u32::from_le_bytes(data)
}

#[test]
fn a_virtual_machine_finds_the_card() {
    let Some(path) = serve_card("finds") else {
        return;
    };
    for _ in 0..2 {
        let mut client = Client::new(&path).unwrap();
        let sizes = [0, 1, 2, 4, 7].map(|region| client.region(region).map(|one| one.size));
        assert_eq!(sizes, [4096, 0, 1 << 20, 4096, 4096].map(Some));
        let counts = [0, 1, 2, 3, 4].map(|irq| client.get_irq_info(irq).unwrap().count);
        assert_eq!(counts, [0, 0, VECTORS as u32, 0, 0]);
        assert_eq!(read32(&mut client, REGION_CONFIG, 0), 0x4845_1234);
        assert_eq!(
            read32(&mut client, REGION_REGISTERS, 0),
            u32::MAX,
            "clean: memory is off"
        );
        client.region_write(REGION_CONFIG, 4, &[6, 0]).unwrap();
        assert_eq!(read32(&mut client, REGION_REGISTERS, 0), 0x4845_524F);
        client.reset().unwrap();
        assert_eq!(read32(&mut client, REGION_CONFIG, 4) & 0xFFFF, 0);
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn memory_and_vectors_are_given_and_taken() {
    let Some(path) = serve_card("gives") else {
        return;
    };
    let mut client = Client::new(&path).unwrap();
    let memory = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, 1 << 20).unwrap();
    client.dma_map(0, 0, 1 << 20, memory.as_raw_fd()).unwrap();
    client.dma_unmap(0, 1 << 20).unwrap();
    let trigger = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
    let index = VFIO_PCI_MSIX_IRQ_INDEX;
    client
        .set_irqs(index, flags, 2, 1, &[trigger.as_raw_fd()])
        .unwrap();
    client.set_irqs(index, flags, 0, 0, &[]).unwrap();
    let mut pending = [0xFF; 8];
    client
        .region_read(REGION_MSIX, 0x800, &mut pending)
        .unwrap();
    assert_eq!(pending, [0; 8]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn accesses_beyond_a_region_are_refused() {
    let whole = region_octets(REGION_CONFIG);
    for (region, offset, octets) in [
        (REGION_CONFIG, whole, 1),
        (REGION_CONFIG, u64::MAX, 2),
        (1, 0, 4),
        (99, 0, 4),
    ] {
        assert!(
            checked(region, offset, octets).is_err(),
            "{region} {offset}"
        );
    }
    assert_eq!(checked(REGION_CONFIG, whole - 4, 4).unwrap(), 4);
}

#[test]
fn what_speaks_otherwise_is_sent_away() {
    let Some(path) = serve_card("otherwise") else {
        return;
    };
    // a version whose text does not end, and one that says to be shorter than its head
    for (size, text) in [(24u32, b"{}{}"), (17, b"abcd")] {
        let mut stream = UnixStream::connect(&path).unwrap();
        let mut message = vec![1, 0, 1, 0];
        message.extend(size.to_le_bytes());
        message.extend([0; 12]);
        message.extend(text);
        stream.write_all(&message).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let mut client = Client::new(&path).unwrap();
    assert_eq!(read32(&mut client, REGION_CONFIG, 0), 0x4845_1234);
    std::fs::remove_file(path).unwrap();
}
