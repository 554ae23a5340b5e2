//! The guard: finds what Linux may do to forwarded packets and Bora does not do.
//!
//! The XDP program itself looks at netfilter's, xfrm's and tc's hooks for every packet. This is the
//! other half: it works without that program, and can say what it found.

mod decode;
mod firewall;
mod flowtable;
mod own_table;
mod report;

use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::attribute::Malformed;
use crate::error::KernelError;
use crate::message::Frame;
use crate::socket::{Netlink, Received};
use crate::world::World;

use decode::{chain, policy, qdisc};
pub use firewall::Firewall;
pub use flowtable::Flowtable;
use flowtable::{NFT_GETFLOWTABLE, NFT_GETRULE, flow_rule, flowtable};
pub use own_table::FlowOffload;
use own_table::OwnTable;
pub use report::{GuardReport, Reason, ReasonKind};

// include/uapi/linux/netfilter/nf_tables.h
const NFT_GETCHAIN: u16 = (10 << 8) | 4;
const NFNLGRP_NFTABLES: u32 = 7;
const NFT_NEWSETELEM: u16 = (10 << 8) | 12;
const NFT_DELSETELEM: u16 = (10 << 8) | 14;
/// The new generation that ends each change.
const NFT_NEWGEN: u16 = (10 << 8) | 15;
const XFRMNLGRP_POLICY: u32 = 4;
const XFRM_GETPOLICY: u16 = 0x15;
/// How long to wait before looking again without an event.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// And where legacy iptables has tables, whose rules change without an event.
const LOOK_AT_LEGACY: Duration = Duration::from_secs(2);
/// Times as long as a look took, nothing is looked at again: there may be thousands of chains, and a change of
/// them for each connection.
const PAUSE: u32 = 10;
/// Elements of sets change more often, and rarely what the rules say.
const PAUSE_OF_ELEMENTS: u32 = 100;

/// A subsystem's sockets; none where the kernel does not have it.
struct Subsystem {
    events: Netlink,
    dumps: Netlink,
}

impl Subsystem {
    /// `None` where the kernel does not have it, so that there is nothing to guard. An error is why it cannot be seen.
    fn open(protocol: i32, group: u32, what: &'static str) -> Result<Option<Self>, String> {
        let open = |groups: &[u32]| Netlink::open(protocol, groups, 1 << 20, what);
        match (open(&[group]), open(&[])) {
            (Ok(events), Ok(dumps)) => Ok(Some(Self { events, dumps })),
            (Err(e), _) | (_, Err(e)) if is_lacking(&e) => {
                log::info!("this kernel has no {what}: {e}");
                Ok(None)
            }
            (Err(e), _) | (_, Err(e)) => {
                log::warn!("{e}");
                Err(e.to_string())
            }
        }
    }

    /// Empties the event socket, and tells the type of each event; `None` may be any.
    fn drain(&mut self, mut each: impl FnMut(Option<u16>)) -> Result<(), KernelError> {
        loop {
            let received = self.events.receive(|frame| match frame {
                Ok(frame) => each(Some(frame.kind)),
                Err(_) => each(None), // the caller takes it for any
            })?;
            match received {
                Received::Empty => return Ok(()),
                Received::Overflow => each(None),
                Received::Datagram => {}
            }
        }
    }
}

/// Whether the kernel was built without the subsystem that a socket was to be opened to.
fn is_lacking(error: &KernelError) -> bool {
    let KernelError::Open { source, .. } = error else {
        return false;
    };
    let code = source.raw_os_error();
    matches!(code, Some(libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT))
}

/// Watches for reasons to leave traffic to the kernel.
pub(crate) struct Guard {
    netfilter: Option<Subsystem>,
    xfrm: Option<Subsystem>,
    route: Netlink,
    rules: firewall::Rules,
    /// Where Bora itself offers a flowtable to flows.
    own: OwnTable,
    /// What cannot be seen, for want of rights or descriptors, and why: there may be anything.
    unseen: Vec<(ReasonKind, String)>,
    /// The reasons that the last dumps showed, when that was, and which legacy iptables tables
    /// existed.
    found: GuardReport,
    looked: Instant,
    /// How long that took.
    took: Duration,
    /// Whether something has changed since.
    outdated: bool,
    legacy: Result<[String; 2], String>,
    /// Whether elements of sets have changed since.
    new_elements: bool,
    /// Whether everything could be read.
    complete: bool,
    /// Whether there may be rules that have not been read.
    new_rules: bool,
    /// `found` plus the reasons that come from links.
    report: GuardReport,
}

