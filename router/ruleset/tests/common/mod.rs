//! Loads rulesets into the kernel and reads them back.
#![allow(dead_code)] // each test file uses only a part

pub(crate) mod messages;

use std::io::Write;
use std::process::{Command, Stdio};

use bora_ruleset::{Question, Ruleset, TableKey, Transit, request};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// Whether namespaces can be made; says so if not.
pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    let root = id.stdout == b"0\n";
    if !root {
        bora_testing::skip("network namespaces need root");
    }
    root
}

/// Has a program read a text in the calling thread's namespace.
pub(crate) fn feed(program: &str, arguments: &[&str], text: &str) -> Result<(), String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let written = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    written.map_err(|error| format!("{program}: {error}: {said}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(said)
    }
}

/// Loads rules of nft.
pub(crate) fn nft(text: &str) -> Result<(), String> {
    feed("nft", &["-f", "-"], text)
}

/// Requests a dump, and passes each message on.
fn dump(socket: &Socket, kind: u16, body: &[u8], mut each: impl FnMut(u16, &[u8])) {
    let mut request = (16 + body.len() as u32).to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    socket.send(&request, 0).unwrap();
    loop {
        let (datagram, _) = socket.recv_from_full().unwrap();
        let mut rest = &datagram[..];
        while rest.len() >= 16 {
            let len = u32::from_ne_bytes(rest[..4].try_into().unwrap()) as usize;
            let kind = u16::from_ne_bytes(rest[4..6].try_into().unwrap());
            match kind {
                NLMSG_DONE => return,
                NLMSG_ERROR => panic!("request {kind:#x} was refused: {:?}", &rest[16..20]),
                _ => each(kind, &rest[16..len]),
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// The ruleset of the calling thread's namespace. `further`: with the elements of all sets.
pub(crate) fn ruleset(further: bool) -> Ruleset {
    let mut socket = Socket::new(NETLINK_NETFILTER).unwrap();
    socket.bind(&SocketAddr::new(0, 0)).unwrap();
    let mut ruleset = Ruleset::default();
    let read = |kind, body: &[u8], ruleset: &mut Ruleset| {
        dump(&socket, kind, body, |kind, payload| {
            ruleset.read(kind, payload).unwrap()
        });
    };
    for kind in request::ALL {
        read(kind, &request::all(), &mut ruleset);
    }
    let elements = |(table, set): (&TableKey, &str)| request::elements(table, set);
    let wanted: Vec<_> = ruleset.wanted_sets().map(elements).collect();
    for body in wanted {
        read(request::ELEMENTS, &body, &mut ruleset);
    }
    if further {
        let wanted: Vec<_> = ruleset.further_sets().map(elements).collect();
        for body in wanted {
            read(request::ELEMENTS, &body, &mut ruleset);
        }
    }
    ruleset
}

/// What the rules of the calling thread's namespace do.
pub(crate) fn analysis(v6: bool) -> Transit {
    let local_first = true;
    ruleset(false).analyse(Question { v6, local_first })
}

/// An analysis as text, for messages.
pub(crate) fn text(transit: &Transit) -> String {
    let mut text = String::new();
    for chain in &transit.chains {
        text += &format!(
            "{chain}{}\n",
            if chain.leaves_alone {
                " leaves alone"
            } else {
                ""
            }
        );
    }
    for obstacle in &transit.established.obstacles {
        text += &format!("{:?}: {obstacle}\n", obstacle.class);
    }
    for mark in &transit.established.marks {
        text += &format!("marks: {mark}\n");
    }
    let established = &transit.established;
    text + &format!(
        "{:?}, feed back {}, fib {}, conntrack {}",
        established.answer(),
        established.marks_feed_back,
        established.fib,
        transit.looks_at_conntrack
    )
}
