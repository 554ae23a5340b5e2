//! Plays a peer from octets against a real port: the beginning, the messages, the writes to shared memory and
//! when they happen all follow from the input.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_port::PortQueue;
use bora_port::memif::{Config, Hello, LinkState, Message, Name, Port, Queue, Role};
use rustix::fs::{FallocateFlags, MemfdFlags, OFlags, fallocate, fcntl_setfl, ftruncate};
use rustix::pipe::pipe;

use super::peer::{
    BUFFER, Channel, Client, DESCRIPTORS, FLAGS, HEAD, Memory, NEXT, TAIL, bell, config, hello,
    listener, readable, ring_size,
};

/// Frames of the port's region.
const FRAMES: u32 = 256;
/// Most steps of one play.
const STEPS: usize = 64;

/// Octets taken one after the other; zeros once they are used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn u8(&mut self) -> u8 {
        let first = self.0.first().copied().unwrap_or(0);
        self.0 = self.0.get(1..).unwrap_or(&[]);
        first
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    /// Often a number near an edge.
    fn edge(&mut self) -> u32 {
        let near = i32::from(self.u8() as i8) as u32;
        match self.u8() % 6 {
            0 => near,
            1 => near.wrapping_add(1 << 14),
            2 => near.wrapping_add(1 << 16),
            3 => near.wrapping_add(BUFFER),
            4 => near.wrapping_add(1 << 31),
            _ => self.u32(),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The worker's side: a queue and its memory, of which no frame may get lost.
struct Bora<'a> {
    queue: Option<Queue>,
    region: Arc<Region>,
    frames: SharedFrames,
    pool: &'a mut Pool,
}

impl<'a> Bora<'a> {
    fn open(settings: &Config, stage: &'a mut Stage) -> (Self, Port) {
        let (port, mut queues) = Port::open(settings.clone(), stage.region.clone()).unwrap();
        let bora = Self {
            queue: queues.pop(),
            region: stage.region.clone(),
            frames: stage.frames.clone(),
            pool: &mut stage.pool,
        };
        (bora, port)
    }

    /// One of the calls of a worker.
    fn act(&mut self, input: &mut Input<'_>) {
        let Some(queue) = &mut self.queue else { return };
        match input.u8() % 6 {
            0 => queue.refill(self.pool),
            1 => {
                let max = usize::from(input.u8());
                let mut packets = Vec::new();
                let count = queue.receive(&mut packets, max);
                assert!(count == packets.len() && count <= max);
                for packet in packets {
                    assert!((1..=self.region.capacity()).contains(&packet.length()));
                    // the octets are there to be read, whatever they are
                    let octets = self.region.octets(&packet);
                    std::hint::black_box(octets.iter().fold(0u8, |sum, octet| sum ^ octet));
                    self.pool.give(packet.into_frame(&self.region));
                }
            }
            2 => self.transmit(input),
            3 => {
                queue.kick();
                queue.reclaim(self.pool);
            }
            4 => assert!(queue.waiting(64) <= 64),
            _ => {
                if let Some(fd) = queue.wait() {
                    readable(fd, Duration::ZERO);
                }
            }
        }
    }

    fn transmit(&mut self, input: &mut Input<'_>) {
        let Some(queue) = &mut self.queue else { return };
        let (count, length) = (input.u8() % 32, usize::from(input.u16()));
        let mut packets: Vec<Packet> = Vec::new();
        for _ in 0..count {
            let Some(frame) = self.pool.take() else { break };
            let length = 1 + length % self.region.capacity();
            packets.push(frame.into_packet(&self.region, length).unwrap());
        }
        let before = packets.len();
        let sent = queue.transmit(&mut packets);
        assert_eq!(sent + packets.len(), before);
        for packet in packets {
            self.pool.give(packet.into_frame(&self.region));
        }
    }

    /// What a worker does each round.
    fn settle(&mut self) {
        let Some(queue) = &mut self.queue else { return };
        queue.refill(self.pool);
        queue.reclaim(self.pool);
    }

    /// Waits until the link is up, or has failed.
    fn wait_for_rings(&mut self, port: &Port) {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) {
            self.settle();
            let has_rings = self.queue.as_ref().is_some_and(|queue| queue.is_up().0);
            match port.link_state() {
                LinkState::Up { .. } if !has_rings => {}
                LinkState::Down(reason) if reason == "no peer yet" => {}
                _ => break,
            }
            std::thread::yield_now();
        }
    }

    /// Every frame is home.
    fn end(mut self, port: Port) {
        drop(port);
        self.settle();
        if let Some(queue) = self.queue.take() {
            Box::new(queue).close(&self.frames);
        }
        let pooled = self.pool.len();
        assert_eq!(
            self.frames.len() + pooled,
            FRAMES as usize,
            "frames got lost"
        );
    }
}

/// Memory for all plays, one at a time: to make it takes longer than a play.
struct Stage {
    region: Arc<Region>,
    frames: SharedFrames,
    pool: Pool,
}

