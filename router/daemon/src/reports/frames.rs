//! Where the frames of the packet memory are.

use super::table::table;
use super::{Report, answer, typed};
use crate::engine::FramesReport;

pub(super) const REPORT: Report = Report::new(
    "frames",
    "Where all packet buffers (frames) are",
    |router, _| {
        let plane = &router.plane;
        answer(plane.engine().map(|engine| engine.frames(plane.ports())))
    },
    |json, _| typed(json, text),
);

fn text(report: &Option<FramesReport>) -> String {
    let Some(report) = report else {
        return "no packet memory: every port takes the express path".into();
    };
    let row = |place: &str, frames: u64| vec![place.to_string(), frames.to_string()];
    let mut rows = vec![
        row("reserve", report.reserve),
        row("workers' pools", report.pools),
    ];
    let rings = report.rings.iter();
    rows.extend(rings.map(|(port, &frames)| row(&format!("rings of {port}"), frames)));
    rows.extend([
        row("held by workers", report.held),
        row("on the way to Linux", report.to_linux),
        row("of closed sockets", report.closing),
        row("all", report.total),
    ]);
    table(&["PLACE", "FRAMES"], &rows) + &format!("{} octets each\n", report.octets)
}
