//! What is shown, and what keys do.

use std::collections::BTreeMap;

use bora_daemon::{History, Now, PortNow, PortRates};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::feed::{News, Reasons};

/// Seconds of history.
const SECONDS: usize = 600;

/// The views, in the order of their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    All,
    Ports,
    Packets,
    Engine,
    Events,
}

impl View {
    pub(super) const EACH: [(Self, &str); 5] = [
        (Self::All, "1 All"),
        (Self::Ports, "2 Ports"),
        (Self::Packets, "3 Packets"),
        (Self::Engine, "4 Engine"),
        (Self::Events, "5 Flows, events"),
    ];
}

/// The order of the ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// As they are configured.
    #[default]
    Given,
    Received,
    Sent,
    Dropped,
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Given => "as configured",
            Self::Received => "by received",
            Self::Sent => "by sent",
            Self::Dropped => "by dropped",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Given => Self::Received,
            Self::Received => Self::Sent,
            Self::Sent => Self::Dropped,
            Self::Dropped => Self::Given,
        }
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) now: Option<Now>,
    /// Packets a second, received and sent, by port, the newest last.
    pub(super) history: BTreeMap<String, [Vec<u32>; 2]>,
    pub(super) reasons: Reasons,
    pub(super) view: View,
    pub(super) sort: Sort,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// Why there is no connection.
    pub(super) lost: Option<String>,
    /// Lines of the view that are above the screen.
    pub(super) scroll: u16,
    /// When the newest data are of, milliseconds since 1970.
    time: u64,
    seconds: usize,
}

impl State {
    pub(super) fn new(reasons: Reasons) -> Self {
        Self {
            reasons,
            ..Self::default()
        }
    }

    /// Whether numbers of a whole second have come since the start of the stream.
    pub(super) fn has_rates(&self) -> bool {
        self.seconds >= 1
    }

    /// While it is paused, what comes is not kept.
    pub(super) fn take(&mut self, news: News) {
        match news {
            News::Lost(why) => self.lost = Some(why),
            _ if self.paused => self.lost = None,
            News::History(history) => self.begin(history),
            News::Now(now) => self.go_on(*now),
        }
    }

    fn begin(&mut self, history: History) {
        self.lost = None;
        self.time = history.time;
        let ports = history.ports.into_iter();
        self.history = ports
            .map(|port| (port.name, [port.rx_pps, port.tx_pps]))
            .collect();
    }

    /// Seconds that were missed get the numbers of this one.
    fn go_on(&mut self, now: Now) {
        self.lost = None;
        let seconds = now.time.saturating_sub(self.time).saturating_add(500) / 1000;
        let seconds = (seconds as usize).min(SECONDS);
        for port in &now.ports {
            let known = self.history.entry(port.name.clone()).or_default();
            let rates: &PortRates = &port.rates;
            for (values, rate) in known.iter_mut().zip([rates.rx_pps, rates.tx_pps]) {
                values.extend(std::iter::repeat_n(rate, seconds));
                values.drain(..values.len().saturating_sub(SECONDS));
            }
        }
        self.seconds += seconds;
        self.time = self.time.max(now.time);
        self.now = Some(now);
    }

    /// The ports in the order that the user wants.
    pub(super) fn ports<'a>(&self, now: &'a Now) -> Vec<&'a PortNow> {
        let mut ports: Vec<&PortNow> = now.ports.iter().collect();
        let of = |port: &PortNow| match self.sort {
            Sort::Given => 0,
            Sort::Received => port.rates.rx_pps,
            Sort::Sent => port.rates.tx_pps,
            Sort::Dropped => port.rates.drop_pps,
        };
        ports.sort_by_key(|port| std::cmp::Reverse(of(port)));
        ports
    }

    /// Does what a key means; returns whether it is the end.
    pub(super) fn press(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return true,
            KeyCode::Char('q') => return true,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc => return true,
            KeyCode::Char('?') => self.help = !self.help,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char(digit @ '1'..='5') => self.turn_to(digit as usize - '1' as usize),
            KeyCode::Tab => self.turn_to(self.place() + 1),
            KeyCode::BackTab => self.turn_to(self.place() + View::EACH.len() - 1),
            KeyCode::Down => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            _ => {}
        }
        false
    }

    /// The view's place among all.
    pub(super) fn place(&self) -> usize {
        let mut each = View::EACH.iter();
        each.position(|(view, _)| *view == self.view).unwrap_or(0)
    }

    fn turn_to(&mut self, place: usize) {
        self.view = View::EACH[place % View::EACH.len()].0;
        self.scroll = 0;
    }
}
