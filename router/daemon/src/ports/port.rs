//! One port, with what the control side keeps of it.

use std::time::Instant;

use bora_contract::{MAX_QUEUES, Path, PortSettings};
use bora_fib::PortId;
use bora_linux::Refusal;
use bora_linux::interface::receive_queues;
use bora_mirror::message::Link;
use bora_port::af_xdp::Mode;
use bora_xdp::{AttachMode, Attachment, Program, XdpQuery};

use crate::ports::features::{self, Offloads};
use crate::ports::link_loss::Interruption;
use crate::ports::lost_program::ProgramWatch;
use crate::ports::totals::Totals;
use crate::ports::twin::Twin;
use crate::process::runtime_dir::RuntimeDir;

/// One port.
pub(crate) struct Port {
    pub(crate) id: PortId,
    pub(crate) name: String,
    pub(crate) ifindex: u32,
    /// The interface, or the twin.
    pub(crate) link: Link,
    pub(crate) way: Way,
    pub(crate) path: Path,
    /// Why this path.
    pub(crate) why: String,
    pub(crate) query: XdpQuery,
    /// Whether the kernel did not answer when it was last asked for that.
    pub(super) query_failed: bool,
    /// The name of its driver; empty if the driver does not give one, and for twins.
    pub(crate) driver: String,
    /// Offloads that its driver would not turn off.
    pub(crate) offloads: Offloads,
    /// Whether its driver still has the program.
    pub(crate) program_watch: ProgramWatch,
    pub(crate) settings: PortSettings,
    /// What program and twin were last told.
    pub(crate) told: Option<PortSettings>,
    /// What [`Port::wanted`] said last, before devices on it were looked at.
    pub(crate) wanted: Option<PortSettings>,
    /// `bypass_qdisc` of its section.
    pub(crate) bypass_qdisc: bool,
    /// What its interface or driver refused, in the order of trying.
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) sockets: SocketState,
    /// Whether its interface does not exist at the moment.
    pub(crate) is_gone: bool,
    /// Whether something of its interface keeps the program off it that may go away: an MTU, or somebody else's program.
    pub(crate) is_left: bool,
    /// What could not be mended while Bora ran, and when Bora last tried.
    pub(crate) trouble: Option<(String, Instant)>,
    /// What attaching the program did to its link.
    pub(crate) interruption: Interruption,
    /// What its number had counted for a removed port before.
    pub(crate) before: Totals,
}

/// How packets come and go.
pub(crate) enum Way {
    /// Through the XDP program on the interface.
    Xdp(Attachment),
    /// Through queues that Linux does not know, with a twin of the port in Linux.
    Twin(Twin),
    /// Through Linux alone: the interface takes no program.
    Linux,
    /// As another Bora has it, which forwards while this one only decides; `None`: with a twin.
    Another(Option<AttachMode>),
}

/// The AF_XDP sockets of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketState {
    /// None, because the engine does not run: express sends through the drivers.
    Unused,
    /// Opened, as far as the driver could.
    Opened {
        mode: Mode,
        count: u32,
        /// How many the interface should have had then.
        wanted: u32,
    },
    /// Closed while the engine runs: nothing is sent by the interface.
    Closed,
}

impl SocketState {
    /// How they work.
    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::Opened { mode, .. } => mode,
            Self::Unused | Self::Closed => Mode::None,
        }
    }

    /// How many there are.
    pub(crate) fn count(self) -> u32 {
        match self {
            Self::Opened { count, .. } => count,
            Self::Unused | Self::Closed => 0,
        }
    }

    /// How many there should have been when they were opened.
    pub(crate) fn wanted(self) -> u32 {
        match self {
            Self::Opened { wanted, .. } => wanted,
            Self::Unused | Self::Closed => 0,
        }
    }

    /// Whether some of them do zero-copy.
    pub(crate) fn zero_copy(self) -> bool {
        matches!(self.mode(), Mode::ZeroCopy | Mode::Mixed)
    }
}

impl Port {
    /// A port without sockets, whose path is to be chosen.
    pub(super) fn new(id: PortId, link: Link, way: Way) -> Self {
        Self {
            id,
            name: link.name.clone(),
            ifindex: link.index,
            link,
            way,
            path: Path::Kernel,
            why: String::new(),
            query: XdpQuery::default(),
            query_failed: false,
            driver: String::new(),
            offloads: Offloads::default(),
            program_watch: ProgramWatch::default(),
            told: None,
            wanted: None,
            settings: PortSettings {
                index: id.0,
                ..PortSettings::default()
            },
            bypass_qdisc: false,
            refusals: Vec::new(),
            sockets: SocketState::Unused,
            is_gone: false,
            is_left: false,
            trouble: None,
            interruption: Interruption::default(),
            before: Totals::default(),
        }
    }

    /// A port whose twin exists.
    pub(crate) fn with_twin(id: PortId, link: Link, twin: Twin) -> Self {
        Self {
            path: Path::Engine,
            why: format!("a {} port", twin.kind()),
            ..Self::new(id, link, Way::Twin(twin))
        }
    }

