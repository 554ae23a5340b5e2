//! The panels but those of the ports.

use bora_daemon::{Event, FlowNow, Now, Severity};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table, Wrap};

use super::colors::{DROPPED, LINUX, SENT};
use super::state::State;
use super::words::{clock, duration, si, sum};

/// Where every packet went: a bar of the last second, or of all time if nothing comes, and the sum.
pub(super) fn went(frame: &mut Frame, area: Rect, now: &Now) {
    let idle = now.rate.received == 0;
    let (of, when) = match idle {
        true => (&now.total, "since the start"),
        false => (&now.rate, "in the last second"),
    };
    let parts = [
        (of.sent, SENT),
        (sum(&of.passed), LINUX),
        (sum(&of.dropped), DROPPED),
    ];
    let width = usize::from(area.width.saturating_sub(2));
    let exact = balance(now, |count| count.to_string());
    let text = match exact.chars().count() <= width {
        true => exact,
        false => balance(now, si),
    };
    let lines = vec![bar(&parts, width), Line::from(text)];
    let title = format!("Where every packet went, {when}");
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(title)),
        area,
    );
}

/// The sum of all packets since the start.
fn balance(now: &Now, say: impl Fn(u64) -> String) -> String {
    let total = &now.total;
    format!(
        "since the start: of {} came {} out, {} to Linux, {} dropped, {} held",
        say(total.received),
        say(total.sent),
        say(sum(&total.passed)),
        say(sum(&total.dropped)),
        total.held
    )
}

/// Parts of a line, each as wide as its share, and never nothing.
fn bar(parts: &[(u64, Color)], width: usize) -> Line<'static> {
    let all: u64 = parts.iter().map(|(count, _)| count).sum();
    let spans = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|&(count, color)| {
            let share = count as f64 / all as f64 * width as f64;
            Span::styled(
                "█".repeat((share.round() as usize).max(1)),
                Style::new().fg(color),
            )
        });
    Line::from(spans.collect::<Vec<_>>())
}

/// Drops first, then what went to Linux; each with what to do.
pub(super) fn reasons(frame: &mut Frame, area: Rect, state: &State, now: &Now) {
    let (rate, total) = (&now.rate, &now.total);
    let dropped = listed(state, &rate.dropped, &total.dropped, "dropped", DROPPED);
    let passed = listed(state, &rate.passed, &total.passed, "to Linux", LINUX);
    let mut lines: Vec<Line> = dropped.into_iter().chain(passed).collect();
    if lines.is_empty() {
        lines.push(
            "nothing was dropped or left to Linux since the start"
                .dim()
                .into(),
        );
    }
    let block = Block::bordered().title("Dropped and left to Linux, and what to do");
    let scroll = (state.scroll, 0);
    frame.render_widget(
        Paragraph::new(lines)
            .block(block)
            .wrap(Wrap { trim: true })
            .scroll(scroll),
        area,
    );
}

fn listed(
    state: &State,
    rates: &bora_daemon::ByReason,
    totals: &bora_daemon::ByReason,
    what: &str,
    color: Color,
) -> Vec<Line<'static>> {
    let rate = |name: &str| rates.get(name).copied().unwrap_or(0);
    let mut all: Vec<(&String, &u64)> = totals.iter().collect();
    all.sort_by_key(|(name, total)| std::cmp::Reverse((rate(name), **total)));
    let line = |(name, total): (&String, &u64)| {
        let cure = state.reasons.get(name).map(|reason| reason.cure.clone());
        Line::from(vec![
            Span::from(format!("{name} ")).fg(color).bold(),
            Span::from(format!(
                "{what} {}/s, {} in all: ",
                si(rate(name)),
                si(*total)
            )),
            Span::from(cure.unwrap_or_default()).dim(),
        ])
    };
    all.into_iter().map(line).collect()
}

/// Whether Bora agrees with Linux, and what the guard holds back.
pub(super) fn linux(frame: &mut Frame, area: Rect, now: &Now) {
    let sync = &now.sync;
    let state = match (sync.stuck.as_slice(), sync.in_sync) {
        ([], true) => "in agreement".green(),
        ([], false) => "not in agreement".red().bold(),
        (stuck, _) => Span::from(format!("{} stuck, Linux forwards", stuck.join(", ")))
            .red()
            .bold(),
    };
    let rest = format!(
        " for {}; {} IPv4 and {} IPv6 routes, {} neighbours, {} events/s",
        duration(sync.since),
        sync.routes[0],
        sync.routes[1],
        sync.neighbours,
        sync.events_per_second
    );
    let mut lines = vec![Line::from(vec![state, rest.into()])];
    lines.extend(now.confirm_seconds.map(|seconds| {
        let text =
            format!("a changed configuration waits for `bora confirm`: taken back in {seconds} s");
        Line::from(text.yellow())
    }));
    if sync.stuck_times > 0 {
        let text = format!(
            "threads were stuck {} times since the start: read the log",
            sync.stuck_times
        );
        lines.push(text.yellow().into());
    }
    lines.extend(guard_lines(now));
    let block = Block::bordered().title("Linux and the guard");
    let text = Paragraph::new(lines).wrap(Wrap { trim: true });
    frame.render_widget(text.block(block), area);
}

pub(super) fn guard_lines(now: &Now) -> Vec<Line<'static>> {
    let lines = now.guard.lines.iter();
    let lines: Vec<Line> = lines
        .map(|line| Line::from(vec!["held back: ".yellow(), line.clone().into()]))
        .collect();
    match lines.is_empty() {
        true => vec!["nothing holds traffic back".dim().into()],
        false => lines,
    }
}

