//! memif against DPDK's `net_memif`: dpdk-testpmd sends every packet back where it came from.

mod common;

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bora_port::memif::{Config, LinkState, Role};
use common::{End, FRAMES, config, seed_of, socket_path};

/// Packets on their way in one queue: fewer than the smallest ring, so that testpmd, which drops
/// what does not fit, has no reason to.
const WINDOW: u32 = 200;

/// A running dpdk-testpmd, killed when dropped.
struct Testpmd {
    child: Child,
    input: ChildStdin,
    /// The socket a killed server leaves, in the way of the next.
    left: Option<PathBuf>,
    log: PathBuf,
}

impl Testpmd {
    /// Starts it with one memif port; `device` and `eal` are further options of these.
    fn start(role: &str, socket: &Path, queues: u16, device: &str, eal: &[&str]) -> Self {
        let file = socket.file_name().unwrap_or_default();
        let log = std::env::temp_dir()
            .join(file)
            .with_extension(format!("{role}.log"));
        let left = (role == "server").then(|| socket.to_path_buf());
        let output = File::create(&log).unwrap();
        let socket = socket.display().to_string();
        let (name, is_abstract) = match socket.strip_prefix('@') {
            Some(name) => (name, "yes"),
            None => (socket.as_str(), "no"),
        };
        let mut child = Command::new("dpdk-testpmd")
            .args([
                "--no-huge",
                "-m",
                "128",
                "--no-pci",
                "--no-shconf",
                "--no-telemetry",
            ])
            .args(["-l", "0,1"])
            .args(eal)
            .arg(format!(
                "--vdev=net_memif0,role={role},id=0,socket={name},socket-abstract={is_abstract}{device}"
            ))
            .args(["--", "-i", "--forward-mode=io", "--total-num-mbufs=8192"])
            .args(["--disable-link-check", "--no-flush-rx"])
            .args([format!("--rxq={queues}"), format!("--txq={queues}")])
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let mut testpmd = Self {
            input: child.stdin.take().unwrap(),
            child,
            left,
            log,
        };
        testpmd.command("start");
        testpmd
    }

    /// Types a command.
    fn command(&mut self, command: &str) {
        // if it is gone, the test finds out
        let _ = writeln!(self.input, "{command}");
    }

    /// The beginning of what it says, and whether it still runs.
    fn log(&mut self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().take(60).collect();
        format!("{}\nexit: {:?}", lines.join("\n"), self.child.try_wait())
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
        if let Some(left) = &self.left {
            let _ = std::fs::remove_file(left);
        }
    }
}

