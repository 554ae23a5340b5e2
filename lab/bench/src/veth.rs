//! What forwards between the veth pairs of a lab: Linux, Bora, or another program.

use std::path::Path;

use anyhow::Context;
use bora_linux::netns;
use bora_network::{Daemon, HOST_PORT, Network, Subject};
use bora_worker::QUOTA;

use crate::engine::testpmd::{self, Device, Options, Testpmd};

/// CPU of the router, as in a lab.
const CORE: usize = 1;

/// A way to forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarder<'a> {
    /// Linux or Bora.
    Lab(Subject),
    /// DPDK's testpmd over AF_XDP: it writes Ethernet addresses and sends from port to port, without
    /// look-up, TTL or checks. With the folder of a system that has it, if that is not this one.
    Testpmd(Option<&'a Path>),
    /// xdp-forward of xdp-tools: the command, to which `load`, these options and the interfaces are added.
    /// Without options it looks routes up as the kernel does (`fib`, `full`).
    XdpForward(&'a [&'a str], &'a [&'a str]),
}

/// A running one.
pub enum Running<'a> {
    /// Linux needs nothing.
    Linux,
    /// Bora.
    Bora(Daemon),
    /// testpmd.
    Testpmd(Testpmd),
    /// Programs that this xdp-forward has loaded.
    XdpForward(&'a [&'a str]),
}

impl<'a> Forwarder<'a> {
    /// Linux and Bora's tiers, and testpmd where it is installed.
    pub fn all() -> Vec<Self> {
        let lab = [Subject::Kernel, Subject::Express, Subject::Engine].map(Self::Lab);
        let testpmd = testpmd::is_there().then_some(Self::Testpmd(None));
        lab.into_iter().chain(testpmd).collect()
    }

    /// Its name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Lab(subject) => subject.name(),
            Self::Testpmd(_) => "testpmd, AF_XDP",
            Self::XdpForward(..) => "xdp-forward",
        }
    }

    /// Starts it on the first `ports` interfaces, with options of `bora run`.
    ///
    /// # Errors
    /// It does not start, or needs all interfaces.
    pub fn start(
        self,
        network: &Network,
        ports: usize,
        options: &[&str],
    ) -> anyhow::Result<Running<'a>> {
        match self {
            Self::Lab(Subject::Kernel) => Ok(Running::Linux),
            Self::Lab(subject) => {
                let daemon = network.start_on(ports, subject.name(), options)?;
                Ok(Running::Bora(daemon))
            }
            Self::Testpmd(root) => {
                let start = |interfaces: &[String]| start_testpmd(network, root, interfaces);
                Ok(Running::Testpmd(network.start_other(start)?))
            }
            Self::XdpForward(command, options) => {
                xdp_forward(network, command, &[&["load"], options].concat())?;
                Ok(Running::XdpForward(command))
            }
        }
    }
}

impl Running<'_> {
    /// Stops it; Linux has the interfaces again.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn stop(self, network: &Network) -> anyhow::Result<()> {
        match self {
            Self::Linux => Ok(()),
            Self::Bora(daemon) => network.stop(daemon),
            Self::Testpmd(testpmd) => {
                drop(testpmd);
                network.restore()
            }
            Self::XdpForward(command) => {
                xdp_forward(network, command, &["unload"])?;
                network.restore()
            }
        }
    }
}

fn start_testpmd(
    network: &Network,
    root: Option<&Path>,
    interfaces: &[String],
) -> anyhow::Result<Testpmd> {
    let interfaces: Vec<&str> = interfaces.iter().map(String::as_str).collect();
    let receiver = network.hosts().last().context("a host")?.mac(HOST_PORT)?;
    let receiver = format!("--eth-peer=1,{}", bora_wire::MacAddr(receiver));
    Testpmd::start(Options {
        name: "veth",
        root,
        core: CORE,
        device: Device::AfXdp(network.router().name(), &interfaces),
        log2_ring_size: 11, // as Bora's
        mode: "mac",
        burst: QUOTA,
        huge: false,
        more: &[&receiver],
    })
}

/// Loads or unloads xdp-forward's program.
fn xdp_forward(network: &Network, command: &[&str], what: &[&str]) -> anyhow::Result<()> {
    let (program, arguments) = command.split_first().context("no command")?;
    network.start_other(|interfaces| {
        let mut command = network.router().command(program);
        command.args(arguments).args(what).args(interfaces);
        netns::output(&mut command).context("xdp-forward")
    })?;
    Ok(())
}