pub(super) fn workers(frame: &mut Frame, area: Rect, now: &Now) {
    let rows = now.workers.iter().map(|worker| {
        let core = worker.core.map_or("any".into(), |core| core.to_string());
        let busy = format!("{:.0} %", 100.0 * worker.busy);
        let numbers = [
            worker.pps,
            worker.sleeps,
            worker.held,
            worker.pool_exhausted,
        ]
        .map(si);
        let [pps, sleeps, held, exhausted] = numbers;
        let mode = worker.mode.clone();
        Row::new([
            worker.index.to_string(),
            core,
            busy,
            pps,
            sleeps,
            held,
            exhausted,
            mode,
        ])
    });
    let heads = [
        "WORKER",
        "CPU",
        "BUSY",
        "PACKETS/S",
        "SLEEPS/S",
        "HELD",
        "NO FRAME",
        "MODE",
    ];
    let none = "no workers: every port takes the express path";
    table(frame, area, ("Workers", none), heads, rows.collect());
}

pub(super) fn queues(frame: &mut Frame, area: Rect, now: &Now) {
    let rows = now.queues.iter().map(|queue| {
        let class = queue.class.to_string();
        let [held, sent, dropped] = [queue.held, queue.sent_pps, queue.drop_pps].map(si);
        Row::new([queue.port.clone(), class, held, sent, dropped])
    });
    let heads = ["PORT", "CLASS", "WAITING", "SENT/S", "DROPPED/S"];
    table(
        frame,
        area,
        ("Queues", "no queues: they are the engine's"),
        heads,
        rows.collect(),
    );
}

pub(super) fn fib(frame: &mut Frame, area: Rect, now: &Now) {
    let fib = &now.fib;
    let row = |index: usize, name: &'static str| {
        Row::new([
            name.to_string(),
            fib.prefixes[index].to_string(),
            fib.missing[index].to_string(),
            format!(
                "{}B of {}B",
                si(fib.node_bytes[index] as u64),
                si(fib.max_bytes[index] as u64)
            ),
            fib.updates_per_second[index].to_string(),
        ])
    };
    let heads = ["FIB", "PREFIXES", "NO ROOM", "NODES", "CHANGES/S"];
    table(
        frame,
        area,
        ("Forwarding table", ""),
        heads,
        vec![row(0, "IPv4"), row(1, "IPv6")],
    );
}

/// What there is to say of flows while packets are sampled.
const NO_FLOWS: &str = "no flow in the last seconds";

pub(super) fn flows(frame: &mut Frame, area: Rect, now: &Now) {
    let way = |flow: &FlowNow| format!("{} → {}", flow.input, flow.output);
    let longest = now.flows.iter().map(|flow| way(flow).chars().count()).max();
    let rows = now.flows.iter().map(|flow| {
        let [pps, bps] = [flow.pps, flow.bps].map(si);
        let (source, destination) = (flow.source.clone(), flow.destination.clone());
        Row::new([source, destination, flow.what.clone(), way(flow), pps, bps])
    });
    let heads = ["FROM", "TO", "WHAT", "WAY", "PACKETS/S", "BIT/S"];
    let (title, none) = match now.flows_one_in {
        0 => ("Top flows".into(), "no packets are sampled now"),
        1 => ("Top flows".into(), NO_FLOWS),
        one_in => (
            format!("Top flows, estimated from 1 in {one_in} packets"),
            NO_FLOWS,
        ),
    };
    let widths = [
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(18),
        Constraint::Length(longest.unwrap_or(0).clamp(3, 20) as u16),
        Constraint::Length(9),
        Constraint::Length(7),
    ];
    table_of(frame, area, (title, none), heads, rows.collect(), widths);
}

/// A table of columns that are equally wide.
fn table<const N: usize>(
    frame: &mut Frame,
    area: Rect,
    (title, none): (&'static str, &'static str),
    heads: [&'static str; N],
    rows: Vec<Row<'_>>,
) {
    let widths = [Constraint::Fill(1); N];
    table_of(frame, area, (title.into(), none), heads, rows, widths);
}

/// A table, or what there is to say without rows.
fn table_of<const N: usize>(
    frame: &mut Frame,
    area: Rect,
    (title, none): (String, &'static str),
    heads: [&'static str; N],
    rows: Vec<Row<'_>>,
    widths: [Constraint; N],
) {
    let block = Block::bordered().title(title);
    if rows.is_empty() {
        return frame.render_widget(Paragraph::new(none.dim()).block(block), area);
    }
    let table = Table::new(rows, widths).header(Row::new(heads).dim());
    frame.render_widget(table.block(block), area);
}

/// The newest first.
pub(super) fn events(frame: &mut Frame, area: Rect, now: &Now, scroll: u16) {
    let lines: Vec<Line> = now.events.iter().rev().map(event).collect();
    let text = Paragraph::new(lines)
        .wrap(Wrap { trim: true })
        .scroll((scroll, 0));
    frame.render_widget(text.block(Block::bordered().title("Events")), area);
}

fn event(event: &Event) -> Line<'static> {
    let text = Span::from(event.text.clone());
    let text = match event.severity {
        Severity::Info => text,
        Severity::Warning => text.fg(LINUX),
        Severity::Error => text.fg(DROPPED).bold(),
    };
    Line::from(vec![format!("{} ", clock(event.time)).dim(), text])
}
