//! Ports: interfaces with Bora's program on them, and others with their twins.

use std::iter;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use bora_fib::PortId;
use bora_forward::{Gate, Ingress, RpFilter};
use bora_kernel::message::Link;
use bora_kernel::{Mirror, ReasonKind};
use bora_port::af_xdp::{Mode, Opened};
use bora_port::interface::{self, Interface, receive_queues};
use bora_port::xdp::{
    AttachError, AttachMode, Attachment, Path, PortSettings, Program, Survey, XdpQuery, query,
};
use bora_port::{Refusal, inject};
use bora_wire::MacAddr;

use crate::config::{PathChoice, RunConfig};
use crate::engine::wanted_queues;
use crate::follow::Interruption;
use crate::forgetful::Looks;
use crate::offloads;
use crate::place::{Pins, Place};
use crate::totals::Totals;
use crate::twin::Twin;

/// Ethernet header and one VLAN tag.
const ETHERNET: u32 = 18;
/// Shortest Ethernet frame without FCS.
const MIN_FRAME: u16 = 60;
/// Largest MTU of a port, in octets.
pub(crate) const MAX_MTU: u32 = inject::MAX_FRAME as u32 - ETHERNET;

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
    /// Its driver's name; empty if it does not tell, and for twins.
    pub(crate) driver: String,
    /// Why VLAN tags do not show in the frames it receives.
    pub(crate) hidden_tags: Option<String>,
    /// Why Linux goes on taking the card's hash of flows.
    pub(crate) foreign_hash: Option<String>,
    /// Whether the driver still has the program.
    pub(crate) looks: Looks,
    pub(crate) settings: PortSettings,
    /// What its interface or driver would not do, in the order of trying.
    pub(crate) refusals: Vec<Refusal>,
    /// How its sockets work.
    pub(crate) af_xdp: Mode,
    /// How many it has.
    pub(crate) sockets: u32,
    /// How many it should have had when they were opened.
    pub(crate) opened_for: u32,
    /// Whether the engine can send by it.
    pub(crate) is_output: bool,
    /// Whether its interface is not there at the moment.
    pub(crate) is_gone: bool,
    /// What could not be mended while Bora ran, and when it was tried last.
    pub(crate) trouble: Option<(String, Instant)>,
    /// While its link may be interrupted by attaching the program,
    pub(crate) interruption: Option<Interruption>,
    /// and what there is to say of it then.
    pub(crate) interrupted: Option<String>,
    /// What its number had counted for a removed port before.
    pub(crate) before: Totals,
    /// What the configuration calls it.
    pub(crate) section: String,
}

/// How packets come and go.
pub(crate) enum Way {
    /// Through the XDP program on the interface.
    Xdp(Attachment),
    /// Past Linux, which has a twin of the port.
    Twin(Twin),
    /// Through Linux alone: the interface takes no program.
    Linux,
}

/// Finds an interface and checks that it can be a port.
pub(crate) fn find(mirror: &Mirror, name: &str) -> anyhow::Result<Link> {
    let found = mirror.links().values().find(|link| link.name == name);
    let Some(link) = found else {
        let mut names: Vec<&str> = mirror
            .links()
            .values()
            .map(|link| link.name.as_str())
            .collect();
        names.sort_unstable();
        bail!(
            "interface {name} does not exist here (there are: {})",
            names.join(", ")
        );
    };
    if link.mac.is_none() || link.name == "lo" {
        bail!("interface {name} is not an Ethernet interface");
    }
    if link.mtu > MAX_MTU {
        bail!(
            "MTU {} of {name} is more than the {MAX_MTU} octets a packet buffer holds; lower it \
             with `ip link set dev {name} mtu {MAX_MTU}`",
            link.mtu
        );
    }
    Ok(link.clone())
}

