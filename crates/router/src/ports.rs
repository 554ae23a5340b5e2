//! Ports: interfaces with Bora's program on them, and others with their twins.

use std::path::PathBuf;

use anyhow::{Context, bail};
use bora_fib::PortId;
use bora_forward::{Gate, Ingress, RpFilter};
use bora_kernel::message::Link;
use bora_kernel::{Mirror, ReasonKind};
use bora_port::inject;
use bora_port::xdp::{
    AttachMode, Attachment, Path, PortSettings, Program, Survey, XdpQuery, query,
};
use bora_wire::MacAddr;

use crate::config::{PathChoice, RunConfig};
use crate::place::{Pins, Place};
use crate::tags;
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
    /// Why VLAN tags do not show in the frames it receives.
    pub(crate) hidden_tags: Option<String>,
    pub(crate) settings: PortSettings,
    /// Whether its sockets work without copies; `None` without sockets.
    pub(crate) zero_copy: Option<bool>,
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
        let attachment = Attachment::new(program.fd(), &name, ifindex, &pin, most(&link, program))?;
        let query = query(ifindex).with_context(|| format!("cannot query XDP of {name}"))?;
        let (path, why) = choose(config, attachment.mode(), query.zero_copy);
        let settings = PortSettings {
            index: id.0,
            path,
            ..PortSettings::default()
        };
        let why = why.to_string();
        Ok(Self {
            id,
            section: name.clone(),
            name,
            ifindex,
            link,
            way: Way::Xdp(attachment),
            path,
            why,
            query,
            hidden_tags: None,
            settings,
            zero_copy: None,
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
            hidden_tags: None,
            settings: PortSettings {
                index: id.0,
                path: Path::Engine,
                ..PortSettings::default()
            },
            zero_copy: None,
        }
    }

    /// Its twin, if it has one.
    pub(crate) fn twin(&self) -> Option<&Twin> {
        match &self.way {
            Way::Xdp(_) => None,
            Way::Twin(twin) => Some(twin),
        }
    }

    /// Its twin, if it has one.
    pub(crate) fn twin_mut(&mut self) -> Option<&mut Twin> {
        match &mut self.way {
            Way::Xdp(_) => None,
            Way::Twin(twin) => Some(twin),
        }
    }

    /// How the XDP program is attached, if it is.
    pub(crate) fn mode(&self) -> Option<AttachMode> {
        match &self.way {
            Way::Xdp(attachment) => Some(attachment.mode()),
            Way::Twin(_) => None,
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
            Way::Twin(twin) => twin.remove(place),
            Way::Xdp(attachment) => {
                if let Err(error) = attachment.detach() {
                    log::warn!("{}: cannot detach: {error}", self.name);
                }
                tags::restore(self.ifindex, place);
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
            can_redirect: self.query.can_redirect,
            partial_checksum: match self.twin() {
                Some(twin) => twin.leaves_checksums(),
                None => offloads_reach_us(&self.name, &self.link),
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

    /// Whether all IPv4 and all IPv6 that comes in here is Linux's business. The engine looks only
    /// at the tables local and main; express asks the kernel's rules itself. At Linux's hooks the
    /// program looks for each packet.
    fn left_to_linux(&self, mirror: &Mirror, config: &RunConfig, survey: &Survey) -> [bool; 2] {
        if self.twin().is_some() {
            return self.left_by_twin(mirror, config, survey);
        }
        let unseen = self.link.master != 0 || self.hidden_tags.is_some();
        let (guard, refused) = (mirror.guard(), mirror.refused());
        [(&guard.v4, refused[0]), (&guard.v6, refused[1])].map(|(reasons, refused)| {
            let rules = reasons.iter().any(|r| r.kind == ReasonKind::Rule);
            let engine = self.path == Path::Engine && (rules || refused > 0);
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
        let (guard, refused) = (mirror.guard(), mirror.refused());
        [
            (&guard.v4, refused[0], hooks(false)),
            (&guard.v6, refused[1], hooks(true)),
        ]
        .map(|(reasons, refused, hooks)| {
            let told = reasons.iter().any(|r| has_a_say(r.kind));
            self.link.master != 0 || refused > 0 || hooks || told
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
    if link.kind == "veth" && !program.sees_veth_tags() {
        AttachMode::Generic
    } else {
        AttachMode::Driver
    }
}

fn choose(config: &RunConfig, mode: AttachMode, zero_copy: bool) -> (Path, &'static str) {
    match (config.path, mode, zero_copy) {
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
