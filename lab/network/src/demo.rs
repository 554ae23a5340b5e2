//! `make demo`: the kernel forwards, then Bora does the same work; Bora is killed and restarted
//! under load.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use crate::network::{Daemon, Network};
use crate::testbed::{Measured, Offer, Testbed, Traffic};

/// One measurement of the table.
const TIME: Duration = Duration::from_millis(800);
/// Comparisons that each work is to have, and rounds in which they are tried.
const WANTED: usize = 3;
const ROUNDS: usize = 6;
/// Most that what was offered to the one may be of what was offered to the other: more says that something else used
/// the CPUs meanwhile.
const EQUAL: f64 = 1.5;
const OUTAGE_TIME: Duration = Duration::from_secs(4);
const FLOWS: u32 = 64;

const WORK: [(&str, Traffic); 3] = [
    ("IPv4, 64-byte frames", Traffic::V4(64)),
    ("IPv6, 84-byte frames", Traffic::V6(84)),
    ("IPv4, IMIX 7:4:1", Traffic::Imix),
];

/// The kernel and Bora, one after the other, with one of the works.
struct Comparison {
    kernel: Measured,
    ours: Measured,
}

impl Comparison {
    fn is_fair(&self) -> bool {
        let offered = [&self.kernel, &self.ours].map(offered);
        offered[0].max(offered[1]) <= EQUAL * offered[0].min(offered[1])
    }

    fn ratio(&self) -> f64 {
        self.ours.rate() / self.kernel.rate()
    }
}

/// Runs the demo with this binary of Bora, and tells its story to `out`; `rate` is in packets a second, for the outages.
///
/// # Errors
/// If a namespace cannot be made (root?), Bora does not start, or `out` takes nothing.
pub fn run(bora: &Path, rate: u64, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(
        out,
        "Three network namespaces: host-a sends, the router forwards, host-b counts.\n\
         Virtual links, so the rates are this machine's, not a network card's; what counts is\n\
         the ratio of the same work done by the kernel and by Bora.\n"
    )?;
    let mut testbed = Testbed::new(bora)?;
    let network = testbed.network();

    writeln!(
        out,
        "1. The kernel forwards, then Bora (bora run --port ra --port rb), in turn."
    )?;
    let mut comparisons = [const { Vec::new() }; WORK.len()];
    for round in 0..ROUNDS {
        let lacks = |found: &Vec<Comparison>| fair(found).count() < WANTED;
        if round > 0 && !comparisons.iter().any(lacks) {
            break;
        }
        let kernel = work(&mut testbed, "the kernel", out)?;
        let daemon = network.start("auto", &[])?;
        let ours = work(&mut testbed, "Bora", out)?;
        if round == 0 {
            report_drops(&network, out)?;
        }
        network.stop(daemon)?;
        for ((found, kernel), ours) in comparisons.iter_mut().zip(kernel).zip(ours) {
            found.push(Comparison { kernel, ours });
        }
    }
    writeln!(
        out,
        "\n{:<24}{:>14}{:>14}{:>9}   lowest and highest ratio",
        "packets/s", "kernel", "Bora", "ratio"
    )?;
    for ((name, _), found) in WORK.iter().zip(&comparisons) {
        writeln!(out, "{name:<24}{}", result(found))?;
    }

    let daemon = network.start("auto", &[])?;
    outages(&mut testbed, daemon, rate, out)?;

    writeln!(
        out,
        "\nWhat you saw: Bora's XDP program forwards by a copy of the kernel's routes, so nothing had\n\
         to be configured. When Bora dies the program passes everything to the kernel, which has\n\
         the same routes; a new Bora swaps its program in without touching the interface. The\n\
         longest silence is the time between two packets that arrived, by when they were due to leave."
    )?;
    Ok(())
}

fn fair(found: &[Comparison]) -> impl Iterator<Item = &Comparison> {
    found.iter().filter(|one| one.is_fair())
}

/// Packets a second that the sender tried to send.
fn offered(measured: &Measured) -> f64 {
    (measured.sent + measured.refused) as f64 / measured.time.as_secs_f64()
}

/// A line of the table: the fair comparison in the middle, and how far apart they are. One alone is no result, because
/// nothing tells whether it would be so again.
fn result(found: &[Comparison]) -> String {
    let mut good: Vec<&Comparison> = fair(found).collect();
    good.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
    let (Some(first), Some(last), true) = (good.first(), good.last(), good.len() >= WANTED) else {
        return format!(
            "   no result: in {} of {} comparisons the sender offered both the same. Is the machine busy?",
            good.len(),
            found.len()
        );
    };
    let middle = good[good.len() / 2];
    format!(
        "{:>14.0}{:>14.0}{:>8.2}x   {:.2}x to {:.2}x",
        middle.kernel.rate(),
        middle.ours.rate(),
        middle.ratio(),
        first.ratio(),
        last.ratio()
    )
}