impl Port {
    /// Puts the program on an interface. It passes everything until the lease begins.
    pub(crate) fn attach(
        id: PortId,
        link: Link,
        program: &Program,
        pins: &Pins,
        config: &RunConfig,
    ) -> anyhow::Result<Self> {
        let (name, ifindex) = (link.name.clone(), link.index);
        let pin: PathBuf = pins.link(ifindex);
        let driver = Interface::named(&name).map(|found| found.driver);
        let driver = driver.unwrap_or_default();
        let interruption = announce(&link, &driver, &pin);
        let attached = Attachment::new(program.fd(), &name, ifindex, &pin, most(&link, program));
        let query = query(ifindex).with_context(|| format!("cannot query XDP of {name}"))?;
        let (way, path, why, refusals) = match attached {
            Ok(attachment) => {
                let (path, why) = choose(config, attachment.mode(), &query);
                let refusals = attachment.refusal().cloned().into_iter().collect();
                (Way::Xdp(attachment), path, why, refusals)
            }
            // the others can do without this one
            Err(AttachError::System { source, .. }) if config.path == PathChoice::Auto => {
                let refusal = Refusal::new("XDP", source.to_string());
                (Way::Linux, Path::Kernel, "no XDP at all", vec![refusal])
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            id,
            section: name.clone(),
            name,
            ifindex,
            link,
            is_output: matches!(way, Way::Xdp(_)),
            way,
            path,
            why: why.into(),
            query,
            driver,
            hidden_tags: None,
            foreign_hash: None,
            looks: Looks::default(),
            settings: PortSettings {
                index: id.0,
                path,
                ..PortSettings::default()
            },
            refusals,
            af_xdp: Mode::None,
            sockets: 0,
            opened_for: 0,
            is_gone: false,
            trouble: None,
            interruption,
            interrupted: None,
            before: Totals::default(),
        })
    }

    /// A port whose twin is there.
    pub(crate) fn with_twin(id: PortId, link: Link, twin: Twin, section: String) -> Self {
        Self {
            id,
            section,
            before: Totals::default(),
            name: link.name.clone(),
            ifindex: link.index,
            link,
            path: Path::Engine,
            why: format!("a {} port", twin.kind()),
            way: Way::Twin(twin),
            query: XdpQuery::default(),
            driver: String::new(),
            hidden_tags: None,
            foreign_hash: None,
            looks: Looks::default(),
            settings: PortSettings {
                index: id.0,
                path: Path::Engine,
                ..PortSettings::default()
            },
            refusals: Vec::new(),
            af_xdp: Mode::None,
            sockets: 0,
            opened_for: 0,
            is_output: true,
            is_gone: false,
            trouble: None,
            interruption: None,
            interrupted: None,
        }
    }

    /// Takes note of the sockets that could be opened, and another path if this one needs more.
    ///
    /// # Errors
    /// The engine was asked for and cannot have the port.
    pub(crate) fn settle(&mut self, opened: &Opened, config: &RunConfig) -> anyhow::Result<()> {
        self.af_xdp = opened.mode();
        self.sockets = opened.sockets.len() as u32;
        self.opened_for = wanted_queues(self);
        self.is_output = self.sockets > 0;
        self.refusals.extend(opened.refusals.iter().cloned());
        let zero_copy = matches!(self.af_xdp, Mode::ZeroCopy | Mode::Mixed);
        let wants_zero_copy = config.path == PathChoice::Auto && !config.needs_engine;
        if self.path == Path::Engine && (self.sockets == 0 || wants_zero_copy && !zero_copy) {
            return self.leave_engine(config);
        }
        Ok(())
    }

    /// Chooses the path to try as at the start.
    pub(crate) fn choose_again(&mut self, config: &RunConfig) {
        if let Some(mode) = self.mode() {
            let (path, why) = choose(config, mode, &self.query);
            (self.path, self.why) = (path, why.into());
        }
    }

    /// Takes the path that comes after the engine.
    ///
    /// # Errors
    /// The engine was asked for.
    pub(crate) fn leave_engine(&mut self, config: &RunConfig) -> anyhow::Result<()> {
        let (path, why) = match config.path {
            PathChoice::Engine => {
                let refusals: Vec<_> = self.refusals.iter().map(Refusal::to_string).collect();
                bail!(
                    "the engine cannot have {}: {}",
                    self.name,
                    refusals.join("; ")
                )
            }
            _ if config.needs_engine => (
                Path::Kernel,
                "something is configured that only the engine does, and it cannot have the port",
            ),
            _ => (Path::Express, "zero-copy does not work"),
        };
        (self.path, self.why) = (path, why.into());
        self.settings.path = path;
        Ok(())
    }