impl Guard {
    pub(crate) fn open() -> Result<Self, KernelError> {
        let mut unseen = Vec::new();
        let mut seen = |kind, opened: Result<Option<Subsystem>, String>| match opened {
            Ok(subsystem) => subsystem,
            Err(why) => {
                unseen.push((kind, why));
                None
            }
        };
        let netfilter = Subsystem::open(libc::NETLINK_NETFILTER, NFNLGRP_NFTABLES, "nftables");
        let xfrm = Subsystem::open(libc::NETLINK_XFRM, XFRMNLGRP_POLICY, "xfrm policies");
        Ok(Self {
            netfilter: seen(ReasonKind::Netfilter, netfilter),
            xfrm: seen(ReasonKind::Xfrm, xfrm),
            unseen,
            route: Netlink::open(
                libc::NETLINK_ROUTE,
                &[],
                1 << 20,
                "rules and queueing disciplines",
            )?,
            rules: firewall::Rules::default(),
            own: OwnTable::default(),
            found: GuardReport::default(),
            looked: Instant::now(),
            took: Duration::ZERO,
            outdated: false,
            legacy: legacy_tables(),
            new_elements: false,
            complete: false,
            new_rules: true,
            report: GuardReport::default(),
        })
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.netfilter, &self.xfrm]
            .into_iter()
            .flatten()
            .map(|s| s.events.as_fd())
    }

    pub(crate) fn report(&self) -> &GuardReport {
        &self.report
    }

    /// Reads and discards the events; `true` if there were any, so that the report may be out of
    /// date.
    pub(crate) fn drain(&mut self) -> Result<bool, KernelError> {
        let mut any = false;
        if let Some(netfilter) = &mut self.netfilter {
            netfilter.drain(|kind| match kind {
                Some(NFT_NEWGEN) => {}
                Some(NFT_NEWSETELEM | NFT_DELSETELEM) => self.new_elements = true,
                _ => any = true,
            })?;
            self.new_rules |= any;
        }
        if let Some(xfrm) = &mut self.xfrm {
            xfrm.drain(|_| any = true)?;
        }
        Ok(any)
    }

    /// Whether to dump again without an event: legacy iptables sends none, and events may be lost.
    pub(crate) fn is_due(&self) -> bool {
        let legacy = legacy_tables();
        let none = Ok(Default::default());
        let again = match legacy == none {
            true => LOOK_AGAIN,
            false => LOOK_AT_LEGACY.max(self.took * PAUSE_OF_ELEMENTS),
        };
        !self.complete || self.looked.elapsed() >= again || self.legacy != legacy
    }

    /// Something has changed, so that the report may be out of date.
    pub(crate) fn note_change(&mut self) {
        self.outdated = true;
    }

    /// Offers a flowtable of Bora's own to flows, or none; `true` if it was not so before.
    ///
    /// # Errors
    /// As [`OwnTable::follow`].
    pub(crate) fn offer_flows(&mut self, wanted: Option<&FlowOffload>) -> std::io::Result<bool> {
        let before = self.own.is_made();
        let changed = self.own.follow(wanted);
        // Linux tells nobody that a table has ended with its socket
        if before != self.own.is_made() || matches!(changed, Ok(true)) {
            (self.new_rules, self.outdated) = (true, true);
        }
        changed
    }

    /// When to look at what has changed, if something has.
    pub(crate) fn due(&self) -> Option<Instant> {
        let pause = match (self.outdated, self.new_elements) {
            (true, _) => PAUSE,
            (false, true) => PAUSE_OF_ELEMENTS,
            (false, false) => return None,
        };
        Some(self.looked + self.took * (pause + 1))
    }

    /// Dumps everything again, if there were changes and the last look is long enough ago; `true` if the report
    /// changed.
    pub(crate) fn follow_changes(&mut self, world: &World) -> bool {
        self.due().is_some_and(|at| Instant::now() >= at) && self.evaluate(world)
    }

    /// Dumps everything again; `true` if the report changed.
    pub(crate) fn evaluate(&mut self, world: &World) -> bool {
        self.outdated = false;
        (self.looked, self.legacy) = (Instant::now(), legacy_tables());
        self.found = self.look(world);
        self.took = self.looked.elapsed();
        self.follow_links(world)
    }

    /// Updates the report after changes of links and settings, without dumps; `true` if the report changed.
    pub(crate) fn follow_links(&mut self, world: &World) -> bool {
        let mut report = self.found.clone();
        masters(world, &mut report);
        if world.settings.forward_use_pmtu {
            let text = "net.ipv4.ip_forward_use_pmtu is 1, and only Linux knows the path MTUs that it has learned \
                        (free: `sysctl net.ipv4.ip_forward_use_pmtu=0`)";
            report.add(false, ReasonKind::Sysctl, text.into());
        }
        let report = report.finish();
        let changed = report != self.report;
        self.report = report;
        changed
    }

    /// The reasons found in dumps. A dump that cannot be read is a reason, too.
    fn look(&mut self, world: &World) -> GuardReport {
        let (mut report, mut complete) = (GuardReport::default(), true);
        for (kind, why) in &self.unseen {
            report.both(*kind, why.clone());
        }
        if let Some(netfilter) = &mut self.netfilter {
            let question = Question {
                kind: ReasonKind::Netfilter,
                message: NFT_GETCHAIN,
                body: &[libc::AF_UNSPEC as u8, 0, 0, 0], // struct nfgenmsg
            };
            let own = &self.own;
            let each = |report: &mut GuardReport, frame: &Frame<'_>| chain(report, frame, own);
            complete &= question.ask(&mut netfilter.dumps, &mut report, each);
            // an error is a reason of its own (`legacy_reasons`)
            if let Ok(legacy) = &self.legacy {
                let new = std::mem::take(&mut self.new_elements);
                let dumps = &mut netfilter.dumps;
                report.firewall = self.rules.read(dumps, own, legacy, world, new);
            }
            let known = (!self.new_rules).then_some(&*self.found.flowtables);
            self.new_rules = !flowtables(&mut netfilter.dumps, &mut report, known, own);
            complete &= !self.new_rules;
        }
        self.legacy_reasons(&mut report);
        for (v6, rules) in [false, true].into_iter().zip(&world.rules) {
            if let Some(why) = &rules.unread {
                report.add(v6, ReasonKind::Rule, why.clone());
            }
        }
        if let Some(xfrm) = &mut self.xfrm {
            let question = Question {
                kind: ReasonKind::Xfrm,
                message: XFRM_GETPOLICY,
                body: &[],
            };
            complete &= question.ask(&mut xfrm.dumps, &mut report, policy);
        }
        let question = Question {
            kind: ReasonKind::Tc,
            message: libc::RTM_GETQDISC,
            body: &[0; 20], // struct tcmsg
        };
        let each = |report: &mut GuardReport, frame: &Frame<'_>| qdisc(report, frame, world);
        complete &= question.ask(&mut self.route, &mut report, each);
        self.complete = complete;
        report
    }

    fn legacy_reasons(&self, report: &mut GuardReport) {
        let commands = [("iptables", "iptable"), ("ip6tables", "ip6table")];
        let legacy = match &self.legacy {
            Ok(legacy) => legacy,
            Err(why) => return report.both(ReasonKind::Netfilter, why.clone()),
        };
        for (v6, ((command, module), tables)) in commands.iter().zip(legacy).enumerate() {
            for table in tables.split_whitespace() {
                let text = format!(
                    "{command} (legacy): table {table} (a flowtable takes established flows past it, see \
                     docs/firewall.md; `rmmod {module}_{table}` removes it with all that it filters)"
                );
                report.add(v6 == 1, ReasonKind::Netfilter, text);
            }
        }
    }
}

