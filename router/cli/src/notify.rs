//! Tells systemd how Bora is (sd_notify(3)), if it is systemd that has started it.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use bora_daemon::{Caller, Router};
use bora_terminal::remark;

/// Signs of life in the time after which systemd believes that Bora is stuck.
const BEATS: u32 = 4;
/// Without a watchdog, how often the state that `systemctl status` shows is renewed.
const RENEWAL: Duration = Duration::from_secs(15);

/// What systemd listens on.
#[derive(Clone)]
pub(crate) struct Supervisor(Arc<UnixDatagram>);

impl Supervisor {
    /// `None` if nobody wants to be told.
    pub(crate) fn here() -> Option<Self> {
        let name = env::var("NOTIFY_SOCKET").ok()?;
        match connect(&name) {
            Ok(socket) => Some(Self(Arc::new(socket))),
            Err(error) => {
                remark(format_args!(
                    "cannot tell the supervisor at {name}: {error}"
                ));
                None
            }
        }
    }

    /// Bora forwards. From now on a thread asks the control loop how the ports are, and tells it. That is the sign of
    /// life: if the loop does not answer there is none.
    pub(crate) fn ready(&self, calls: Caller<Router>) -> io::Result<()> {
        let period = watchdog().map_or(RENEWAL, |patience| patience / BEATS);
        let supervisor = self.clone();
        let work = move || {
            bora_confine::thread(bora_confine::NONE);
            let mut first = "READY=1\n";
            while let Some(ports) = calls.summary() {
                supervisor.say(&format!("{first}WATCHDOG=1\nSTATUS={}", ports.join("; ")));
                first = "";
                std::thread::sleep(period);
            }
        };
        std::thread::Builder::new()
            .name("bora-notify".into())
            .spawn(work)?;
        Ok(())
    }

    /// Bora ends by itself.
    pub(crate) fn stopping(&self) {
        self.say("STOPPING=1\nSTATUS=stopping; Linux forwards");
    }

    fn say(&self, state: &str) {
        if let Err(error) = self.0.send(state.as_bytes()) {
            remark(format_args!("cannot tell the supervisor: {error}"));
        }
    }
}

fn connect(name: &str) -> io::Result<UnixDatagram> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// After which time without a sign of life systemd restarts this process, if it does.
fn watchdog() -> Option<Duration> {
    let number = |name| env::var(name).ok()?.parse::<u64>().ok();
    if number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(process::id())) {
        return None;
    }
    number("WATCHDOG_USEC").map(Duration::from_micros)
}