/// Kills, restarts and stops Bora while packets are sent.
fn outages(
    testbed: &mut Testbed,
    daemon: Daemon,
    rate: u64,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "\n2. kill -9 under load, {rate} packets/s: the kernel carries on by itself."
    )?;
    let network = testbed.network();
    let mut victim = daemon;
    let offer = Offer {
        traffic: Traffic::V4(64),
        flows: FLOWS,
        rate,
        time: OUTAGE_TIME,
    };
    let killed = testbed.measure(offer, || {
        std::thread::sleep(OUTAGE_TIME / 2);
        victim.kill()
    })?;
    print_outage("kill -9", &killed, out)?;

    writeln!(
        out,
        "\n3. A new Bora takes over under load, and is stopped in order."
    )?;
    let mut restarted = None;
    let taken_over = testbed.measure(offer, || {
        std::thread::sleep(OUTAGE_TIME / 4);
        restarted = Some(network.start("auto", &[])?);
        Ok(())
    })?;
    print_outage("restart", &taken_over, out)?;
    let stopped = testbed.measure(offer, || {
        std::thread::sleep(OUTAGE_TIME / 2);
        drop(restarted);
        Ok(())
    })?;
    print_outage("SIGTERM", &stopped, out)?;
    Ok(())
}

fn work(
    testbed: &mut Testbed,
    subject: &str,
    out: &mut dyn Write,
) -> anyhow::Result<Vec<Measured>> {
    let mut results = Vec::new();
    for (name, traffic) in WORK {
        progress(&format!("   {subject}, {name} …"), out)?;
        let offer = Offer {
            traffic,
            flows: FLOWS,
            rate: 0,
            time: TIME,
        };
        let measured = testbed.measure(offer, || Ok(()))?;
        writeln!(
            out,
            "{}{subject:<12}{name:<24}{:>12.0} packets/s of {:.0} offered",
            start_of_line(),
            measured.rate(),
            offered(&measured)
        )?;
        results.push(measured);
    }
    Ok(results)
}

fn report_drops(network: &Network, out: &mut dyn Write) -> anyhow::Result<()> {
    let report = network.show("drops")?;
    writeln!(out, "\nWhere Bora's packets went (bora show drops):")?;
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    writeln!(
        out,
        "   received {}, sent {}, handed to Linux {}, held {}",
        number("received"),
        number("sent"),
        number("passed"),
        number("held")
    )?;
    for (name, count) in report["punts"].as_object().into_iter().flatten() {
        writeln!(out, "   to Linux: {name} {count}")?;
    }
    for (name, count) in report["drops"].as_object().into_iter().flatten() {
        writeln!(out, "   dropped: {name} {count}")?;
    }
    writeln!(
        out,
        "   What the sender offered beyond that was refused by the full virtual link before it."
    )?;
    Ok(())
}

fn print_outage(what: &str, measured: &Measured, out: &mut dyn Write) -> io::Result<()> {
    let arrived = &measured.arrived;
    writeln!(
        out,
        "   {what}: sent {}, lost {}, out of order {}, longest silence {:.1} ms",
        measured.sent,
        measured.sent.saturating_sub(arrived.received),
        arrived.reordered,
        arrived.longest_gap as f64 / 1e6,
    )
}

fn progress(text: &str, out: &mut dyn Write) -> io::Result<()> {
    if io::stdout().is_terminal() {
        write!(out, "{text}")?;
        out.flush()?;
    }
    Ok(())
}

fn start_of_line() -> &'static str {
    if io::stdout().is_terminal() {
        "\r\x1b[K   "
    } else {
        "   "
    }
}

#[cfg(test)]
mod tests {
    use bora_tester::received::StreamReceived;

    use super::*;

    fn measured(offered: u64, arrived: u64) -> Measured {
        Measured {
            sent: offered,
            refused: 0,
            arrived: StreamReceived {
                received: arrived,
                ..StreamReceived::default()
            },
            time: Duration::from_secs(1),
        }
    }

    fn comparison(kernel: (u64, u64), ours: (u64, u64)) -> Comparison {
        Comparison {
            kernel: measured(kernel.0, kernel.1),
            ours: measured(ours.0, ours.1),
        }
    }

    #[test]
    fn a_sender_that_was_disturbed_gives_no_ratio() {
        let disturbed = || comparison((671_000, 300_000), (126_000, 100_000));
        let quiet = |ours| comparison((600_000, 200_000), (640_000, ours));
        let mut found = vec![disturbed(), quiet(400_000), quiet(800_000)];
        assert!(result(&found).contains("no result"), "{}", result(&found));
        assert!(result(&found).contains("2 of 3"), "{}", result(&found));
        found.push(quiet(600_000));
        assert!(
            result(&found).contains("3.00x   2.00x to 4.00x"),
            "{}",
            result(&found)
        );
        assert!(!comparison((0, 0), (126_000, 0)).is_fair());
    }
}
