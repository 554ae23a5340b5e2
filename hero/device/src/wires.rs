//! The other ends of the cards' cables.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bora_hero::{CARDS, FAULTLESS, Model, Sent, WireSpec};

/// Most frames on the line to a card; more wait in the socket.
const ON_LINE: usize = 64;
/// Octets of the longest frame that a socket takes, and that a card sends.
const LONGEST: usize = 2048;

/// What is said of a cable: `--wire`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WireOption {
    /// The card, 0 to 3.
    pub(crate) card: usize,
    pub(crate) end: End,
}

/// Where a cable leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nowhere: what a card sends is lost.
    None,
    /// A Linux interface.
    Interface(WireSpec),
    /// A Unix datagram socket, one frame a datagram: frames for the card are sent to this path, those of the card
    /// go to the path with `.peer` behind it.
    Socket(PathBuf),
    /// Another card, or itself: it receives what this one sends.
    Card(usize),
}

impl FromStr for WireOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (card, end) = text
            .split_once('=')
            .ok_or("a cable is CARD=END, such as 0=tap:wire0")?;
        Ok(Self {
            card: card_number(card)?,
            end: end.parse()?,
        })
    }
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match (kind, rest) {
            ("none", "") => Ok(Self::None),
            ("loop", card) => Ok(Self::Card(card_number(card)?)),
            ("socket", path) if !path.is_empty() => Ok(Self::Socket(path.into())),
            ("tap" | "if", rest) if !rest.is_empty() => interface(kind == "tap", rest),
            _ => Err(format!(
                "no end of a cable: {text:?}; it is tap:NAME[,netns=NAME], if:NAME[,netns=NAME], socket:PATH, loop:CARD or none"
            )),
        }
    }
}

fn interface(tap: bool, text: &str) -> Result<End, String> {
    let (name, netns) = match text.split_once(",netns=") {
        Some((name, netns)) => (name, Some(netns.to_owned())),
        None => (text, None),
    };
    if name.is_empty() || name.contains([',', '/']) {
        return Err(format!("{name:?} is not the name of an interface"));
    }
    Ok(End::Interface(WireSpec {
        interface: name.into(),
        tap,
        netns,
    }))
}

fn card_number(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(card) if card < CARDS => Ok(card),
        _ => Err(format!(
            "{text:?} is not a card: they are 0 to {}",
            CARDS - 1
        )),
    }
}

/// One end of a cable at each card.
///
/// # Errors
/// A card has two cables, or the cable to a card does not lead back from there.
pub(crate) fn ends(options: &[WireOption]) -> Result<[End; CARDS], String> {
    let mut ends = [const { End::None }; CARDS];
    for (index, option) in options.iter().enumerate() {
        if options[..index]
            .iter()
            .any(|other| other.card == option.card)
        {
            return Err(format!("card {} has two cables", option.card));
        }
        ends[option.card] = option.end.clone();
    }
    for (card, end) in ends.iter().enumerate() {
        if let End::Card(other) = end
            && ends[*other] != End::Card(card)
        {
            return Err(format!(
                "{card}=loop:{other} needs {other}=loop:{card}: a cable has two ends"
            ));
        }
    }
    Ok(ends)
}

/// A cable that is plugged in.
pub(crate) enum Wire {
    None,
    Interface(Box<bora_hero::Wire>),
    Socket(Socket),
    Card(usize),
}

impl Wire {
    /// Plugs it in.
    pub(crate) fn open(end: &End) -> anyhow::Result<Self> {
        Ok(match end {
            End::None => Self::None,
            End::Interface(spec) => Self::Interface(Box::new(bora_hero::Wire::open(spec)?)),
            End::Socket(path) => Self::Socket(Socket::open(path)?),
            End::Card(card) => Self::Card(*card),
        })
    }

    /// Puts frames on the line to a card, as far as there is room; returns how many.
    pub(crate) fn deliver(&mut self, model: &mut Model, card: usize) -> usize {
        match self {
            Self::Interface(wire) => wire.deliver(model, card),
            Self::Socket(socket) => socket.deliver(model, card),
            Self::None | Self::Card(_) => 0,
        }
    }

    /// Takes the frames that a card sent off its line; returns how many.
    pub(crate) fn collect(&mut self, model: &mut Model, card: usize) -> usize {
        match self {
            Self::Interface(wire) => wire.collect(model, card),
            Self::Socket(socket) => each_sent(model, card, |_, frame| socket.send(frame)),
            Self::Card(other) => each_sent(model, card, |model, frame| {
                model.receive(*other, frame, FAULTLESS);
            }),
            Self::None => each_sent(model, card, |_, _| {}),
        }
    }

    /// Whether the interface at the other end is up and has a carrier; other ends always do.
    pub(crate) fn has_link(&self) -> bool {
        match self {
            Self::Interface(wire) => wire.has_link(),
            Self::None | Self::Socket(_) | Self::Card(_) => true,
        }
    }

