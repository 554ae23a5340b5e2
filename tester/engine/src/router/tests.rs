use bora_linux::netns::Namespace;

use super::*;
use crate::plan::{ChurnSection, RoutesSection};

/// A router with a port towards 10.1.0.2.
fn router(test: &str) -> Namespace {
    let space = Namespace::new(&format!("router-{test}")).unwrap();
    let links = "ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up \
                 && ip addr add 10.1.0.1/24 dev d0";
    space.run(links).unwrap();
    space
}

fn device(space: &Namespace, section: RouterSection) -> Device {
    let shell = Some(format!("ip netns exec {space}"));
    Device::new(RouterSection { shell, ..section }, None, None)
}

fn count(device: &Device) -> usize {
    let routes = device
        .execute("(ip route show proto 214; ip route show proto 215) | wc -l")
        .unwrap();
    routes.trim().parse().unwrap()
}

#[test]
fn commands_say_what_went_wrong() {
    let device = Device::new(RouterSection::default(), None, None);
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
    let space = router("routes");
    let routes = Some(RoutesSection { count: 5000 });
    let device = device(
        &space,
        RouterSection {
            routes,
            ..RouterSection::default()
        },
    );
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
    let space = router("churn");
    let churn = Some(ChurnSection {
        rate: 2000,
        routes: Some(300),
    });
    let device = device(
        &space,
        RouterSection {
            churn,
            ..RouterSection::default()
        },
    );
    let changes = Arc::new(Changes::default());
    let time = Duration::from_millis(500);
    let hook = device.churn("10.1.0.2".parse().unwrap(), time, changes.clone());
    hook.unwrap()().unwrap();
    let done = changes.done();
    assert!((800..=1000).contains(&done), "{done}");
    assert_eq!(count(&device), 0);
}

fn churning(space: &Namespace, rate: u32) -> Device {
    let routes = Some(300);
    device(
        space,
        RouterSection {
            churn: Some(ChurnSection { rate, routes }),
            ..RouterSection::default()
        },
    )
}

#[test]
fn churn_leaves_other_routes_and_tells_its_rate() {
    let space = router("rate");
    let device = churning(&space, 2000);
    let via: IpAddr = "10.1.0.2".parse().unwrap();
    let network = "198.18.0.0/16".parse().unwrap();
    device.add_networks(&[(network, via)]).unwrap();
    let changes = Arc::new(Changes::default());
    let time = Duration::from_millis(200);
    device.churn(via, time, changes.clone()).unwrap()().unwrap();
    assert_eq!(count(&device), 1, "the network's stays");
    let note = changes.note().unwrap();
    assert!(note.contains("400 were asked for"), "{note}");
}

#[test]
fn changes_that_the_router_refuses_are_told() {
    let space = router("refused");
    let device = churning(&space, 2000);
    let changes = Arc::new(Changes::default());
    let via = "10.2.0.2".parse().unwrap();
    let hook = device.churn(via, Duration::from_millis(200), changes.clone());
    let error = format!("{:#}", hook.unwrap()().unwrap_err());
    assert!(
        error.contains("ip on the router: ") && error.contains("-:1"),
        "{error}"
    );
    assert_eq!(changes.done(), 0);
    // a shell that takes everything and does nothing
    let churn = Some(ChurnSection {
        rate: 2000,
        routes: None,
    });
    let shell = Some("sh -c 'cat >/dev/null'".into());
    let section = RouterSection {
        churn,
        shell,
        ..RouterSection::default()
    };
    let device = Device::new(section, None, None);
    let hook = device.churn(via, Duration::from_millis(100), changes);
    let error = format!("{:#}", hook.unwrap()().unwrap_err());
    assert!(error.contains("the routes did not come"), "{error}");
}

#[test]
fn a_stop_ends_churn_and_commands_but_not_the_cleaning() {
    let space = router("stop");
    let mut device = churning(&space, 2000);
    let stop = Arc::new(AtomicBool::new(false));
    device.set_stop(stop.clone());
    let via: IpAddr = "10.1.0.2".parse().unwrap();
    device
        .add_networks(&[("198.18.0.0/16".parse().unwrap(), via)])
        .unwrap();
    let hook = device
        .churn(via, Duration::from_secs(30), Arc::default())
        .unwrap();
    let start = Instant::now();
    thread::scope(|scope| {
        let churn = scope.spawn(|| hook());
        let command = scope.spawn(|| device.execute("sleep 30"));
        thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        churn.join().unwrap().unwrap();
        let error = format!("{:#}", command.join().unwrap().unwrap_err());
        assert!(error.contains("stopped by the user"), "{error}");
    });
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    device.remove_routes().unwrap();
    stop.store(false, Ordering::Relaxed);
    assert_eq!(count(&device), 0);
}

/// Ctrl-C in a terminal goes to the tester's whole process group.
#[test]
fn commands_have_a_process_group_of_their_own() {
    let device = Device::new(RouterSection::default(), None, None);
    // this process may have none that it can name: its group's leader may be outside its PID namespace
    let own = "ps -o pgid= -p";
    let groups = device.execute(&format!("{own} $$; {own} $PPID")).unwrap();
    let groups: Vec<&str> = groups.split_whitespace().collect();
    assert!(groups.len() == 2 && groups[0] != groups[1], "{groups:?}");
}