/// Reads the flowtables, and whether rules add to them, of which there may be many: only if they are not `known`
/// from the last time. `false` if not everything could be read.
fn flowtables(
    socket: &mut Netlink,
    report: &mut GuardReport,
    known: Option<&[Flowtable]>,
    own: &OwnTable,
) -> bool {
    let body = [libc::AF_UNSPEC as u8, 0, 0, 0]; // struct nfgenmsg
    let found = &mut report.flowtables;
    let each = |found: &mut Vec<Flowtable>, frame: Frame<'_>| flowtable(found, &frame, own);
    let dumped = socket.dump_decoded(NFT_GETFLOWTABLE, &body, found, Vec::clear, each);
    let complete = Dumped::from(dumped).complete(ReasonKind::Netfilter, report);
    let found = &mut report.flowtables;
    if let Some(known) = known {
        keep_use(found, known);
        return complete;
    }
    if found.is_empty() {
        return complete;
    }
    let each = |found: &mut Vec<Flowtable>, frame: Frame<'_>| flow_rule(found, &frame);
    let dumped = socket.dump_decoded(NFT_GETRULE, &body, found, |_| {}, each);
    Dumped::from(dumped).complete(ReasonKind::Netfilter, report) && complete
}

/// Flowtables are used as they were when they became `known`.
fn keep_use(found: &mut [Flowtable], known: &[Flowtable]) {
    for table in found {
        table.used = known.iter().any(|one| one.used && one.is(table));
    }
}