    /// Whether all frames for the card wake who polls [`Wire::wait`].
    pub(crate) fn wakes(&mut self) -> bool {
        !matches!(self, Self::Interface(_)) || self.wait().is_some()
    }

    /// A descriptor that is readable when frames come; `None` if there is none.
    pub(crate) fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Interface(wire) => wire.wait(),
            Self::Socket(socket) => Some(socket.socket.as_fd()),
            Self::None | Self::Card(_) => None,
        }
    }
}

fn each_sent(model: &mut Model, card: usize, mut take: impl FnMut(&mut Model, &[u8])) -> usize {
    let mut frame = [0; LONGEST];
    let mut count = 0;
    while let Some(sent) = model.transmitted(card, &mut frame) {
        count += 1;
        match sent {
            Sent::Frame(octets) => take(model, &frame[..octets]),
            bad => log::error!("card {card} sent {bad:?}"),
        }
    }
    count
}

/// A cable whose other end is a Unix socket.
pub(crate) struct Socket {
    socket: UnixDatagram,
    path: PathBuf,
    peer: PathBuf,
    /// Frames that the other end did not take.
    lost: u64,
}

impl Socket {
    fn open(path: &Path) -> anyhow::Result<Self> {
        remove_socket(path)?;
        let socket = UnixDatagram::bind(path).map_err(|error| {
            anyhow::anyhow!("cannot make the cable's socket {}: {error}", path.display())
        })?;
        socket.set_nonblocking(true)?;
        let mut peer = path.to_owned().into_os_string();
        peer.push(".peer");
        Ok(Self {
            socket,
            path: path.into(),
            peer: peer.into(),
            lost: 0,
        })
    }

    fn deliver(&mut self, model: &mut Model, card: usize) -> usize {
        let mut frame = [0; LONGEST + 1];
        let mut count = 0;
        while model.arriving(card) < ON_LINE {
            match self.socket.recv(&mut frame) {
                Ok(octets) if octets <= LONGEST => {
                    count += 1;
                    model.receive(card, &frame[..octets], FAULTLESS);
                }
                Ok(_) => self.lose("a frame for the card is longer than any cable carries"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    log::warn!("{}: {error}", self.path.display());
                    break;
                }
            }
        }
        count
    }

    fn send(&mut self, frame: &[u8]) {
        if let Err(error) = self.socket.send_to(frame, &self.peer) {
            self.lose(&format!(
                "a frame of the card does not reach {}: {error}",
                self.peer.display()
            ));
        }
    }

    /// Counts a lost frame; the first one is logged.
    fn lose(&mut self, why: &str) {
        self.lost += 1;
        if self.lost == 1 {
            log::warn!(
                "{}: {why}; more of them are only counted",
                self.path.display()
            );
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.lost > 0 {
            log::info!("{}: {} frames lost", self.path.display(), self.lost);
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            log::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Removes a socket that an earlier process left behind.
///
/// # Errors
/// It cannot be removed, or is no socket.
pub(crate) fn remove_socket(path: &Path) -> io::Result<()> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !kind.is_socket() {
        let error = format!("{} is there, and is no socket", path.display());
        return Err(io::Error::new(ErrorKind::AlreadyExists, error));
    }
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<WireOption, String> {
        text.parse()
    }

    #[test]
    fn ends_of_cables_are_named() {
        let option = parse("1=tap:wire1,netns=lab").unwrap();
        let spec = WireSpec {
            interface: "wire1".into(),
            tap: true,
            netns: Some("lab".into()),
        };
        assert_eq!((option.card, option.end), (1, End::Interface(spec)));
        assert_eq!(
            parse("3=socket:/run/w").unwrap().end,
            End::Socket("/run/w".into())
        );
        assert_eq!(parse("0=none").unwrap().end, End::None);
        for bad in [
            "0",
            "4=none",
            "0=tap:",
            "0=tap:,netns=a",
            "0=loop:4",
            "x=none",
            "0=socket:",
            "0=none:1",
            "0=if:a/b",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_cable_between_cards_has_two_ends() {
        let all = |texts: &[&str]| -> Result<[End; CARDS], String> {
            let options: Vec<WireOption> = texts.iter().map(|text| parse(text).unwrap()).collect();
            ends(&options)
        };
        assert!(all(&["0=loop:1"]).unwrap_err().contains("1=loop:0"));
        assert!(
            all(&["0=none", "0=none"])
                .unwrap_err()
                .contains("two cables")
        );
        let wired = all(&["0=loop:1", "1=loop:0", "2=loop:2"]).unwrap();
        assert_eq!(wired[2], End::Card(2));
        assert_eq!(wired[3], End::None);
    }

    #[test]
    fn only_sockets_are_removed() {
        let path = std::env::temp_dir().join(format!("hero-device-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        assert!(remove_socket(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        let _socket = UnixDatagram::bind(&path).unwrap();
        remove_socket(&path).unwrap();
        remove_socket(&path).unwrap();
    }
}
