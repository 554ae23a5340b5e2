use std::net::IpAddr;

use super::*;
use crate::ports::{Attached, Kind, PortSpec};
use crate::traffic::Values;

fn ports(count: u8) -> Vec<PortSpec> {
    let port = |n: u8| PortSpec {
        name: format!("p{n}"),
        kind: Kind::Memory(n.into()),
        netns: None,
        v4: Some(Attached {
            address: [10, 1, n, 2].into(),
            prefix_length: 24,
            gateway: Some([10, 1, n, 1].into()),
        }),
        v6: Some(Attached {
            address: [0xfd01, 0, 0, n.into(), 0, 0, 0, 2].into(),
            prefix_length: 64,
            gateway: None,
        }),
        speed: None,
        cpu: None,
    };
    (0..count).map(port).collect()
}

const HEAD: &str = "title = \"t\"\nsizes = [64]\n";
const TEST: &str = "[[test]]\nmethod = \"throughput\"\n";

#[test]
fn bad_plans_get_the_line_and_the_reason() {
    for (text, line, what) in [
        ("title = \"t\"\n".into(), "line 1", "missing field `sizes`"),
        (HEAD.into(), "", "no tests"),
        (
            format!("{HEAD}colour = 1\n{TEST}"),
            "line 3, column 1",
            "unknown field `colour`",
        ),
        (
            format!("title = \"t\"\nsizes = []\n{TEST}"),
            "line 2, column 9",
            "no frame sizes",
        ),
        (
            format!("title = \"t\"\nsizes = [64, 60]\n{TEST}"),
            "line 2",
            "60",
        ),
        (
            format!("title = \"t\"\nsizes = [64, 64]\n{TEST}"),
            "line 2",
            "there twice",
        ),
        (
            format!("title = \"t\"\nsizes = [\"jumbo\"]\n{TEST}"),
            "line 2",
            "jumbo",
        ),
        (
            format!("title = \"t\"\nfamily = \"ipv6\"\nsizes = [64]\n{TEST}"),
            "line 3",
            "IPv6 frames take 84 octets",
        ),
        (
            format!("{HEAD}[[test]]\nmethod = \"magic\"\n"),
            "line 4, column 10",
            "frame-loss",
        ),
        (
            format!("{HEAD}{TEST}{TEST}"),
            "line 6, column 10",
            "give this one a name",
        ),
        (
            format!("{HEAD}{TEST}rate = \"5 %\"\n"),
            "line 5, column 8",
            "does not use `rate`",
        ),
        (
            format!("{HEAD}{TEST}time = \"5\"\n"),
            "line 5, column 8",
            "not a time",
        ),
        (
            format!("{HEAD}{TEST}time = {{short = \"5 s\"}}\n"),
            "line 5",
            "missing field `full`",
        ),
        (
            format!("{HEAD}{TEST}loss = [\"0.1\"]\n"),
            "line 5, column 9",
            "not a share",
        ),
        (
            format!("{HEAD}{TEST}width = \"0 %\"\n"),
            "line 5, column 9",
            "from 0.01 %",
        ),
        (
            format!("{HEAD}{TEST}time = \"0 s\"\n"),
            "line 5, column 8",
            "at least 1 ms",
        ),
        (
            format!("{HEAD}{TEST}burst = 0\n"),
            "line 5, column 9",
            "from 1 to 10000",
        ),
        (
            format!("{HEAD}[[test]]\nmethod = \"back-to-back\"\nburst = 2\n"),
            "line 5, column 9",
            "does not use `burst`",
        ),
        (
            format!("{HEAD}settle = \"2 h\"\n{TEST}"),
            "line 3, column 10",
            "from 0 s to 1 h",
        ),
        (
            format!("{HEAD}{TEST}traffic = {{pattern = \"ring\"}}\n"),
            "line 5",
            "none of the patterns",
        ),
        (
            format!("{HEAD}{TEST}traffic = {{flows = 0}}\n"),
            "line 5, column 20",
            "flows are possible",
        ),
        (
            format!("{HEAD}{TEST}traffic = {{dscp = 64}}\n"),
            "line 5, column 19",
            "from 0 to 63",
        ),
        (
            format!("{HEAD}{TEST}traffic = {{destinations = \"routes\"}}\n"),
            "line 5, column 27",
            "[router] needs `routes`",
        ),
        (
            format!("{HEAD}{TEST}traffic = {{sources = \"10.0.0.1/8\"}}\n"),
            "line 5, column 22",
            "bits set behind",
        ),
        (
            format!("{HEAD}[[test]]\nmethod = \"churn\"\n"),
            "line 4, column 10",
            "needs `churn` in [router]",
        ),
        (
            format!("{HEAD}[router]\nroutes = {{count = 0}}\n{TEST}"),
            "line 4, column 19",
            "0 routes",
        ),
        (
            format!("{HEAD}[[port]]\nname = \"a\"\ninterface = \"e0\"\n{TEST}"),
            "line 3",
            "at least two",
        ),
        (
            format!(
                "{HEAD}[[port]]\nname = \"a\"\ninterface = \"e0\"\naddress = \"10.0.0.1\"\n{TEST}"
            ),
            "line 6, column 11",
            "with a length",
        ),
    ] {
        let error = Plan::parse(&text).unwrap_err().to_string();
        assert!(error.contains(what), "{text}\n{error}");
        assert!(error.contains(line), "{text}\n{error}");
    }
}