/// A dump to request, and the kind of reason to report if it cannot be decoded.
struct Question<'a> {
    kind: ReasonKind,
    message: u16,
    body: &'a [u8],
}

impl Question<'_> {
    /// Requests the dump and calls `each` for each message; `false` if not everything could be
    /// read.
    fn ask(
        self,
        socket: &mut Netlink,
        report: &mut GuardReport,
        each: impl Fn(&mut GuardReport, &Frame<'_>) -> Result<(), Malformed>,
    ) -> bool {
        let before = report.clone();
        let restart = |report: &mut GuardReport| *report = before.clone();
        let each = |report: &mut GuardReport, frame: Frame<'_>| {
            if let Err(e) = each(report, &frame) {
                report.both(self.kind, format!("message type {}: {e}", frame.kind));
            }
        };
        let dumped = socket.dump(self.message, self.body, report, restart, each);
        Dumped::from(dumped).complete(self.kind, report)
    }
}

/// How a dump ended.
enum Dumped {
    Whole,
    /// Changes interrupted it, so something may be missing.
    Overtaken,
    /// The kernel lacks this subsystem, so there is nothing to guard.
    Unsupported,
    Failed(String),
}

impl Dumped {
    /// Whether nothing is missing. A failure is a reason itself.
    fn complete(self, kind: ReasonKind, report: &mut GuardReport) -> bool {
        match self {
            Self::Whole | Self::Unsupported => true,
            Self::Overtaken => false,
            Self::Failed(text) => {
                report.both(kind, text);
                false
            }
        }
    }
}

impl From<Result<bool, KernelError>> for Dumped {
    fn from(dumped: Result<bool, KernelError>) -> Self {
        match dumped {
            Ok(true) => Self::Whole,
            Ok(false) => Self::Overtaken,
            Err(KernelError::Dump { source, .. })
                if matches!(
                    source.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::EINVAL | libc::EAFNOSUPPORT)
                ) =>
            {
                Self::Unsupported
            }
            Err(e) => Self::Failed(e.to_string()),
        }
    }
}

/// Names of the tables of legacy iptables, IPv4 and IPv6, or why they cannot be read; it has neither netlink nor events.
fn legacy_tables() -> Result<[String; 2], String> {
    let read = |name| {
        let path = format!("/proc/thread-self/net/{name}");
        match fs::read_to_string(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()), // the kernel has none
            read => read.map_err(|e| format!("cannot read {path}: {e}")),
        }
    };
    Ok([read("ip_tables_names")?, read("ip6_tables_names")?])
}

