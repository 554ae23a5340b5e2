//! Ports: interfaces with Bora's program on them.

use std::path::PathBuf;

use anyhow::{Context, bail};
use bora_fib::PortId;
use bora_forward::{Ingress, RpFilter};
use bora_kernel::{Link, Mirror, PortInfo, sysctl};
use bora_port::inject;
use bora_port::xdp::{AttachMode, Attachment, Path, PortSettings, Program, XdpQuery, query};
use bora_wire::MacAddr;

use crate::config::{PathChoice, RunConfig};
use crate::place::Pins;

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
    pub(crate) link: Link,
    pub(crate) attachment: Attachment,
    pub(crate) path: Path,
    /// Why this path.
    pub(crate) why: String,
    pub(crate) query: XdpQuery,
    pub(crate) settings: PortSettings,
    /// Whether its sockets work without copies; `None` without sockets.
    pub(crate) zero_copy: Option<bool>,
}

/// Finds an interface and checks that it can be a port.
pub(crate) fn find(mirror: &Mirror, name: &str) -> anyhow::Result<(u32, Link)> {
    let found = mirror.links().iter().find(|(_, link)| link.name == name);
    let Some((&ifindex, link)) = found else {
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
    Ok((ifindex, link.clone()))
}

impl Port {
    /// Puts the program on an interface. It passes everything until the lease begins.
    pub(crate) fn attach(
        id: PortId,
        (ifindex, link): (u32, Link),
        program: &Program,
        pins: &Pins,
        config: &RunConfig,
    ) -> anyhow::Result<Self> {
        let name = link.name.clone();
        let pin: PathBuf = pins.link(ifindex);
        let attachment = Attachment::new(program.fd(), &name, ifindex, &pin)?;
        let query = query(ifindex).with_context(|| format!("cannot query XDP of {name}"))?;
        let choice = choose(config.path, attachment.mode(), query.zero_copy);
        let (path, why) = match choice {
            Ok(choice) => choice,
            Err(problem) => {
                let _ = attachment.detach();
                bail!("{name}: {problem}");
            }
        };
        let settings = PortSettings {
            index: id.0,
            path,
            ..PortSettings::default()
        };
        let why = why.to_string();
        Ok(Self {
            id,
            name,
            ifindex,
            link,
            attachment,
            path,
            why,
            query,
            settings,
            zero_copy: None,
        })
    }

    /// The settings as they should be now.
    pub(crate) fn wanted(&self, rules: &[Vec<String>; 2], config: &RunConfig) -> PortSettings {
        let sysctl = sysctl::interface(&self.name);
        // The engine looks only at table main; express asks the kernel's rules itself. Kernels
        // that do not show their hooks to the program keep what they may filter.
        let engine = self.path == Path::Engine;
        let blind = !hooks_visible() && !config.bypass.netfilter;
        PortSettings {
            index: self.id.0,
            path: self.path,
            rp_filter: sysctl.rp_filter,
            min_frame: if self.link.kind.is_some() {
                0
            } else {
                MIN_FRAME
            },
            mac: self.link.mac.unwrap_or_default(),
            forward4: sysctl.forwarding4,
            forward6: sysctl.forwarding6,
            can_redirect: self.query.can_redirect && self.link.up,
            partial_checksum: offloads_reach_us(&self.name, &self.link),
            kernel4: blind || engine && !rules[0].is_empty(),
            kernel6: blind || engine && !rules[1].is_empty(),
            bypass_netfilter: config.bypass.netfilter,
            send_redirects4: sysctl.send_redirects4,
        }
    }

    /// The same for the FIB.
    pub(crate) fn info(&self) -> PortInfo {
        PortInfo {
            port: self.id,
            mac: self.settings.mac,
            mtu: self.link.mtu,
            up: self.link.up,
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
        }
    }
}

fn choose(
    wish: PathChoice,
    mode: AttachMode,
    zero_copy: bool,
) -> Result<(Path, &'static str), &'static str> {
    match (wish, mode, zero_copy) {
        (PathChoice::Express, ..) => Ok((Path::Express, "asked for")),
        (PathChoice::Engine, AttachMode::Generic, _) => Err(
            "the engine needs an interface whose driver runs XDP; this one has generic XDP only. \
             Use --path express or auto",
        ),
        (PathChoice::Engine, ..) => Ok((Path::Engine, "asked for")),
        (PathChoice::Auto, AttachMode::Driver, true) => Ok((Path::Engine, "driver does zero-copy")),
        (PathChoice::Auto, ..) => Ok((Path::Express, "driver does no zero-copy")),
    }
}

/// Whether senders behind this interface may leave checksums to the receiver: virtual links and
/// the paravirtual drivers, where "the wire" is memory.
fn offloads_reach_us(name: &str, link: &Link) -> bool {
    if link.kind.is_some() {
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

/// Whether the XDP program can see the kernel's hooks by itself: Linux 6.2 and later.
fn hooks_visible() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 2)
}
