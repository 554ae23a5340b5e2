use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::plan::{ChurnSection, RoutesSection};

struct Namespace(String);

impl Namespace {
    /// A router with a port towards 10.1.0.2.
    fn new(name: &str) -> Self {
        let name = format!("bora-test-{}-{name}", std::process::id());
        let this = Self(name);
        let script = format!(
            "ip netns add {0} && ip -n {0} link add d0 type veth peer name d1 \
             && ip -n {0} link set d0 up && ip -n {0} link set d1 up \
             && ip -n {0} addr add 10.1.0.1/24 dev d0",
            this.0
        );
        let status = Command::new("sh").args(["-c", &script]).status().unwrap();
        assert!(status.success());
        this
    }

    fn device(&self, section: RouterSection) -> Device {
        let shell = Some(format!("ip netns exec {}", self.0));
        Device::new(RouterSection { shell, ..section }, None)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn count(device: &Device) -> usize {
    let routes = device.execute("ip route show proto 214 | wc -l").unwrap();
    routes.trim().parse().unwrap()
}

#[test]
fn commands_say_what_went_wrong() {
    let device = Device::new(RouterSection::default(), None);
    assert_eq!(device.execute("echo \"a  b\" 'c'").unwrap(), "a  b c\n");
    let error = device.execute("echo no such thing; exit 3").unwrap_err();
    assert!(format!("{error:#}").contains("no such thing"), "{error:#}");
    // a daemon that stays is not waited for
    let start = Instant::now();
    device.execute("sleep 3 &").unwrap();
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn routes_come_and_go() {
    let space = Namespace::new("routes");
    let routes = Some(RoutesSection { count: 5000 });
    let device = space.device(RouterSection {
        routes,
        ..RouterSection::default()
    });
    let via = ["10.1.0.2".parse().unwrap(), "10.1.0.3".parse().unwrap()];
    device.add_routes(false, 1, &via).unwrap();
    assert_eq!(count(&device), 5000);
    let first = device.execute("ip route show proto 214 via 10.1.0.2 | wc -l");
    assert_eq!(first.unwrap().trim(), "2500");
    // what a killed run has left goes
    let network = "198.18.0.0/16".parse().unwrap();
    device.add_networks(&[(network, via[0])]).unwrap();
    assert_eq!(count(&device), 1);
    device.add_routes(false, 1, &via).unwrap();
    assert_eq!(count(&device), 5001);
    device.remove_routes().unwrap();
    assert_eq!(count(&device), 0);
    let error = device.add_routes(false, 1, &["10.2.0.2".parse().unwrap()]);
    assert!(error.is_err(), "the next hop is not reachable");
}

#[test]
fn churn_leaves_no_route() {
    let space = Namespace::new("churn");
    let churn = Some(ChurnSection {
        rate: 2000,
        routes: Some(300),
    });
    let device = space.device(RouterSection {
        churn,
        ..RouterSection::default()
    });
    let changes = Arc::new(AtomicU64::new(0));
    let time = Duration::from_millis(500);
    let hook = device.churn("10.1.0.2".parse().unwrap(), time, changes.clone());
    hook.unwrap()().unwrap();
    let done = changes.load(Ordering::Relaxed);
    assert!((800..=1000).contains(&done), "{done}");
    assert_eq!(count(&device), 0);
}
