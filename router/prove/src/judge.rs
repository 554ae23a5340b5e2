//! Whether two answers are one.

use std::net::IpAddr;

use bora_contract::Reason;
use bora_fib::PortId;
use bora_wire::MacAddr;

use crate::answer::{BoraAnswer, LinuxAnswer, Path, Route};
use crate::question::{Input, Question, Tags};
use crate::surroundings::Surroundings;

/// Flows that are shared out.
const FLOWS: u64 = 1 << 31;
/// Longest IP packet, octets.
const LONGEST: u32 = 65_535;

const LONGER: &str = "Bora sends longer packets than Linux";

/// What comparing two answers gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Bora does what Linux does.
    Same,
    /// Linux does it itself.
    LeftToLinux(Reason),
    /// Bora does something else, and what.
    Differs(&'static str),
}

/// Compares what Linux and Bora do with a packet. `path`: the path of several that Linux takes, if that was asked.
pub(crate) fn judge(
    question: &Question,
    inputs: &[Input],
    around: &Surroundings,
    linux: &LinuxAnswer,
    path: Option<&Path>,
    bora: &BoraAnswer,
) -> Outcome {
    let route = match (bora, linux) {
        (BoraAnswer::Linux(reason), _) => return Outcome::LeftToLinux(*reason),
        (BoraAnswer::Drop(reason), _) => return dropped(*reason, linux),
        (_, LinuxAnswer::Forward(route)) => route,
        (_, LinuxAnswer::Own) => {
            return Outcome::Differs("the packet is for the router, and Bora sends it on");
        }
        (_, LinuxAnswer::Refuse(_)) => {
            return Outcome::Differs("Linux does not forward it, and Bora does");
        }
    };
    if question.is_v6() && !around.forwards_v6 {
        return Outcome::Differs("Linux does not forward IPv6, and Bora does");
    }
    if !route.holds(question.destination) || !route.tells_paths() {
        return Outcome::Same; // it forwards, and does not tell by which route, or which way
    }
    // express has Linux choose one of several paths for each packet, which may be a plain one
    let is_chosen = matches!(bora, BoraAnswer::Express { .. }) && route.paths.len() > 1;
    if route.encapsulates && !is_chosen {
        return Outcome::Differs("Linux puts something around it, and Bora does not");
    }
    let judge = Judge {
        question,
        inputs,
        around,
        route,
    };
    let found = match bora {
        BoraAnswer::Forward {
            chosen,
            tags,
            ways,
            mtu,
        } => judge
            .chosen(*chosen, path)
            .and_then(|()| judge.tags(chosen.0, *tags))
            .and_then(|()| judge.ways(ways))
            .and_then(|()| judge.mtu(chosen.0, *mtu)),
        BoraAnswer::Express {
            sends_longer: true, ..
        } => Err(LONGER),
        BoraAnswer::Express { to, from, tags, .. } => judge.express(*to, *from, *tags, path),
        BoraAnswer::Tunnel { device, mtu } => judge
            .tunnel(*device)
            .and_then(|()| judge.mtu(*device, *mtu)),
        BoraAnswer::Linux(_) | BoraAnswer::Drop(_) => Ok(()),
    };
    match found {
        Ok(()) => Outcome::Same,
        Err(why) => Outcome::Differs(why),
    }
}

/// Whether Linux drops a packet, too, and tells nobody.
fn dropped(reason: Reason, linux: &LinuxAnswer) -> Outcome {
    match (reason, linux) {
        // ip_handle_martian_source(), fib_validate_source()
        (Reason::SourceCheck, LinuxAnswer::Refuse(libc::EXDEV | libc::EINVAL)) => Outcome::Same,
        (Reason::SourceCheck, _) => {
            Outcome::Differs("Bora drops it for its source, and Linux does not")
        }
        (_, LinuxAnswer::Refuse(libc::EINVAL)) => Outcome::Same,
        _ => Outcome::Differs("Bora drops it, and Linux does not"),
    }
}

/// The longest packet that Linux forwards by a device and a route, octets (`ip_dst_mtu_maybe_forward()`,
/// `ip6_dst_mtu_maybe_forward()`).
pub(crate) fn longest(route: &Route, device: u32, around: &Surroundings) -> u32 {
    let mtu = route.mtu.or_else(|| around.mtu(device));
    mtu.unwrap_or(0).min(LONGEST)
}

struct Judge<'a> {
    question: &'a Question,
    inputs: &'a [Input],
    around: &'a Surroundings,
    route: &'a Route,
}