    /// Its sockets are closed and nobody needs them.
    pub(crate) fn forget_sockets(&mut self) {
        (self.af_xdp, self.sockets, self.is_output) = (Mode::None, 0, self.has_program());
    }

    /// Receive queues that may have sockets.
    pub(crate) fn queues(&self) -> u32 {
        match self.way {
            Way::Xdp(_) => receive_queues(&self.name).unwrap_or(self.link.rx_queues),
            Way::Twin(_) | Way::Linux => self.link.rx_queues,
        }
    }

    /// How packets come and go, why so, and what an operator should know: the first line names the path.
    pub(crate) fn summary(&self) -> Vec<String> {
        let taken_over = if self.taken_over() {
            ", taken over"
        } else {
            ""
        };
        let (path, why) = (path_name(self.path), &self.why);
        let first = match self.twin() {
            Some(twin) => format!("{path}, {}", twin.state()),
            None => format!("{path} ({why}), {} XDP{taken_over}", mode_name(self.mode())),
        };
        let refusals = self.refusals.iter().map(Refusal::to_string);
        iter::once(first)
            .chain(refusals)
            .chain(self.notices())
            .collect()
    }

    /// What an operator should know of it.
    pub(crate) fn notices(&self) -> Vec<String> {
        let trouble = self.trouble.iter().map(|(text, _)| text);
        let first = self.interrupted.iter().chain(trouble);
        let mut notices: Vec<_> = first.chain(&self.foreign_hash).cloned().collect();
        let (queues, name) = (receive_queues(&self.name).unwrap_or(0), &self.name);
        if self.sockets > 0 && self.sockets < queues {
            notices.push(format!(
                "{} of its {queues} receive queues have sockets; packets on the others are \
                 Linux's (`no_socket`). To have fewer queues: `ethtool -L {name} combined {}` (or \
                 `rx`)",
                self.sockets, self.sockets
            ));
        }
        notices
    }

    /// The same, as far as that is known.
    pub(crate) fn queues_in_use(&self) -> u32 {
        match receive_queues(&self.name) {
            None if self.sockets > 0 => self.sockets,
            told => told.unwrap_or(self.link.rx_queues),
        }
    }

    /// Its twin, if it has one.
    pub(crate) fn twin(&self) -> Option<&Twin> {
        match &self.way {
            Way::Xdp(_) | Way::Linux => None,
            Way::Twin(twin) => Some(twin),
        }
    }

    /// Whether the XDP program is on it.
    pub(crate) fn has_program(&self) -> bool {
        matches!(self.way, Way::Xdp(_))
    }

    /// Its twin, if it has one.
    pub(crate) fn twin_mut(&mut self) -> Option<&mut Twin> {
        match &mut self.way {
            Way::Xdp(_) | Way::Linux => None,
            Way::Twin(twin) => Some(twin),
        }
    }

