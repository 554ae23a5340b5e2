//! What the reports of devices on ports have in common.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::typed;
use crate::data_plane::DataPlane;
use crate::devices::{Device, Kind};

/// A device whose packets are all Linux's.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeftToLinux {
    /// Interface name.
    name: String,
    /// Why.
    why: String,
}

impl LeftToLinux {
    /// The devices of a kind.
    pub(super) fn of(plane: &DataPlane, kind: Kind) -> Vec<Self> {
        let left_alone = plane.devices().left_alone().iter();
        let left_alone = left_alone.filter(|device| device.kind == kind);
        left_alone
            .map(|device| Self {
                name: device.name.clone(),
                why: device.why.clone(),
            })
            .collect()
    }
}

/// The text of a report: its table, and a line for each device of `left_to_linux`.
pub(super) fn with_left(table: String, mut json: Value) -> anyhow::Result<String> {
    let left = typed(json["left_to_linux"].take(), |left: &Vec<LeftToLinux>| {
        let left = left.iter();
        left.map(|LeftToLinux { name, why }| format!("{name}: left to Linux: {why}\n"))
            .collect()
    })?;
    Ok(table + &left)
}

/// The state of a device, as text.
pub(super) fn state(device: &Device) -> String {
    if device.settings.up { "up" } else { "down" }.into()
}
