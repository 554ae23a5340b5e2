//! Frames of made-up data, in a terminal that is a buffer.

use bora_daemon::{
    ByReason, Event, EventKind, FlowNow, History, Now, Packets, PortHistory, PortNow, PortRates,
    Severity,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::feed::{News, Reasons};
use super::state::State;
use super::text;

fn port(name: &str, rx_pps: u32) -> PortNow {
    PortNow {
        name: name.into(),
        state: "up".into(),
        path: "express".into(),
        why: "chosen".into(),
        rates: PortRates {
            rx_pps,
            rx_bps: 512 * u64::from(rx_pps),
            ..PortRates::default()
        },
        ..PortNow::default()
    }
}

fn now() -> Now {
    let drops = ByReason::from([("rx_ring_full".into(), 77)]);
    let packets = Packets {
        received: 1_300_077,
        sent: 1_300_000,
        dropped: drops,
        ..Packets::default()
    };
    Now {
        time: 10_000,
        host: "router".into(),
        ports: vec![port("eth0", 300_000), port("eth1", 1_000_000)],
        total: packets.clone(),
        rate: packets,
        events: vec![Event {
            time: 9000,
            severity: Severity::Warning,
            kind: EventKind::Port,
            text: "eth1: the link is down".into(),
        }],
        flows: vec![FlowNow {
            input: "eth0".into(),
            output: "eth1".into(),
            source: "2001:db8::1".into(),
            destination: "2001:db8::2".into(),
            what: "udp 5000 → 53".into(),
            pps: 1000,
            bps: 8_000_000,
        }],
        flows_one_in: 256,
        ..Now::default()
    }
}

fn state() -> State {
    let cure = r#"{"rx_ring_full": {"name": "rx_ring_full", "cure": "Give it more workers."}}"#;
    let reasons: Reasons = serde_json::from_str(cure).unwrap();
    let mut state = State::new(reasons);
    state.take(News::History(History {
        time: 8000,
        ports: vec![PortHistory {
            name: "eth0".into(),
            rx_pps: vec![100_000, 200_000],
            ..PortHistory::default()
        }],
    }));
    state.take(News::Now(Box::new(now())));
    state
}

fn press(state: &mut State, code: KeyCode) -> bool {
    state.press(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn eighty_columns_have_everything_that_matters() {
    let shown = text(&state(), (80, 24)).unwrap();
    for word in [
        "eth0",
        "eth1",
        "300 k",
        "1.00 M",
        "rx_ring_full",
        "more workers",
        "in agreement",
        "link is down",
        "q end",
    ] {
        assert!(shown.contains(word), "{word} is missing in\n{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn a_small_terminal_shows_the_ports() {
    let shown = text(&state(), (40, 10)).unwrap();
    for word in ["eth0", "300 k", "eth1", "1.00 M"] {
        assert!(shown.contains(word), "{word} is missing in\n{shown}");
    }
}

#[test]
fn every_view_has_its_panels_in_every_size() {
    let mut state = state();
    let words = [
        "Ports",
        "received 300 k",
        "rx_ring_full",
        "Forwarding table",
        "Top flows",
    ];
    for (key, word) in ('1'..='5').zip(words) {
        press(&mut state, KeyCode::Char(key));
        assert!(text(&state, (100, 40)).unwrap().contains(word), "{key}");
        for size in [(1, 1), (20, 5), (80, 3), (300, 100)] {
            text(&state, size).unwrap();
        }
    }
}

#[test]
fn flows_say_that_they_are_estimated() {
    let mut state = state();
    press(&mut state, KeyCode::Char('5'));
    let shown = text(&state, (80, 24)).unwrap();
    for word in [
        "from 1 in 256 packets",
        "2001:db8::1",
        "udp 5000 → 53",
        "eth0 → eth1",
        "8.00 M",
    ] {
        assert!(shown.contains(word), "{word} is missing in\n{shown}");
    }
    state.take(News::Now(Box::default()));
    let shown = text(&state, (80, 24)).unwrap();
    assert!(shown.contains("no packets are sampled"), "{shown}");
}

#[test]
fn keys_turn_sort_pause_and_end() {
    let mut state = state();
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.place(), 1);
    press(&mut state, KeyCode::BackTab);
    press(&mut state, KeyCode::BackTab);
    assert_eq!(state.place(), 4);
    press(&mut state, KeyCode::Char('1'));
    press(&mut state, KeyCode::Char('s'));
    let shown = text(&state, (80, 24)).unwrap();
    assert!(
        shown.find("eth1") < shown.find("eth0"),
        "by received:\n{shown}"
    );
    press(&mut state, KeyCode::Char('p'));
    state.take(News::Now(Box::default()));
    assert_eq!(state.now.as_ref().unwrap().ports.len(), 2);
    assert!(text(&state, (80, 24)).unwrap().contains("paused"));
    press(&mut state, KeyCode::Char('?'));
    assert!(text(&state, (80, 24)).unwrap().contains("this help"));
    assert!(!press(&mut state, KeyCode::Esc));
    assert!(press(&mut state, KeyCode::Char('q')));
}

#[test]
fn a_lost_connection_shows_and_what_was_missed_is_filled() {
    let mut state = state();
    assert_eq!(
        state.history["eth0"][0],
        [100_000, 200_000, 300_000, 300_000]
    );
    state.take(News::Lost("Bora is stopping".into()));
    let shown = text(&state, (80, 24)).unwrap();
    assert!(shown.contains("no connection: Bora is stopping"), "{shown}");
}

#[test]
fn control_characters_in_names_do_nothing() {
    let mut state = state();
    let mut bad = now();
    bad.ports[0].name = "e\x1b[31mth".into();
    state.take(News::Now(Box::new(bad)));
    assert!(!text(&state, (80, 24)).unwrap().contains('\x1b'));
}