    /// A port that Linux has alone until what is in the way is gone.
    pub(crate) fn without_program(id: PortId, link: Link, why: String) -> Self {
        Self {
            why,
            is_left: true,
            ..Self::new(id, link, Way::Linux)
        }
    }

    /// Whether the engine can send by it.
    pub(crate) fn is_output(&self) -> bool {
        match (&self.way, self.sockets) {
            (Way::Twin(_), _) | (Way::Xdp(_) | Way::Another(_), SocketState::Unused) => true,
            (Way::Xdp(_) | Way::Another(_), SocketState::Opened { count, .. }) => count > 0,
            (Way::Xdp(_) | Way::Another(_), SocketState::Closed) | (Way::Linux, _) => false,
        }
    }

    /// Receive queues that may have sockets.
    pub(crate) fn queues(&self) -> u32 {
        match self.way {
            // by the name that it has now
            Way::Xdp(_) => receive_queues(&self.link.name).unwrap_or(self.link.rx_queues),
            Way::Twin(_) | Way::Linux | Way::Another(_) => self.link.rx_queues,
        }
    }

    /// Receive queues that should have sockets.
    pub(crate) fn wanted_queues(&self) -> u32 {
        self.queues().min(MAX_QUEUES)
    }

    /// Its twin, if it has one.
    pub(crate) fn twin(&self) -> Option<&Twin> {
        match &self.way {
            Way::Xdp(_) | Way::Linux | Way::Another(_) => None,
            Way::Twin(twin) => Some(twin),
        }
    }

    /// Whether it has a twin, be it another Bora's.
    pub(crate) fn has_twin(&self) -> bool {
        matches!(self.way, Way::Twin(_) | Way::Another(None))
    }

    /// Whether another Bora forwards by it, and this one leaves the interface as it is.
    pub(crate) fn is_anothers(&self) -> bool {
        matches!(self.way, Way::Another(_))
    }

    /// Whether the XDP program is on it.
    pub(crate) fn has_program(&self) -> bool {
        matches!(self.way, Way::Xdp(_) | Way::Another(Some(_)))
    }

    /// Its twin, if it has one.
    pub(crate) fn twin_mut(&mut self) -> Option<&mut Twin> {
        match &mut self.way {
            Way::Xdp(_) | Way::Linux | Way::Another(_) => None,
            Way::Twin(twin) => Some(twin),
        }
    }

    /// How the XDP program is attached, if it is.
    pub(crate) fn mode(&self) -> Option<AttachMode> {
        match &self.way {
            Way::Xdp(attachment) => Some(attachment.mode()),
            Way::Another(mode) => *mode,
            Way::Twin(_) | Way::Linux => None,
        }
    }

    /// Whether it has generic XDP.
    pub(crate) fn is_generic(&self) -> bool {
        self.mode() == Some(AttachMode::Generic)
    }

    /// Whether the XDP program was there before this Bora.
    pub(crate) fn taken_over(&self) -> bool {
        matches!(&self.way, Way::Xdp(attachment) if attachment.taken_over())
    }

    /// Makes the interface leave VLAN tags in the frames, or notes why it does not. To be called
    /// again and again. Linux shows generic XDP the tags, and a veth its driver XDP.
    pub(crate) fn expose_tags(&mut self, dir: &RuntimeDir) {
        if self.mode() != Some(AttachMode::Driver) || self.link.kind == "veth" {
            return;
        }
        match self.is_anothers() {
            true => self.offloads.look_for_tags(&self.link.name),
            false => self
                .offloads
                .expose_tags(&self.link.name, self.ifindex, dir),
        }
    }

    /// Attaches the program again if the driver has lost it. To be called once a second.
    pub(crate) fn reattach_if_lost(&mut self, program: &Program) {
        if let Way::Xdp(attachment) = &self.way {
            let known = (self.name.as_str(), self.driver.as_str());
            self.program_watch
                .reattach_if_lost(known, attachment, program, self.id.0);
        }
    }

    /// Takes the program, or the twin, away.
    pub(crate) fn detach(self, dir: &RuntimeDir) {
        match self.way {
            Way::Linux | Way::Another(_) => {}
            Way::Twin(twin) => twin.remove(dir),
            Way::Xdp(attachment) => {
                if let Err(error) = attachment.detach() {
                    log::warn!("{}: cannot detach: {error}", self.name);
                }
                features::restore(self.ifindex, dir);
            }
        }
    }

    /// Administratively up, and with carrier.
    pub(crate) fn is_up(&self) -> bool {
        self.link.up && self.link.carrier
    }

    /// What the FIB needs to know of it.
    pub(crate) fn info(&self) -> bora_mirror::Port {
        bora_mirror::Port {
            tunnel: None,
            peer: None,
            id: self.id,
            mac: self.settings.mac,
            mtu: self.link.mtu,
            shaped: self.settings.shaped,
        }
    }
}
