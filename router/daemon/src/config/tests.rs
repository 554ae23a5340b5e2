use bora_forward::schedule::Output;
use proptest::prelude::*;

use super::sections::MAX_WORKERS;
use super::*;

fn parse(text: &str) -> Result<File, String> {
    File::parse(text).map_err(|error| format!("{error:#}"))
}

#[test]
fn text_and_back() {
    let text = "path = \"engine\"\n[[port]]\nname = \"eth0\"\n[workers]\ncores = [1, 2]\n\
                mode = \"moderated:8:50\"\n[fib]\ntable = \"dir24\"\n[dscp]\nEF = 0\n\
                [[rule]]\nname = \"dns\"\nprotocol = \"udp\"\ndestination_ports = 53\nclass = 1\n";
    let file = parse(text).unwrap();
    assert_eq!((file.fib.memory, file.fib.table), (256, Table::Dir24));
    assert_eq!((file.ports[0].quota, file.workers.budget), (64, 300));
    assert_eq!(parse(&file.to_text().unwrap()).unwrap(), file);
    // the API speaks JSON
    let json = serde_json::to_string(&file).unwrap();
    assert_eq!(serde_json::from_str::<File>(&json).unwrap(), file);
    assert_eq!(
        (&*file.ports[0].name, &file.workers.cores[..]),
        ("eth0", &[1, 2][..])
    );
    assert!(file.path == PathChoice::Engine && file.needs_engine());
}

#[test]
fn the_most_workers_can_be_replaced() {
    let cores = |count: usize| WorkersSection {
        cores: (0..count).collect(),
        ..WorkersSection::default()
    };
    let mut file = parse("[[port]]\nname = \"a\"\n").unwrap();
    file.workers = cores(MAX_WORKERS);
    file.check().unwrap();
    let (_writer, handle) = bora_fib::new(file.fib.config()).unwrap();
    let old_and_new = (0..2 * MAX_WORKERS).map(|_| handle.reader());
    let readers: Vec<_> = old_and_new.collect::<Result<_, _>>().unwrap();
    drop(readers);
    file.workers = cores(MAX_WORKERS + 1);
    assert!(file.check().is_err());
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let two = "[[port]]\nname = \"a\"\n[[port]]\nname = \"b\"\n";
    for (rest, place, words) in [
        ("speed = 10\n", "line 5, column 9", "`speed`"),
        ("[workers]\nmode = \"napi\"\n", "line 6, column 8", "napi"),
        ("[workers]\nbudget = 0\n", "line 6, column 10", "budget"),
        ("[fib]\nmemory = -1\n", "line 6, column 10", "u16"),
        ("[fib]\nmemory = 0\n", "line 6, column 10", "1 to 1024"),
        (
            "[fib]\nexpress_memory = 1025\n",
            "line 6, column 18",
            "at most 1024",
        ),
        ("quota = 257\n", "line 5, column 9", "1 to 256"),
        ("[[port]]\nname = \"a\"\n", "line 6, column 8", "twice"),
        (
            "[port.queues]\nrate = \"0Mbit\"\n",
            "line 6, column 8",
            "lets nothing through",
        ),
        (
            "[port.queues]\nrate = \"fast\"\n",
            "line 6, column 8",
            "100Mbit",
        ),
        (
            "[port.queues]\nburst = 5000\n",
            "line 6, column 9",
            "without a rate",
        ),
        (
            "[port.queues]\nrate = \"1Mbit\"\nburst = 100\n",
            "line 7, column 9",
            "4096",
        ),
        (
            "[[port.queues.class]]\nquantum = 100\n",
            "line 6, column 11",
            "1514",
        ),
        (
            "[[port.queues.class]]\npackets = 0\n",
            "line 6, column 11",
            "from 1",
        ),
        (
            "[[port.queues.class]]\noctets = 9\n",
            "line 6, column 10",
            "4096",
        ),
        (
            "[[rule]]\nin_port = \"a/b\"\n",
            "line 6, column 11",
            "name of an interface",
        ),
        (
            "[[rule]]\noutput = \"via 10.0.0.1 dev c\"\n",
            "line 6, column 10",
            "a, b",
        ),
        (
            "[[rule]]\noutput = \"10.0.0.1\"\n",
            "line 6, column 10",
            "via ADDRESS",
        ),
        (
            "[[rule]]\nclass = 2\n",
            "line 6, column 9",
            "no class 2, only 0 to 1",
        ),
        (
            "[[rule]]\naction = \"drop\"\nclass = 1\n",
            "line 7, column 9",
            "drops",
        ),
        (
            "[[rule]]\naction = \"reject\"\n",
            "line 6, column 10",
            "drop",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.1/8\"\n",
            "line 6, column 10",
            "outside the mask",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.0/8\"\ndestination = \"::/0\"\n",
            "line 7, column 15",
            "version",
        ),
        (
            "[[rule]]\ntos = 8\ndscp = \"EF\"\n",
            "line 7, column 8",
            "same octet",
        ),
        (
            "[[rule]]\ntos = \"0x12/0xf0\"\n",
            "line 6, column 7",
            "outside the mask",
        ),
        (
            "[[rule]]\nprotocol = 1\nsource_ports = 9\n",
            "line 7, column 16",
            "no ports",
        ),
        (
            "[[rule]]\nsource_ports = \"9-8\"\n",
            "line 6, column 16",
            "before it begins",
        ),
        ("[[rule]]\npcp = 8\n", "line 6, column 7", "0 to 7"),
        ("[dscp]\nEF = 2\n", "line 6, column 6", "no class 2"),
        ("[dscp]\nEE = 1\n", "line 6, column 1", "EE"),
    ] {
        let error = parse(&format!("{two}{rest}")).unwrap_err();
        assert!(
            error.contains(place) && error.contains(words),
            "{rest}: {error}"
        );
    }
    let express = format!("path = \"express\"\n{two}[[rule]]\naction = \"drop\"\n");
    let error = parse(&express).unwrap_err();
    assert!(
        error.contains("line 1, column 8") && error.contains("[rule]"),
        "{error}"
    );
    assert!(parse("").unwrap_err().contains("no ports"));
}

