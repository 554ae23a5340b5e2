//! One frame: head, view, foot.

use bora_daemon::Now;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Tabs, Wrap};

use super::colors::{DROPPED, LINUX, RECEIVED, SENT};
use super::state::{State, View};
use super::words::{duration, si, sum};
use super::{panels, ports};

const HELP: &str = "\
q, Esc     end
Tab, 1-5   other view
p          pause, go on
s          order of the ports
up, down   scroll
?          this help";

pub(super) fn draw(frame: &mut Frame, state: &State) {
    let [head, tabs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(foot_line(state), foot);
    let names = View::EACH.map(|(_, name)| name);
    let shown = Tabs::new(names).select(state.place());
    frame.render_widget(shown.highlight_style(Modifier::REVERSED), tabs);
    match &state.now {
        Some(now) => {
            frame.render_widget(head_line(now), head);
            view(frame, body, state, now);
        }
        None => frame.render_widget(Line::from("Bora"), head),
    }
    if state.help {
        help(frame, body);
    }
}

fn head_line(now: &Now) -> Line<'static> {
    let rate = &now.rate;
    let parts = [
        (si(rate.received), " received", RECEIVED),
        (si(rate.sent), " sent", SENT),
        (si(sum(&rate.passed)), " to Linux", LINUX),
        (si(sum(&rate.dropped)), " dropped", DROPPED),
    ];
    let about = format!("{}, up {}; in a second ", now.host, duration(now.uptime));
    let mut line = Line::from(vec!["Bora ".bold(), about.into()]);
    for (number, name, color) in parts {
        line.push_span(Span::styled(number, Style::new().fg(color).bold()));
        line.push_span(Span::raw(format!("{name}  ")));
    }
    line
}

/// What is wrong with the connection, or what keys do.
fn foot_line(state: &State) -> Line<'static> {
    if let Some(why) = &state.lost {
        let text = format!(" no connection: {why}; what you see is old ");
        return Line::styled(text, Style::new().white().on_red().bold());
    }
    let keys = format!(
        "q end  Tab view  p pause  s sort ({})  ? help",
        state.sort.name()
    );
    match state.paused {
        true => Line::from(vec![
            " paused: p goes on ".black().on_yellow(),
            " ".into(),
            keys.dim(),
        ]),
        false => Line::from(keys.dim()),
    }
}

fn view(frame: &mut Frame, area: Rect, state: &State, now: &Now) {
    match state.view {
        View::All => all(frame, area, state, now),
        View::Ports => ports::large(frame, area, state, now),
        View::Packets => {
            let [bar, list] = rows(area, [Constraint::Length(4), Constraint::Min(0)]);
            panels::went(frame, bar, now);
            panels::reasons(frame, list, state, now);
        }
        View::Engine => engine(frame, area, now),
        View::Events => {
            let [flows, events] = rows(area, [Constraint::Percentage(40), Constraint::Min(0)]);
            panels::flows(frame, flows, now);
            panels::events(frame, events, now, state.scroll);
        }
    }
}

/// What matters of each, in 80 columns and 24 lines.
fn all(frame: &mut Frame, area: Rect, state: &State, now: &Now) {
    let heights = heights(area.height, now).map(Constraint::Length);
    let [table, bar, linux, drops, workers, flows, events] = rows(area, heights);
    ports::small(frame, table, state, now);
    panels::went(frame, bar, now);
    panels::linux(frame, linux, now);
    panels::reasons(frame, drops, state, now);
    panels::workers(frame, workers, now);
    panels::flows(frame, flows, now);
    panels::events(frame, events, now, 0);
}

/// Below this many lines there is no room for all panels.
const LOW: u16 = 16;

/// Lines of the panels: first those that must be whole, then the rest is shared. Workers and flows need
/// a terminal that is high.
fn heights(height: u16, now: &Now) -> [u16; 7] {
    let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX - 10);
    let ports = 3 + lines(now.ports.len());
    if height < LOW {
        // the ports alone, and what is wrong if there is room
        let ports = ports.min(height);
        return [ports, 0, height - ports, 0, 0, 0, 0];
    }
    let ports = ports.min((height / 3).max(5));
    let linux = 3 + lines(panels::guard_lines(now).len()).min(3 + height / 20);
    let left = height.saturating_sub(ports + 4 + linux);
    let extra = |count: usize| 3 + lines(count).clamp(1, 5);
    let workers = if left >= 16 {
        extra(now.workers.len())
    } else {
        0
    };
    let flows = if left >= 24 {
        extra(now.flows.len())
    } else {
        0
    };
    let left = left.saturating_sub(workers + flows);
    let reasons = lines(now.total.dropped.len() + now.total.passed.len()).max(1);
    let drops = (left / 2).min(2 + 3 * reasons);
    [ports, 4, linux, drops, workers, flows, left - drops]
}

fn engine(frame: &mut Frame, area: Rect, now: &Now) {
    let parts = [
        Constraint::Length(3 + now.workers.len().max(1) as u16),
        Constraint::Length(3 + now.queues.len().max(1) as u16),
        Constraint::Length(6),
        Constraint::Min(4),
    ];
    let [workers, queues, fib, linux] = rows(area, parts);
    panels::workers(frame, workers, now);
    panels::queues(frame, queues, now);
    panels::fib(frame, fib, now);
    panels::linux(frame, linux, now);
}

fn rows<const N: usize>(area: Rect, parts: [Constraint; N]) -> [Rect; N] {
    Layout::vertical(parts).areas(area)
}

fn help(frame: &mut Frame, area: Rect) {
    let text = Paragraph::new(HELP).wrap(Wrap { trim: false });
    let [middle] = Layout::horizontal([Constraint::Max(40)]).areas(area);
    let [middle] = Layout::vertical([Constraint::Max(8)]).areas(middle);
    frame.render_widget(Clear, middle);
    frame.render_widget(text.block(Block::bordered().title("Keys")), middle);
}
