//! Ports by which another Bora forwards while this process only decides.

use anyhow::Context;
use bora_contract::Path;
use bora_fib::PortId;
use bora_mirror::message::Link;
use bora_xdp::{AttachMode, query};
use serde::Deserialize;

use super::port::{Port, SocketState, Way};
use super::summary::{mode_name, path_name};

/// What another Bora says of a port (`bora show ports --json`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AnothersPort {
    /// Its name.
    pub name: String,
    path: String,
    kind: String,
    xdp: String,
}

impl Port {
    /// The port of another Bora, which tries what the interface can do: this one takes that over.
    ///
    /// # Errors
    /// Its path is not known here, or the kernel does not answer.
    pub(crate) fn of_another(id: PortId, link: Link, there: &AnothersPort) -> anyhow::Result<Self> {
        let mut paths = [Path::Kernel, Path::Engine, Path::Express].into_iter();
        let path = paths.find(|&path| path_name(path) == there.path);
        let path = path.with_context(|| {
            format!(
                "port {}: this binary knows no path `{}`",
                there.name, there.path
            )
        })?;
        let mut modes = [AttachMode::Driver, AttachMode::Generic].into_iter();
        let mode = modes.find(|&mode| mode_name(Some(mode)) == there.xdp);
        let is_interface = there.kind == "interface";
        let way = match mode {
            None if is_interface => Way::Linux,
            mode => Way::Another(mode),
        };
        let query = query(link.index).with_context(|| format!("XDP of {}", there.name))?;
        Ok(Self {
            path,
            query,
            is_left: matches!(way, Way::Linux),
            // nothing is sent by a port that Linux has alone
            sockets: match path {
                Path::Kernel => SocketState::Closed,
                Path::Engine | Path::Express => SocketState::Unused,
            },
            ..Self::new(id, link, way)
        })
    }
}