/// Every field of every section has a description, and the sections are all there.
#[test]
fn the_schema_describes_every_field() {
    fn look(value: &serde_json::Value, path: &str, fields: &mut Vec<String>) {
        if let Some(properties) = value.get("properties").and_then(|found| found.as_object()) {
            for (name, property) in properties {
                assert!(
                    property.get("description").is_some(),
                    "{path}.{name} has no description"
                );
                fields.push(name.clone());
            }
        }
        match value {
            serde_json::Value::Object(map) => {
                map.iter()
                    .for_each(|(key, value)| look(value, &format!("{path}.{key}"), fields));
            }
            serde_json::Value::Array(array) => array.iter().for_each(|one| look(one, path, fields)),
            _ => {}
        }
    }
    let mut fields = Vec::new();
    look(&schema(), "", &mut fields);
    for field in [
        "port",
        "path",
        "workers",
        "fib",
        "firewall",
        "flows",
        "linux",
        "dscp",
        "rule",
        "quota",
        "queues",
        "class",
        "level",
        "quantum",
        "burst",
        "budget",
        "in_port",
        "destination_ports",
        "output",
        "bypass_netfilter",
    ] {
        assert!(fields.iter().any(|found| found == field), "{field}");
    }
}

/// The examples of the reference, and every field of the schema in it.
#[test]
fn the_reference_is_true() {
    let page = include_str!("../../../../docs/configuration.md");
    let examples: Vec<&str> = page
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(!examples.is_empty());
    for example in &examples {
        let file = parse(example).unwrap_or_else(|error| panic!("{example}\n{error}"));
        assert_eq!(parse(&file.to_text().unwrap()).unwrap(), file);
    }
    let complete = parse(examples[0]).unwrap();
    assert!(complete.rules.len() >= 3 && !complete.dscp.0.is_empty());
    let definitions = schema();
    let sections = definitions["$defs"].as_object().unwrap().values();
    for section in sections.chain([&definitions]) {
        let fields = section
            .get("properties")
            .and_then(|found| found.as_object());
        for field in fields.into_iter().flat_map(|fields| fields.keys()) {
            assert!(
                page.contains(&format!("`{field}`")),
                "the reference lacks {field}"
            );
        }
    }
}

fn queues() -> impl Strategy<Value = QueuesSection> {
    let class =
        (1..2000u32, any::<Option<u8>>(), 1514..9000u32).prop_map(|(packets, level, quantum)| {
            ClassSection {
                packets,
                level,
                quantum,
                ..ClassSection::default()
            }
        });
    let rate = || prop::option::of((1..u64::MAX).prop_map(Rate));
    let burst = || prop::option::weighted(0.2, prop_oneof![4096u32..1 << 20, any::<u32>()]);
    let class = (class, rate(), burst()).prop_map(|(class, rate, burst)| ClassSection {
        rate,
        burst,
        ..class
    });
    let classes = prop::collection::vec(class, 0..10);
    (rate(), burst(), classes).prop_map(|(rate, burst, classes)| QueuesSection {
        rate,
        burst,
        classes,
    })
}

/// The one thing the engine cannot see: without a rate there is no shaper for a burst.
fn bursts_have_rates(queues: &QueuesSection) -> bool {
    let mut classes = queues.classes.iter();
    (queues.burst.is_none() || queues.rate.is_some())
        && classes.all(|class| class.burst.is_none() || class.rate.is_some())
}

fn rules() -> impl Strategy<Value = Vec<RuleSection>> {
    let texts = [
        "action = \"drop\"",
        "protocol = 6",
        "dscp = \"AF41\"\nclass = 1",
        "source = \"10.0.0.1/255.0.0.255\"",
        "destination_ports = \"53-54\"\npcp = \"4/4\"",
    ];
    let one = prop::sample::select(texts.to_vec()).prop_map(|text| toml::from_str(text).unwrap());
    prop::collection::vec(one, 0..4)
}

