//! `[[port]]`: what to forward on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::queues::QueuesSection;
use crate::spec::PortSpec;

/// NAPI's weight.
const QUOTA: u32 = 64;

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortSection {
    /// The interface's name in Linux, or another kind of port with its options, such as
    /// `memif:/run/vpp/memif.sock,role=server`.
    pub name: String,
    /// Most packets a worker takes from one of its queues before another queue has its turn, 1 to
    /// 256; under overload shares are in proportion to the quotas (engine).
    #[serde(default = "default_quota")]
    pub quota: u32,
    /// The queues of its output (engine).
    #[serde(default, skip_serializing_if = "QueuesSection::is_default")]
    pub queues: QueuesSection,
}

fn default_quota() -> u32 {
    QUOTA
}

impl PortSection {
    /// What its name says; what is wrong is an interface that does not exist.
    pub(crate) fn spec(&self) -> PortSpec {
        let spec = self.name.parse();
        spec.unwrap_or_else(|_| PortSpec::Interface(self.name.clone()))
    }

    /// A port with the defaults.
    pub fn new(name: String) -> Self {
        Self {
            name,
            quota: QUOTA,
            queues: QueuesSection::default(),
        }
    }
}