fn stage() -> MutexGuard<'static, Stage> {
    static STAGE: OnceLock<Mutex<Stage>> = OnceLock::new();
    let stage = STAGE.get_or_init(|| {
        let region = Arc::new(Region::new(FRAMES, 2048).unwrap());
        let frames = SharedFrames::of_new_region(&region);
        let pool = Pool::new(frames.clone(), 64);
        Mutex::new(Stage {
            region,
            frames,
            pool,
        })
    });
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The peer's means besides its messages.
struct Means {
    memory: Arc<Memory>,
    bells: Vec<OwnedFd>,
    log2: u8,
    /// Offset of the buffers and their region.
    buffers: (u16, u32),
}

impl Means {
    fn ring(&self, input: &mut Input<'_>) -> u64 {
        u64::from(input.u8() % 2) * ring_size(self.log2)
    }

    /// One thing to do to shared memory or to eventfds.
    fn act(&self, input: &mut Input<'_>) {
        let memory = &self.memory;
        match input.u8() % 8 {
            0 | 1 => {
                let field = [FLAGS, HEAD, TAIL, 0][usize::from(input.u8() % 4)];
                memory.write16(self.ring(input) + field, input.edge() as u16);
            }
            2 => {
                // an honest step
                let (ring, field) = (self.ring(input), [HEAD, TAIL][usize::from(input.u8() % 2)]);
                let more = u16::from(input.u8() % 32);
                memory.write16(ring + field, memory.read16(ring + field).wrapping_add(more));
            }
            3 | 4 => self.describe(input),
            5 => memory.write(u64::from(input.edge()), &input.u32().to_le_bytes()),
            6 => {
                let Some(bell) = self.bells.get(usize::from(input.u8() % 2)) else {
                    return;
                };
                let flags = [OFlags::NONBLOCK, OFlags::empty()][usize::from(input.u8() % 2)];
                let _ = fcntl_setfl(bell, OFlags::NONBLOCK);
                let _ = rustix::io::write(bell, &(u64::MAX >> (input.u8() % 64)).to_ne_bytes());
                let _ = fcntl_setfl(bell, flags);
            }
            _ if input.u8().is_multiple_of(4) => {
                let size = u64::from(input.u16());
                let _ = ftruncate(&memory.0, size);
            }
            _ => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = fallocate(&memory.0, flags, u64::from(input.u16()), 4096);
            }
        }
    }

    fn describe(&self, input: &mut Input<'_>) {
        let (ring, index) = (self.ring(input), u64::from(input.u8() % 16));
        let (mut region, mut offset) = self.buffers;
        offset = offset.wrapping_add(BUFFER * u32::from(input.u8() % 16));
        let (mut flags, mut length) = (
            u16::from(input.u8().is_multiple_of(4)) * NEXT,
            1 + input.u32() % BUFFER,
        );
        match input.u8() % 8 {
            0 => flags = input.u16(),
            1 => region = input.u16(),
            2 => length = input.edge(),
            3 => offset = input.edge(),
            4 => length = 0,
            _ => {}
        }
        self.memory
            .describe(ring, index, flags, region, length, offset);
    }

    /// A thread that writes all the time, elsewhere, until told to end.
    fn scribble(&self, seed: u16, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
        let (memory, stop, log2) = (self.memory.clone(), stop.clone(), self.log2);
        std::thread::spawn(move || {
            let mut state = u64::from(seed) << 1 | 1;
            while !stop.load(Ordering::Relaxed) {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let ring = (state >> 60 & 1) * ring_size(log2);
                let field = match state >> 57 & 7 {
                    0 => HEAD,
                    1 => TAIL,
                    2 => FLAGS,
                    _ => DESCRIPTORS + (state >> 40 & 0xff),
                };
                memory.write16(ring + field, (state >> 20) as u16 & 0x1f);
            }
        })
    }
}

/// Some descriptor to send along.
fn some_fd(input: &mut Input<'_>, memory: &Memory) -> Option<OwnedFd> {
    match input.u8() % 6 {
        0 => None,
        1 => Some(bell()),
        2 => memory.0.try_clone().ok(),
        3 => Some(pipe().unwrap().0),
        4 => Some(Memory::new(u64::from(input.u16()), MemfdFlags::ALLOW_SEALING).0),
        _ => std::fs::File::open("/dev/null").ok().map(Into::into),
    }
}

/// A message with an octet or a whole field changed, or none of it.
fn bend(message: &Message, input: &mut Input<'_>) -> Vec<u8> {
    let mut octets = message.emit().to_vec();
    match input.u8() % 8 {
        0 => octets[usize::from(input.u8() % 128)] ^= input.u8(),
        1 => {
            let at = usize::from(input.u8() % 48);
            octets[at..at + 4].copy_from_slice(&input.edge().to_le_bytes());
        }
        2 => octets.truncate(usize::from(input.u8())),
        3 => {
            octets[..2].copy_from_slice(&u16::from(input.u8() % 10).to_le_bytes());
            for octet in &mut octets[2..24] {
                *octet = input.u8();
            }
        }
        _ => {}
    }
    octets
}