fn files() -> impl Strategy<Value = File> {
    let names = prop::sample::subsequence(vec!["a", "b", "c"], 0..=3).prop_shuffle();
    let ports = names.prop_flat_map(|names| {
        let port = |name: &str| {
            let name = name.to_string();
            (1..=256u32, queues(), any::<bool>()).prop_map(move |(quota, queues, bypass_qdisc)| {
                PortSection {
                    bypass_qdisc,
                    quota,
                    queues,
                    ..PortSection::new(name.clone())
                }
            })
        };
        names.into_iter().map(port).collect::<Vec<_>>()
    });
    let workers = (
        prop::collection::vec(0..4usize, 0..3),
        1..500u32,
        any::<bool>(),
    );
    let workers = workers.prop_map(|(cores, budget, poll)| WorkersSection {
        cores,
        budget,
        mode: if poll {
            crate::Mode::Poll
        } else {
            crate::Mode::Adaptive
        },
    });
    let others = (
        any::<bool>(),
        any::<bool>(),
        1..9u16,
        1..9u64,
        any::<bool>(),
    );
    let dscp = prop::collection::btree_map((0..64u8).prop_map(CodePoint), 0..8u8, 0..4);
    (ports, workers, others, rules(), dscp).prop_map(|(ports, workers, others, rules, dscp)| {
        let (express, dir24, memory, punt_budget, bypass_netfilter) = others;
        File {
            path: if express {
                PathChoice::Express
            } else {
                PathChoice::Auto
            },
            ports,
            workers,
            fib: FibSection {
                memory,
                express_memory: memory - 1,
                table: if dir24 { Table::Dir24 } else { Table::Tree },
            },
            firewall: FirewallSection {
                flows: if express {
                    FlowChoice::Off
                } else {
                    FlowChoice::Proved
                },
            },
            linux: LinuxSection {
                punt_budget,
                bypass_netfilter,
                ..LinuxSection::default()
            },
            api: ApiSection::default(),
            sflow: match dir24 {
                true => SflowSection {
                    collector: Collectors(vec![([192, 0, 2, 9], 1 + memory).into()]),
                    sampling: 1 + u32::from(memory),
                    ..SflowSection::default()
                },
                false => SflowSection::default(),
            },
            dscp: DscpSection(dscp),
            rules,
        }
    })
}

/// The order of ports means nothing.
fn sorted(mut file: File) -> File {
    file.ports.sort_by(|one, other| one.name.cmp(&other.name));
    file
}

proptest! {
    #[test]
    fn the_difference_applied_to_the_old_gives_the_new(old in files(), new in files()) {
        let mut file = old.clone();
        for action in diff(&old, &new) {
            match action {
                Action::AddPort(port) => file.ports.push(*port),
                Action::Set(setting) => setting.apply(&mut file).unwrap(),
                Action::RemovePort(name) => file.ports.retain(|port| port.name != name),
            }
        }
        prop_assert_eq!(sorted(file), sorted(new));
    }

    #[test]
    fn equals_have_no_difference(file in files()) {
        prop_assert_eq!(diff(&file, &file), vec![]);
        let mut shuffled = file.clone();
        shuffled.ports.reverse();
        prop_assert_eq!(diff(&file, &shuffled), vec![]);
    }

    #[test]
    fn a_saved_file_is_the_same(file in files()) {
        let text = file.to_text().unwrap();
        prop_assert_eq!(&toml::from_str::<File>(&text).unwrap(), &file);
        let json = serde_json::to_string(&file).unwrap();
        prop_assert_eq!(&serde_json::from_str::<File>(&json).unwrap(), &file);
    }

    #[test]
    fn what_passes_the_check_the_engine_takes(queues in queues()) {
        let port = PortSection { queues, ..PortSection::new("a".into()) };
        let output = port.queues.output();
        let file = File { ports: vec![port], ..File::default() };
        let right = file.check().is_ok();
        prop_assert_eq!(right, Output::new(&output).is_ok() && bursts_have_rates(&file.ports[0].queues));
    }

    #[test]
    fn parsing_never_panics(text in "\\PC*") {
        let _ = File::parse(&text);
    }

    #[test]
    fn every_prefix_and_rate_comes_back(bits in any::<u128>(), length in 0..=128u32, rate in 1..u64::MAX) {
        let mask = !u128::MAX.checked_shr(length).unwrap_or(0);
        let one = AddressMatch::V6(bora_forward::classify::Ternary { value: bits & mask, mask });
        prop_assert_eq!(one.to_string().parse(), Ok(one));
        let scattered = AddressMatch::V4(bora_forward::classify::Ternary {
            value: (bits >> 64) as u32 & bits as u32,
            mask: bits as u32,
        });
        prop_assert_eq!(scattered.to_string().parse(), Ok(scattered));
        prop_assert_eq!(Rate(rate).to_string().parse(), Ok(Rate(rate)));
    }
}