/// One test at a time, because each keeps a CPU busy; `None`, and why, without dpdk-testpmd.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    if Command::new("dpdk-testpmd").arg("--help").output().is_err() {
        bora_testing::skip("no dpdk-testpmd (Debian: dpdk-dev; scripts/deps installs it)");
        return None;
    }
    Some(TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

fn up(end: &mut End, testpmd: &mut Testpmd) {
    let up = end.wait_for(true);
    assert!(up, "{}\n{}", end.port.link_state(), testpmd.log());
}

/// Sends `count` packets of many sizes through each queue and checks that each comes back whole,
/// once, and in order.
fn echo(end: &mut End, queues: usize, count: u32, testpmd: &mut Testpmd) {
    let longest = end.region.capacity().min(1700);
    let mut sent = vec![0; queues];
    let mut received = vec![0; queues];
    let mut last = Instant::now();
    while received.iter().any(|&received| received < count) {
        assert!(
            last.elapsed() < Duration::from_secs(10),
            "{received:?} of {sent:?} came back; {}\n{}",
            end.port.link_state(),
            testpmd.log()
        );
        for queue in 0..queues {
            let mut packets = Vec::new();
            while sent[queue] < count
                && sent[queue] - received[queue] < WINDOW
                && packets.len() < 64
            {
                let length = 60 + (sent[queue] as usize * 7) % (longest - 59);
                let Some(packet) = end.packet(sent[queue], length) else {
                    break;
                };
                packets.push(packet);
                sent[queue] += 1;
            }
            let offered = packets.len();
            sent[queue] -= (offered - end.send(queue, &mut packets)) as u32;
            let next = &mut received[queue];
            let came = end.receive(queue, |octets| {
                assert_eq!(
                    seed_of(octets),
                    Some(*next),
                    "queue {queue}, {} octets",
                    octets.len()
                );
                *next += 1;
            });
            if came > 0 {
                last = Instant::now();
            }
        }
        end.settle();
    }
}

fn rings(end: &End) -> (usize, usize) {
    match end.port.link_state() {
        LinkState::Up {
            rx_rings, tx_rings, ..
        } => (rx_rings, tx_rings),
        down => panic!("{down}"),
    }
}

fn both_ways(ours: Role, theirs: &str, queues: u16, device: &str, eal: &[&str]) {
    let socket = socket_path(&format!("dpdk-{theirs}-{queues}-{}", eal.len()));
    let mut end = End::open(config(ours, &socket, queues, 9), 2048);
    let mut names = HashSet::new();
    for round in 0..3 {
        let mut testpmd = Testpmd::start(theirs, &socket, queues, device, eal);
        up(&mut end, &mut testpmd);
        assert_eq!(rings(&end), (queues.into(), queues.into()), "round {round}");
        if let LinkState::Up { peer, .. } = end.port.link_state() {
            names.insert(peer);
        }
        echo(&mut end, queues.into(), 30_000, &mut testpmd);
        drop(testpmd); // SIGKILL
        assert!(end.wait_for(false), "round {round}");
        end.settle();
        assert_eq!(end.free_frames(), FRAMES as usize, "round {round}");
    }
    assert_eq!(end.stats().read().dropped.sum(), 0);
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn testpmd_is_the_client() {
    let Some(_turn) = turn() else { return };
    both_ways(Role::Server, "client", 1, ",rsize=9", &[]);
    both_ways(Role::Server, "client", 2, ",rsize=9", &[]);
}

#[test]
fn testpmd_is_the_server() {
    let Some(_turn) = turn() else { return };
    both_ways(Role::Client, "server", 1, "", &[]);
    both_ways(Role::Client, "server", 2, "", &[]);
}

#[test]
fn bora_comes_back_to_a_testpmd_that_stays() {
    let Some(_turn) = turn() else { return };
    let socket = format!("@{}", socket_path("dpdk-stays").display());
    let socket = Path::new(&socket);
    let mut testpmd = Testpmd::start("server", socket, 2, "", &[]);
    for _ in 0..3 {
        let mut end = End::open(config(Role::Client, socket, 2, 9), 2048);
        up(&mut end, &mut testpmd);
        echo(&mut end, 2, 10_000, &mut testpmd);
        // DPDK 22.11 unmaps the rings under the feet of its own forwarding thread
        testpmd.command("stop");
        std::thread::sleep(Duration::from_millis(300));
        drop(end);
        std::thread::sleep(Duration::from_millis(300));
        testpmd.command("start");
    }
}

/// Its buffers are then its own memory, 128 MiB, which it does not seal.
#[test]
fn testpmd_is_a_client_without_copies() {
    let Some(_turn) = turn() else { return };
    let (device, eal) = (",rsize=9,zero-copy=yes", ["--single-file-segments"]);
    both_ways(Role::Server, "client", 1, device, &eal);

    let socket = socket_path("dpdk-too-much");
    let little = Config {
        memory: 64 << 20,
        ..config(Role::Server, &socket, 1, 9)
    };
    let end = End::open(little, 2048);
    let mut testpmd = Testpmd::start("client", &socket, 1, device, &eal);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !end.port.link_state().to_string().contains("memory=") {
        let state = end.port.link_state();
        assert!(Instant::now() < deadline, "{state}\n{}", testpmd.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}