/// What happens while there is input: the worker's calls and the peer's doings.
fn drama(bora: &mut Bora<'_>, means: &Means, channel: &Channel, input: &mut Input<'_>) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut scribbler = None;
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        match input.u8() % 16 {
            0..=6 => bora.act(input),
            7..=13 => means.act(input),
            14 if scribbler.is_none() => {
                scribbler = Some(means.scribble(input.u16(), &stop));
            }
            _ if input.u8().is_multiple_of(4) => {
                let (message, fd) = (bend(&Message::Ack, input), some_fd(input, &means.memory));
                channel.send(&message, fd.as_ref().map(|fd| fd.as_fd()).as_slice());
            }
            _ => bora.settle(),
        }
    }
    stop.store(true, Ordering::Relaxed);
    if let Some(scribbler) = scribbler {
        scribbler.join().unwrap();
    }
}

/// The port is the server; the input plays its client.
pub fn memif_server(data: &[u8]) {
    let (mut stage, mut input) = (stage(), Input(data));
    let settings = config(Role::Server, 4);
    let (mut bora, port) = Bora::open(&settings, &mut stage);
    client_plays(&mut bora, &port, &settings, &mut input);
    bora.end(port);
}

fn client_plays(bora: &mut Bora<'_>, port: &Port, settings: &Config, input: &mut Input<'_>) {
    let (bent, log2) = (input.u8(), input.u8() % 6);
    let flags = [MemfdFlags::ALLOW_SEALING, MemfdFlags::empty()][usize::from(bent >> 3 & 1)];
    let Some(client) = Client::new(settings, log2, flags) else {
        return;
    };
    // the first bits say which message is bent, if one is
    for (step, (message, fd)) in client.script().into_iter().enumerate() {
        let is_bent = usize::from(bent & 7) == step;
        let octets = if is_bent {
            bend(&message, input)
        } else {
            message.emit().to_vec()
        };
        let other = if is_bent {
            some_fd(input, &client.memory)
        } else {
            None
        };
        let fd = other.as_ref().map(|fd| fd.as_fd()).or(fd);
        let answer = client.channel.ask(&octets, fd.as_slice());
        if !matches!(answer, Some(Message::Ack | Message::Connected(_))) {
            return;
        }
    }
    bora.wait_for_rings(port);
    let means = Means {
        buffers: (0, client.buffer(0)),
        memory: Arc::new(client.memory),
        bells: client.bells.into(),
        log2,
    };
    drama(bora, &means, &client.channel, input);
}

/// The port is the client; the input plays its server.
pub fn memif_client(data: &[u8]) {
    let (mut stage, mut input) = (stage(), Input(data));
    let settings = config(Role::Client, 4);
    let listener = listener(&settings, 4);
    let (mut bora, port) = Bora::open(&settings, &mut stage);
    if let Some(channel) = Channel::accept(&listener) {
        server_plays(&mut bora, &port, &channel, &mut input);
    }
    bora.end(port);
}

fn server_plays(bora: &mut Bora<'_>, port: &Port, channel: &Channel, input: &mut Input<'_>) {
    let bent = input.u8();
    let hello = Message::Hello(Hello {
        max_m2s_ring: u16::from(bent >> 7),
        ..hello()
    });
    let (mut regions, mut bells) = (Vec::new(), Vec::new());
    let mut log2 = 4;
    let mut say = hello;
    // HELLO, INIT, ADD_REGION twice, ADD_RING twice, CONNECT
    for step in 0..7 {
        let is_bent = usize::from(bent & 7) == step;
        let octets = if is_bent {
            bend(&say, input)
        } else {
            say.emit().to_vec()
        };
        channel.send(&octets, &[]);
        let Some((octets, fd)) = channel.receive() else {
            return;
        };
        match (Message::parse(&octets), fd) {
            (Ok(Message::AddRegion(_)), Some(fd)) => regions.push(Memory(fd)),
            (Ok(Message::AddRing(ring)), Some(fd)) => {
                log2 = ring.log2_ring_size;
                bells.push(fd);
            }
            (Ok(Message::Connect(_)), _) => {
                let connected = Message::Connected(Name::new("peer0"));
                let bend_last = bent & 7 == 7;
                let octets = if bend_last {
                    bend(&connected, input)
                } else {
                    connected.emit().into()
                };
                channel.send(&octets, &[]);
                break;
            }
            (Ok(Message::Init(_)), _) => {}
            _ => return,
        }
        say = Message::Ack;
    }
    if regions.is_empty() {
        return;
    }
    bora.wait_for_rings(port);
    let means = Means {
        // the packets' memory is not sealed against holes: a client's server can take it away
        memory: Arc::new(regions.remove(0)),
        bells,
        log2,
        buffers: (1, 0),
    };
    drama(bora, &means, channel, input);
}
