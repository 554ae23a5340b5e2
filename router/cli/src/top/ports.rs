//! The ports, as a table with small charts, and with large ones.

use bora_daemon::{Now, PortNow};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Row, Sparkline, Table};

use super::colors::{DROPPED, LINUX, RECEIVED, SENT};
use super::state::State;
use super::words::{bars, si, sum};

const WIDTHS: [Constraint; 9] = [
    Constraint::Min(8),
    Constraint::Length(4),
    Constraint::Length(7),
    Constraint::Length(7),
    Constraint::Length(7),
    Constraint::Length(8),
    Constraint::Length(7),
    Constraint::Length(7),
    Constraint::Fill(2),
];
const HEADS: [&str; 9] = [
    "PORT", "LINK", "TIER", "RX/S", "TX/S", "RX BIT/S", "LINUX/S", "DROP/S", "RECEIVED",
];
/// Lines of a port with a large chart.
const LARGE: u16 = 6;

/// Columns that all of the table needs, and what there is room for in fewer: numbers of columns.
const WHOLE: u16 = 64;
const NARROW: [usize; 5] = [0, 1, 3, 4, 7];

/// A line a port.
pub(super) fn small(frame: &mut Frame, area: Rect, state: &State, now: &Now) {
    let is_shown = |column: usize| area.width >= WHOLE || NARROW.contains(&column);
    let shown = |all: Vec<Cell<'static>>| {
        let all = all.into_iter().enumerate();
        Row::new(
            all.filter(|(column, _)| is_shown(*column))
                .map(|(_, cell)| cell),
        )
    };
    let ports = state.ports(now).into_iter();
    let rows = ports.map(|port| shown(cells(port, state)));
    let widths = (0..).zip(WIDTHS).filter(|(column, _)| is_shown(*column));
    let heads = shown(HEADS.into_iter().map(Cell::from).collect());
    let table = Table::new(rows, widths.map(|(_, width)| width)).header(heads.dim());
    frame.render_widget(table.block(Block::bordered().title("Ports")), area);
}

fn cells(port: &PortNow, state: &State) -> Vec<Cell<'static>> {
    let rates = &port.rates;
    let [received, _] = state.history.get(&port.name).cloned().unwrap_or_default();
    let number = |number: u64| Cell::from(si(number));
    let bad = |number: u32, color| match number {
        0 => Cell::from("0"),
        number => Cell::from(si(number.into())).style(Style::new().fg(color).bold()),
    };
    vec![
        Cell::from(port.name.clone()).bold(),
        link(port).into(),
        Cell::from(tier(port).to_owned()),
        number(rates.rx_pps.into()).fg(RECEIVED),
        number(rates.tx_pps.into()).fg(SENT),
        number(rates.rx_bps),
        bad(rates.linux_pps, LINUX),
        bad(rates.drop_pps, DROPPED),
        Cell::from(bars(&received, 60)).fg(RECEIVED),
    ]
}

fn link(port: &PortNow) -> Span<'static> {
    match port.state.as_str() {
        "up" => "up".green(),
        other => Span::from(other.to_owned()).red().bold(),
    }
}

fn tier(port: &PortNow) -> &str {
    match port.path.as_str() {
        "kernel" => "Linux",
        other => other,
    }
}

/// A chart of ten minutes for each port that there is room for.
pub(super) fn large(frame: &mut Frame, area: Rect, state: &State, now: &Now) {
    let skipped = usize::from(state.scroll).min(now.ports.len().saturating_sub(1));
    let fit = usize::from(area.height / LARGE).max(1);
    let shown = state.ports(now).into_iter().skip(skipped).take(fit);
    let mut rest = area;
    for port in shown {
        let parts = [Constraint::Length(LARGE), Constraint::Min(0)];
        let [place, below] = Layout::vertical(parts).areas(rest);
        one(frame, place, port, state);
        rest = below;
    }
}

fn one(frame: &mut Frame, area: Rect, port: &PortNow, state: &State) {
    let title = format!("{}, {} ({})", port.name, tier(port), port.why);
    let block = Block::bordered().title(Line::from(vec![title.into(), ", ".into(), link(port)]));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let parts = [Constraint::Length(1), Constraint::Min(0)];
    let [line, charts] = Layout::vertical(parts).areas(inside);
    frame.render_widget(numbers(port), line);
    let halves = [
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Fill(1),
    ];
    let [left, _, right] = Layout::horizontal(halves).areas(charts);
    let known = state.history.get(&port.name).cloned().unwrap_or_default();
    for ((values, place), color) in known.iter().zip([left, right]).zip([RECEIVED, SENT]) {
        let means = means(values, place.width.into());
        frame.render_widget(Sparkline::default().data(means).fg(color), place);
    }
}

fn numbers(port: &PortNow) -> Line<'static> {
    let rates = &port.rates;
    let part = |name: &str, pps: u32, rest: String, color| {
        Span::from(format!("{name} {}/s {rest}  ", si(pps.into()))).fg(color)
    };
    let bits = |number: u64| format!("{}bit/s", si(number));
    Line::from(vec![
        part("received", rates.rx_pps, bits(rates.rx_bps), RECEIVED),
        part("sent", rates.tx_pps, bits(rates.tx_bps), SENT),
        part("to Linux", rates.linux_pps, si(sum(&port.passed)), LINUX),
        part("dropped", rates.drop_pps, si(sum(&port.dropped)), DROPPED),
    ])
}

/// Ten minutes as `width` means, the newest to the right.
fn means(values: &[u32], width: usize) -> Vec<u64> {
    const SECONDS: usize = 600;
    let missing = SECONDS.saturating_sub(values.len());
    let each = SECONDS.div_ceil(width.max(1));
    let all: Vec<u64> = std::iter::repeat_n(0, missing)
        .chain(values.iter().map(|&value| value.into()))
        .collect();
    let groups = all.chunks(each);
    groups
        .map(|group| group.iter().sum::<u64>() / group.len() as u64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_minutes_fit_into_any_width() {
        assert_eq!(means(&[10, 20], 60).len(), 60);
        assert_eq!(means(&[10, 20], 60)[59], 3);
        assert_eq!(means(&[7; 600], 1), [7]);
        assert!(means(&[1; 600], 77).len() <= 77);
    }
}
