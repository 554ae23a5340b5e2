//! Dumps of small tables, which are read at once.

use crate::error::KernelError;
use crate::message::{self, Frame, Message, Rule};
use crate::model::Model;
use crate::rules::Rules;
use crate::socket::Netlink;

/// How often to read rules that change meanwhile.
const RULE_DUMPS: usize = 10;

/// Reads dumps, and counts messages that could not be decoded.
pub(crate) struct Loader {
    pub(crate) socket: Netlink,
    pub(crate) decode_errors: u64,
    /// Opens a socket for a thread that reads large tables.
    pub(crate) open: fn() -> Result<Netlink, KernelError>,
}

impl Loader {
    pub(crate) fn open() -> Result<Self, KernelError> {
        // the kernel writes a dump as we read it, so the buffer's size only decides the batch size
        let open = || Netlink::open(libc::NETLINK_ROUTE, &[], 1 << 20, "routing tables");
        Ok(Self {
            socket: open()?,
            decode_errors: 0,
            open,
        })
    }

    /// Reads the rules.
    pub(crate) fn rules(&mut self, model: &mut Model) {
        let rules = [false, true].map(|v6| self.rules_of(v6));
        model.set_rules(rules);
    }

    fn rules_of(&mut self, v6: bool) -> Rules {
        let mut head = [0; 12]; // struct fib_rule_hdr
        head[0] = if v6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
        let mut list = Vec::new();
        let errors = &mut self.decode_errors;
        let mut each = |list: &mut Vec<Rule>, frame: Frame<'_>| {
            if frame.kind == libc::RTM_NEWRULE {
                list.push(match message::decode_rule(frame.payload) {
                    Ok(rule) => rule,
                    Err(error) => {
                        note(errors, frame.kind, error);
                        Rule {
                            unknown: Some("it cannot be decoded"),
                            ..Rule::default()
                        }
                    }
                });
            }
        };
        for _ in 0..RULE_DUMPS {
            let dumped =
                self.socket
                    .dump(libc::RTM_GETRULE, &head, &mut list, Vec::clear, &mut each);
            match dumped {
                Ok(true) => return Rules { list, unread: None },
                Ok(false) => list.clear(),
                Err(KernelError::Dump { source, .. })
                    if matches!(
                        source.raw_os_error(),
                        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::EAFNOSUPPORT)
                    ) =>
                {
                    return Rules::linux_own(v6);
                }
                Err(error) => {
                    let unread = Some(error.to_string());
                    return Rules {
                        list: Vec::new(),
                        unread,
                    };
                }
            }
        }
        let unread = Some("cannot read rules: they change all the time".into());
        Rules {
            list: Vec::new(),
            unread,
        }
    }

    /// Reads the stations behind a VXLAN device. Without them only Linux can forward by it.
    fn stations(&mut self, model: &mut Model, device: u32) {
        let mut head = [0; 12]; // struct ndmsg
        head[0] = libc::AF_BRIDGE as u8;
        head[4..8].copy_from_slice(&device.to_ne_bytes());
        let errors = &mut self.decode_errors;
        let mut found = Vec::new();
        let each = |found: &mut Vec<_>, frame: Frame<'_>| match message::decode(&frame) {
            Ok(Message::Station(station, false)) if station.device == device => found.push(station),
            Ok(_) => {}
            Err(error) => note(errors, frame.kind, error),
        };
        let kind = libc::RTM_GETNEIGH;
        let read = self.socket.dump(kind, &head, &mut found, Vec::clear, each);
        let whole = read.and_then(|whole| whole.then_some(found).ok_or(KernelError::Overtaken));
        let found = match whole {
            Ok(found) => Some(found),
            Err(error) => {
                log::warn!("interface {device}: only Linux forwards by it: {error}");
                None
            }
        };
        model.set_stations(device, found);
    }

    /// Reads what the model has found to be read again behind VXLAN devices.
    pub(crate) fn noticed_stations(&mut self, model: &mut Model) {
        for device in std::mem::take(&mut model.noticed.stations) {
            self.stations(model, device);
        }
    }
}

/// Counts a message that could not be decoded; the first of all is logged.
pub(crate) fn note(errors: &mut u64, kind: u16, error: message::Malformed) {
    if *errors == 0 {
        log::warn!("netlink message of type {kind}: {error}; it is ignored and counted");
    }
    *errors += 1;
}
