//! What a turn of the loop does is bounded, whatever number of routes there are.

mod common;

use std::time::{Duration, Instant};

use bora_mirror::MirrorConfig;
use bora_testing::ip_batch;
use common::{Router, run, with_config};

const ROUTES: usize = 150_000;
const PATIENCE: Duration = Duration::from_secs(120);

fn batch(lines: impl Iterator<Item = String>) {
    ip_batch(&lines.collect::<Vec<_>>().join("\n"));
}

fn prefix(n: usize) -> String {
    format!("{}.{}.{}.0/24", 20 + (n >> 16), n >> 8 & 255, n & 255)
}

fn flap(verb: &str, n: usize) -> String {
    format!(
        "route {verb} 10.{}.{}.0/24 via 10.0.0.2",
        100 + (n >> 8),
        n & 255
    )
}

/// The turns until kernel and FIB agree: how many, the longest, and all together.
fn turns(router: &mut Router, mut each: impl FnMut(&mut Router)) -> (u32, Duration, Duration) {
    let (mut count, mut longest, mut all) = (0, Duration::ZERO, Duration::ZERO);
    let start = Instant::now();
    loop {
        let changes = router.mirror.poll(Duration::from_millis(20)).unwrap();
        count += 1;
        longest = longest.max(changes.took);
        all += changes.took;
        each(router);
        let status = router.mirror.status();
        if status.in_sync {
            return (count, longest, all);
        }
        assert!(start.elapsed() < PATIENCE, "{status:#?}");
    }
}

/// Events are lost, so all is read again, in many turns. Those that come meanwhile count, and no route goes that Linux has, also when
/// events are lost once more.
#[test]
fn all_is_read_again_in_steps() {
    let config = MirrorConfig {
        event_buffer: 1 << 16,
        ..MirrorConfig::default()
    };
    with_config(config, |router| {
        batch((0..ROUTES).map(|n| format!("route add {} via 10.0.{}.2", prefix(n), n % 2)));
        let (count, longest, all) = turns(router, |_| ());
        assert!(router.mirror.status().overflows > 0);
        assert!(
            count > 20 && longest < all / 4,
            "{count} turns in {all:?}, the longest took {longest:?}"
        );
        batch((0..1000).map(|n| flap("add", n)));
        let reconciled = router.mirror.status().reconciliations;
        let all = router.mirror.fib().len4();
        let mut left = 40;
        let (count, ..) = turns(router, |router| {
            if left > 0 {
                left -= 1;
                batch((0..25).map(|n| flap(if left % 2 == 1 { "del" } else { "add" }, n)));
            }
            assert!(
                router.mirror.fib().len4() >= all - 25,
                "routes went that Linux has"
            );
        });
        let status = router.mirror.status();
        assert!(
            count > 20 && status.reconciliations > reconciled,
            "{status:#?}"
        );
        assert_eq!(router.mirror.verify().unwrap(), []);
        let routes = router.mirror.status().v4.kernel_routes;
        batch([flap("del", 999)].into_iter());
        turns(router, |_| ());
        assert_eq!(router.mirror.status().v4.kernel_routes, routes - 1);
    });
}

/// Linux announces all routes of a group again when it changes.
#[test]
fn a_group_of_many_routes_changes_in_steps() {
    with_config(MirrorConfig::default(), |router| {
        run("ip nexthop add id 1 via 10.0.0.2 dev r0");
        run("ip nexthop add id 2 via 10.0.1.2 dev r1");
        run("ip nexthop add id 10 group 1/2");
        batch((0..ROUTES).map(|n| format!("route add {} nhid 10", prefix(n))));
        turns(router, |_| ());
        run("ip nexthop replace id 10 group 1");
        let (count, longest, all) = turns(router, |_| ());
        assert!(
            count > 20 && longest < all / 4,
            "{count} turns in {all:?}, the longest took {longest:?}"
        );
        assert_eq!(router.ways("20.0.0.1").len(), 1);
        assert_eq!(router.mirror.verify().unwrap(), []);
    });
}