    /// How the XDP program is attached, if it is.
    pub(crate) fn mode(&self) -> Option<AttachMode> {
        match &self.way {
            Way::Xdp(attachment) => Some(attachment.mode()),
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

    /// Takes the program, or the twin, away.
    pub(crate) fn detach(self, place: &Place) {
        match self.way {
            Way::Linux => {}
            Way::Twin(twin) => twin.remove(place),
            Way::Xdp(attachment) => {
                if let Err(error) = attachment.detach() {
                    log::warn!("{}: cannot detach: {error}", self.name);
                }
                offloads::restore(self.ifindex, place);
            }
        }
    }

    /// The settings as they should be now.
    pub(crate) fn wanted(
        &self,
        mirror: &Mirror,
        config: &RunConfig,
        survey: &Survey,
    ) -> PortSettings {
        let sysctl = mirror.settings().interfaces.get(&self.ifindex);
        let sysctl = sysctl.copied().unwrap_or_default();
        let kernel = self.left_to_linux(mirror, config, survey);
        PortSettings {
            index: self.id.0,
            path: self.path,
            rp_filter: sysctl.rp_filter,
            min_frame: if self.link.kind.is_empty() {
                MIN_FRAME
            } else {
                0
            },
            mac: self.link.mac.unwrap_or_default(),
            forward4: sysctl.forwarding4,
            forward6: sysctl.forwarding6,
            can_redirect: self.takes_frames(survey),
            partial_checksum: match self.twin() {
                Some(twin) => twin.leaves_checksums(),
                None => self.is_generic() || offloads_reach_us(&self.name, &self.link),
            },
            kernel4: kernel[0],
            kernel6: kernel[1],
            bypass_netfilter: config.bypass.netfilter,
            send_redirects4: sysctl.send_redirects4,
            generic: self.is_generic(),
            up: self.is_up(),
            veth: self.link.kind == "veth",
            vlan: self.link.kind == "vlan",
        }
    }

    /// Whether its driver takes frames that XDP programs redirect.
    fn takes_frames(&self, survey: &Survey) -> bool {
        let seen = survey.ports.get(usize::from(self.id.0));
        if self.query.tells {
            self.query.can_redirect
        } else {
            seen.is_some_and(|device| device.takes_frames)
        }
    }

    /// Whether all IPv4 and all IPv6 that comes in here is Linux's business. The engine looks only
    /// at the tables local and main; express asks the kernel's rules itself. At Linux's hooks the
    /// program looks for each packet.
    fn left_to_linux(&self, mirror: &Mirror, config: &RunConfig, survey: &Survey) -> [bool; 2] {
        if self.twin().is_some() {
            return self.left_by_twin(mirror, config, survey);
        }
        let unseen = self.link.master != 0 || self.hidden_tags.is_some();
        let (guard, lacks) = (mirror.guard(), engine_lacks(mirror));
        [(&guard.v4, lacks[0]), (&guard.v6, lacks[1])].map(|(reasons, lacks)| {
            let rules = reasons.iter().any(|r| r.kind == ReasonKind::Rule);
            let engine = self.path == Path::Engine && (rules || lacks);
            unseen || engine
        })
    }

    /// The same where no program looks at Linux's hooks for each packet.
    fn left_by_twin(&self, mirror: &Mirror, config: &RunConfig, survey: &Survey) -> [bool; 2] {
        let obeyed = !config.bypass.netfilter;
        let has_a_say = |kind| match kind {
            ReasonKind::Rule | ReasonKind::Master => true,
            ReasonKind::Netfilter | ReasonKind::Xfrm => obeyed,
            ReasonKind::Tc => false, // the survey sees more
        };
        let own = survey.ports.get(usize::from(self.id.0)).copied();
        let ingress = own.is_some_and(|own| own.tc_ingress || own.nf_ingress);
        let hooks = |v6| obeyed && (ingress || survey.egress() || survey.holds(v6));
        let (guard, lacks) = (mirror.guard(), engine_lacks(mirror));
        [
            (&guard.v4, lacks[0], hooks(false)),
            (&guard.v6, lacks[1], hooks(true)),
        ]
        .map(|(reasons, lacks, hooks)| {
            let told = reasons.iter().any(|r| has_a_say(r.kind));
            self.link.master != 0 || lacks || hooks || told
        })
    }

    /// Administratively up, and with carrier.
    pub(crate) fn is_up(&self) -> bool {
        self.link.up && self.link.carrier
    }

    /// The same for the FIB.
    pub(crate) fn info(&self) -> bora_kernel::Port {
        bora_kernel::Port {
            id: self.id,
            mac: self.settings.mac,
            mtu: self.link.mtu,
        }
    }

    /// The same for the workers.
    pub(crate) fn ingress(&self) -> Ingress {
        Ingress {
            port: self.id,
            mac: MacAddr(self.settings.mac),
            forward4: self.settings.forward4,
            forward6: self.settings.forward6,
            rp_filter: match self.settings.rp_filter {
                0 => RpFilter::Off,
                1 => RpFilter::Strict,
                _ => RpFilter::Loose,
            },
            partial_checksum: self.settings.partial_checksum,
            send_redirects4: self.settings.send_redirects4,
            gate: self.twin().map(|_| Gate {
                up: self.link.up,
                kernel4: self.settings.kernel4,
                kernel6: self.settings.kernel6,
            }),
        }
    }
}

/// How the program may be attached: a veth's VLAN tags do not show in the driver of each kernel.
fn most(link: &Link, program: &Program) -> AttachMode {
    if link.kind == "veth" && !program.sees_veth_buffers() {
        AttachMode::Generic
    } else {
        AttachMode::Driver
    }
}

/// Drivers that take the link away when the first XDP program comes and when the last one goes, by
/// their code (Linux 7.3): they close and open the device, or reset it.
const INTERRUPTING: [&str; 9] = [
    "bnxt_en",
    "i40e",
    "ice",
    "igb",
    "ixgbe",
    "ixgbevf",
    "mlx5_core",
    "mvneta",
    "stmmac",
];

/// Whether attaching a program takes the link of this driver's cards away for a while.
pub(crate) fn interrupts(driver: &str) -> bool {
    INTERRUPTING.contains(&driver)
}

/// Says before it happens that attaching may interrupt a link; what to watch then.
fn announce(link: &Link, driver: &str, pin: &std::path::Path) -> Option<Interruption> {
    let name = &link.name;
    if !link.up || Attachment::open(pin, link.index).is_some() {
        return None;
    }
    let changes = interface::carrier_changes(name)?;
    if interrupts(driver) {
        log::warn!(
            "attaching to {name} may interrupt its link, some cards' for seconds (driver {driver}); \
             later starts and stops will not"
        );
    }
    Some(Interruption {
        since: Instant::now(),
        changes,
    })
}

/// Whether the engine cannot do what Linux does with a family: the FIB has no room for its prefixes,
/// or it is not known how Linux chooses among paths.
fn engine_lacks(mirror: &Mirror) -> [bool; 2] {
    let (refused, unhashed) = (mirror.refused(), mirror.unhashed());
    [0, 1].map(|family: usize| refused[family] > 0 || unhashed[family])
}

/// The path to try first; [`Port::settle`] has the last word.
fn choose(config: &RunConfig, mode: AttachMode, query: &XdpQuery) -> (Path, &'static str) {
    // kernels that do not tell are asked by opening sockets
    match (config.path, mode, query.zero_copy || !query.tells) {
        (PathChoice::Express, ..) => (Path::Express, "asked for"),
        (PathChoice::Engine, ..) => (Path::Engine, "asked for"),
        (PathChoice::Auto, ..) if config.needs_engine => (
            Path::Engine,
            "something is configured that only the engine does",
        ),
        (PathChoice::Auto, AttachMode::Driver, true) => (Path::Engine, "driver does zero-copy"),
        (PathChoice::Auto, ..) => (Path::Express, "driver does no zero-copy"),
    }
}

/// Whether senders behind this interface may leave checksums to the receiver: virtual links and
/// the paravirtual drivers, where "the wire" is memory.
fn offloads_reach_us(name: &str, link: &Link) -> bool {
    if !link.kind.is_empty() {
        return true;
    }
    let driver = std::fs::read_link(format!("/sys/class/net/{name}/device/driver"));
    let driver = driver
        .ok()
        .and_then(|path| path.file_name().map(ToOwned::to_owned));
    driver.is_none_or(|driver| {
        ["virtio_net", "xen_netfront", "hv_netvsc", "vmxnet3"]
            .iter()
            .any(|paravirtual| driver == *paravirtual)
    })
}

pub(crate) fn path_name(path: Path) -> &'static str {
    match path {
        Path::Kernel => "kernel",
        Path::Engine => "engine",
        Path::Express => "express",
    }
}

pub(crate) fn mode_name(mode: Option<AttachMode>) -> &'static str {
    match mode {
        Some(AttachMode::Driver) => "driver",
        Some(AttachMode::Generic) => "generic",
        None => "-",
    }
}