/// Reports ports that belong to a bridge, because Linux treats what they receive differently. A VRF is a table
/// (see [`crate::policy`]); what comes in by a port of a bond is the bond's.
fn masters(world: &World, report: &mut GuardReport) {
    for link in world
        .ports
        .keys()
        .filter_map(|device| world.links.get(device))
    {
        let master = world.links.get(&link.master);
        let is_bond = master.is_some_and(|master| master.bond.is_some());
        if link.master != 0 && !is_bond && !world.is_vrf(link.master) {
            let is_bridge = master.is_some_and(|master| master.bridge.is_some());
            let more = if is_bridge {
                " (see `bora show bridges`)"
            } else {
                ""
            };
            let master = master.map_or("another device", |master| master.name.as_str());
            report.both(
                ReasonKind::Master,
                format!("{} belongs to {master}{more}", link.name),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use bora_linux::netns;

    use super::*;

    fn nft(command: &str) {
        let done = Command::new("nft").arg(command).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{command}: {said}");
    }

    #[test]
    fn elements_of_sets_are_no_new_rules() {
        if !rustix::process::geteuid().is_root() {
            bora_testing::skip("network namespaces need root");
            return;
        }
        let test = || {
            let mut guard = Guard::open().unwrap();
            nft("add table ip t; add set ip t s { type ipv4_addr; }; add chain ip t c");
            assert!(guard.drain().unwrap(), "a table");
            guard.evaluate(&World::default());
            assert!(!guard.drain().unwrap() && !guard.new_rules, "nothing");
            nft("add element ip t s { 192.0.2.1 }; delete element ip t s { 192.0.2.1 }");
            assert!(!guard.drain().unwrap(), "elements");
            nft("add rule ip t c accept");
            assert!(guard.drain().unwrap(), "a rule");
        };
        netns::in_new(test).unwrap();
    }

    #[test]
    fn changes_that_come_all_the_time_are_not_read_all_the_time() {
        let mut guard = Guard::open().unwrap();
        let world = World::default();
        guard.evaluate(&world);
        let first = guard.looked;
        guard.took = Duration::from_secs(60); // as very many chains take
        for _ in 0..3 {
            guard.note_change();
            assert!(!guard.follow_changes(&world));
        }
        assert_eq!(guard.looked, first, "nothing was read");
        let rest = guard.due().map(|at| at.duration_since(first));
        assert_eq!(rest, Some(Duration::from_secs(60) * 11));
        guard.took = Duration::ZERO;
        guard.follow_changes(&world);
        assert!(guard.looked > first && guard.due().is_none());
    }

    #[test]
    fn known_flowtables_keep_their_use() {
        let table = |used| Flowtable {
            family: "inet",
            name: "ft".into(),
            used,
            ..Flowtable::default()
        };
        let mut found = vec![table(false)];
        keep_use(&mut found, &[table(true)]);
        assert!(found[0].used);
        keep_use(&mut found, &[]);
        assert!(!found[0].used);
    }

    #[test]
    fn what_cannot_be_read_is_a_reason() {
        let mut guard = Guard::open().unwrap();
        guard.route = crate::socket::deaf();
        guard.evaluate(&World::default());
        for reasons in [&guard.report.v4, &guard.report.v6] {
            for kind in [ReasonKind::Rule, ReasonKind::Tc] {
                let unread = |r: &&Reason| r.kind == kind && r.text.starts_with("cannot read");
                assert_eq!(reasons.iter().filter(unread).count(), 1, "{reasons:?}");
            }
        }
    }

    #[test]
    fn legacy_tables_that_cannot_be_read_are_a_reason() {
        let mut guard = Guard::open().unwrap();
        guard.legacy = Err("cannot read ip_tables_names: too many open files".into());
        let mut report = GuardReport::default();
        guard.legacy_reasons(&mut report);
        for reasons in [&report.v4, &report.v6] {
            assert_eq!(reasons[0].kind, ReasonKind::Netfilter);
        }
        assert_ne!(guard.legacy, legacy_tables(), "it is to be read again");
    }
}
