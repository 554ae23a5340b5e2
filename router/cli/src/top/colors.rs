//! One color for each way that a packet goes, as on the page.

use ratatui::style::Color;

pub(super) const RECEIVED: Color = Color::Blue;
pub(super) const SENT: Color = Color::Green;
pub(super) const LINUX: Color = Color::Yellow;
pub(super) const DROPPED: Color = Color::Red;