#[test]
fn every_shipped_plan_expands_for_two_and_for_eight_ports() {
    for (name, text) in SHIPPED {
        let plan = Plan::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (count, length) in [(2, Length::Short), (8, Length::Full)] {
            let (cases, notes) = plan.cases(&ports(count), length).unwrap();
            assert!(!cases.is_empty(), "{name}");
            let left_out = notes.iter().any(|note| note.contains("left out"));
            assert!(count == 2 || !left_out, "{name}: {notes:?}");
            for case in &cases {
                let streams = &case.traffic.streams;
                assert!(!streams.is_empty(), "{name}");
                for stream in streams {
                    assert!(stream.from.max(stream.to) < count.into(), "{name}");
                }
            }
        }
    }
}

#[test]
fn routers_settle_in_full_runs() {
    let seconds = |text: &str| {
        let plan = Plan::parse(text).unwrap();
        [Length::Short, Length::Full].map(|length| plan.settle.pick(length).0.as_secs_f64())
    };
    assert_eq!(seconds(&format!("{HEAD}{TEST}burst = 930\n")), [0.0, 5.0]);
    assert_eq!(
        seconds(&format!("{HEAD}settle = \"0 s\"\n{TEST}")),
        [0.0; 2]
    );
    let given = "settle = {short = \"0 s\", full = \"10 s\"}\n";
    assert_eq!(seconds(&format!("{HEAD}{given}{TEST}")), [0.0, 10.0]);
}

#[test]
fn a_plan_becomes_streams() {
    let text = format!(
        "title = \"t\"\nsizes = [84]\nfamily = \"both\"\n[traffic]\npattern = \"both ways\"\nflows = 9\n{TEST}\
         sizes = [84, 1518]\ntraffic = {{flows = 4, vlan = 7}}\n"
    );
    let error = Plan::parse(&text).unwrap_err().to_string();
    assert!(error.contains("88 octets"), "{error}");
    let text = text
        .replace("[84,", "[88,")
        .replace("sizes = [64]", "sizes = [84]");
    let plan = Plan::parse(&text).unwrap();
    let (cases, notes) = plan.cases(&ports(2), Length::Short).unwrap();
    assert!(notes.is_empty());
    let names: Vec<(bool, &str)> = cases
        .iter()
        .map(|case| (case.v6, &*case.traffic.frames.name))
        .collect();
    assert_eq!(
        names,
        [(false, "88"), (false, "1518"), (true, "88"), (true, "1518")]
    );
    let stream = &cases[2].traffic.streams[1];
    let address = |text: &str| Values::List(vec![text.parse::<IpAddr>().unwrap()]);
    assert_eq!((stream.from, stream.to, stream.flows), (1, 0, 4));
    assert_eq!(stream.vlan, Some((7, 0)));
    assert_eq!(stream.sources, address("fd01:0:0:1::2"));
    assert_eq!(stream.destinations, address("fd01::2"));
}

#[test]
fn test_networks_and_routes_are_divided() {
    let text = format!(
        "{HEAD}[router]\nroutes = {{count = 1000}}\n{TEST}name = \"a\"\n\
         traffic = {{destinations = \"random benchmark\", pattern = \"both ways\"}}\n\
         routes = false\n{TEST}traffic = {{destinations = \"routes\", pattern = \"both ways\"}}\n"
    );
    let plan = Plan::parse(&text).unwrap();
    let (cases, notes) = plan.cases(&ports(2), Length::Short).unwrap();
    let routes =
        "`ip route add 198.18.0.0/16 via 10.1.0.2`, `ip route add 198.19.0.0/16 via 10.1.1.2`.";
    assert!(notes.len() == 1 && notes[0].contains(routes), "{notes:?}");
    let networks: Vec<String> = cases[0]
        .networks
        .iter()
        .map(|(prefix, port)| format!("{prefix} {port}"))
        .collect();
    assert_eq!(networks, ["198.18.0.0/16 0", "198.19.0.0/16 1"]);
    assert_eq!(cases[0].routed, None);
    assert_eq!(cases[1].routed, Some(vec![0, 1]));
    let range = |case: &Case, stream: usize| match &case.traffic.streams[stream].destinations {
        Values::Random { first, last, .. } => (*first, *last),
        other => panic!("{other:?}"),
    };
    // the stream to port 1 is the first
    let (to_b, to_a) = (range(&cases[1], 0), range(&cases[1], 1));
    assert!(to_a.1 < to_b.0);
    assert_eq!(
        range(&cases[0], 0).0,
        "198.19.0.1".parse::<IpAddr>().unwrap()
    );
}

#[test]
fn tests_that_do_not_fit_the_ports() {
    let plan = Plan::parse(&format!("{HEAD}{TEST}ports = 4\n")).unwrap();
    let (cases, notes) = plan.cases(&ports(2), Length::Short).unwrap();
    assert!(cases.is_empty());
    assert!(notes[0].contains("needs 4 ports, not 2"), "{notes:?}");

    let plan = Plan::parse(&format!("{HEAD}{TEST}")).unwrap();
    let error = plan.cases(&ports(3), Length::Short).unwrap_err();
    assert!(format!("{error:#}").contains("even number"), "{error:#}");
    let mut without = ports(2);
    without[1].v4 = None;
    let error = plan.cases(&without, Length::Short).unwrap_err();
    assert!(
        format!("{error:#}").contains("port p1 has no `address`"),
        "{error:#}"
    );
}