impl Judge<'_> {
    fn ifindex(&self, port: PortId) -> Option<u32> {
        let input = self.inputs.iter().find(|input| input.number == port);
        input.map(|input| input.ifindex)
    }

    /// Whom Linux sends to by a path.
    fn neighbour(&self, path: &Path) -> Option<MacAddr> {
        let address: IpAddr = path.gateway.unwrap_or(self.question.destination);
        self.around.neighbour(path.device, address)
    }

    fn is_path(&self, path: &Path, (port, mac): (PortId, MacAddr)) -> bool {
        let mut sessions = self.around.sessions(path.device);
        let leads_there =
            self.neighbour(path) == Some(mac) || sessions.any(|session| session.peer == mac);
        self.ifindex(port) == Some(path.device) && leads_there
    }

    fn alive(&self) -> impl Iterator<Item = &Path> {
        self.route.paths.iter().filter(|path| path.alive)
    }

    fn chosen(&self, chosen: (PortId, MacAddr), path: Option<&Path>) -> Result<(), &'static str> {
        if let Some(path) = path {
            return match self.is_path(path, chosen) {
                true => Ok(()),
                false => Err("Linux takes another path of the route for this flow"),
            };
        }
        let device = self.ifindex(chosen.0);
        if !self.alive().any(|path| Some(path.device) == device) {
            return Err("Linux sends it by another interface");
        }
        match self.alive().any(|path| self.is_path(path, chosen)) {
            true => Ok(()),
            false => Err("Linux sends it to another neighbour"),
        }
    }

    fn express(
        &self,
        to: MacAddr,
        from: MacAddr,
        tags: Tags,
        path: Option<&Path>,
    ) -> Result<(), &'static str> {
        let leaves_by = |device: u32| {
            self.around.mac(device) == Some(from)
                && self.around.tags(device).is_none_or(|wanted| wanted == tags)
        };
        let is_it = |path: &Path| {
            let mut sessions = self.around.sessions(path.device);
            self.neighbour(path) == Some(to) && leaves_by(path.device)
                || sessions.any(|session| session.peer == to && leaves_by(session.on))
        };
        match path.map_or_else(|| self.alive().any(is_it), is_it) {
            true => Ok(()),
            false => Err("Linux sends it to another neighbour or by another interface"),
        }
    }

    fn tags(&self, port: PortId, tags: Tags) -> Result<(), &'static str> {
        let wanted = self
            .ifindex(port)
            .and_then(|device| self.around.tags(device));
        match wanted.is_none_or(|wanted| wanted == tags) {
            true => Ok(()),
            false => Err("Linux gives it other VLAN tags"),
        }
    }

    /// Whether the paths are Linux's, with its shares. A path whose neighbour Linux has to ask for first may be missing.
    fn ways(&self, ways: &[(PortId, MacAddr, u32)]) -> Result<(), &'static str> {
        let is_path = |way: &(PortId, MacAddr, u32)| {
            self.alive().any(|path| self.is_path(path, (way.0, way.1)))
        };
        if !ways.iter().all(is_path) {
            return Err("Linux has not all of these paths");
        }
        let all_known = self.alive().all(|path| self.neighbour(path).is_some());
        let by_buckets = ways.iter().any(|way| way.2 == 0);
        if !all_known || by_buckets {
            return Ok(());
        }
        let total: u64 = self.alive().map(|path| u64::from(path.weight)).sum();
        let told: u64 = ways.iter().map(|way| u64::from(way.2)).sum();
        let left_to_linux = FLOWS.saturating_sub(told); // paths by devices that are no ports
        for path in self.alive() {
            let same = |path: &&Path, other: &Path| {
                (path.device, self.neighbour(path)) == (other.device, self.neighbour(other))
            };
            let weights = self.alive().filter(|other| same(other, path));
            let weight: u64 = weights.map(|path| u64::from(path.weight)).sum();
            let shares = ways.iter().filter(|way| self.is_path(path, (way.0, way.1)));
            let share: u64 = shares.map(|way| u64::from(way.2)).sum();
            let wanted = weight * FLOWS / total.max(1);
            let rounding = self.route.paths.len() as u64; // each path has a bound that is rounded
            let is_left = share == 0 && wanted <= left_to_linux + rounding;
            if !is_left && share.abs_diff(wanted) > rounding {
                return Err("Linux gives the paths other shares");
            }
        }
        Ok(())
    }

    fn tunnel(&self, device: PortId) -> Result<(), &'static str> {
        let device = self.ifindex(device);
        match self.alive().any(|path| Some(path.device) == device) {
            true => Ok(()),
            false => Err("Linux sends it by another interface"),
        }
    }

    /// Whether Bora sends no longer packets than Linux does.
    fn mtu(&self, port: PortId, mtu: u16) -> Result<(), &'static str> {
        let linux =
            { self.ifindex(port) }.map_or(0, |device| longest(self.route, device, self.around));
        match u32::from(mtu) <= linux {
            true => Ok(()),
            false => Err(LONGER),
        }
    }
}
