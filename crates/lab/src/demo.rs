//! `make demo`: the kernel forwards, then Bora does the same work; Bora is killed and restarted
//! under load.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::network::{Daemon, Network};
use crate::testbed::{Measured, Offer, Testbed, Traffic};

/// One measurement of the table.
const TIME: Duration = Duration::from_millis(2500);
const OUTAGE_TIME: Duration = Duration::from_secs(4);
const FLOWS: u32 = 64;

const WORK: [(&str, Traffic); 3] = [
    ("IPv4, 64-byte frames", Traffic::V4(64)),
    ("IPv6, 84-byte frames", Traffic::V6(84)),
    ("IPv4, IMIX 7:4:1", Traffic::Imix),
];

/// Runs the demo; `rate` is in packets a second, for the outages.
///
/// # Errors
/// If a namespace cannot be made (root?) or Bora does not start.
pub fn run(rate: u64) -> anyhow::Result<()> {
    let bora = std::env::current_exe()?;
    println!(
        "Three network namespaces: host-a sends, the router forwards, host-b counts.\n\
         Virtual links, so the rates are this machine's, not a network card's; what counts is\n\
         the ratio of the same work done by the kernel and by Bora.\n"
    );
    let mut testbed = Testbed::new(&bora)?;
    let network = testbed.network();

    println!("1. The kernel forwards.");
    let kernel = work(&mut testbed)?;
    println!("\n2. Bora forwards (bora run --port ra --port rb).");
    let daemon = network.start("auto", &[])?;
    let ours = work(&mut testbed)?;

    println!(
        "\n{:<24}{:>14}{:>14}{:>9}",
        "packets/s", "kernel", "Bora", "ratio"
    );
    for (((name, _), kernel), ours) in WORK.iter().zip(&kernel).zip(&ours) {
        let (kernel, ours) = (kernel.rate(), ours.rate());
        println!(
            "{name:<24}{kernel:>14.0}{ours:>14.0}{:>8.2}x",
            ours / kernel
        );
    }
    report_drops(&network)?;

    outages(&mut testbed, daemon, rate)?;

    println!(
        "\nWhat you saw: Bora's XDP program forwards by a copy of the kernel's routes, so nothing had\n\
         to be configured. When Bora dies the program passes everything to the kernel, which has\n\
         the same routes; a new Bora swaps its program in without touching the interface. The\n\
         longest silence is the time between two packets that arrived, by when they were due to leave."
    );
    Ok(())
}

/// Kills, restarts and stops Bora while packets are sent.
fn outages(testbed: &mut Testbed, daemon: Daemon, rate: u64) -> anyhow::Result<()> {
    println!("\n3. kill -9 under load, {rate} packets/s: the kernel carries on by itself.");
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
    print_outage("kill -9", &killed);

    println!("\n4. A new Bora takes over under load, and is stopped in order.");
    let mut restarted = None;
    let taken_over = testbed.measure(offer, || {
        std::thread::sleep(OUTAGE_TIME / 4);
        restarted = Some(network.start("auto", &[])?);
        Ok(())
    })?;
    print_outage("restart", &taken_over);
    let stopped = testbed.measure(offer, || {
        std::thread::sleep(OUTAGE_TIME / 2);
        drop(restarted);
        Ok(())
    })?;
    print_outage("SIGTERM", &stopped);
    Ok(())
}

fn work(testbed: &mut Testbed) -> anyhow::Result<Vec<Measured>> {
    let mut results = Vec::new();
    for (name, traffic) in WORK {
        progress(&format!("   {name} …"));
        let offer = Offer {
            traffic,
            flows: FLOWS,
            rate: 0,
            time: TIME,
        };
        let measured = testbed.measure(offer, || Ok(()))?;
        println!(
            "{}{name:<24}{:>12.0} packets/s of {:.0} offered",
            start_of_line(),
            measured.rate(),
            (measured.sent + measured.refused) as f64 / measured.time.as_secs_f64()
        );
        results.push(measured);
    }
    Ok(results)
}

fn report_drops(network: &Network) -> anyhow::Result<()> {
    let report = network.show("drops")?;
    println!("\nWhere Bora's packets went (bora show drops):");
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    println!(
        "   received {}, sent {}, handed to Linux {}, held {}",
        number("received"),
        number("sent"),
        number("passed"),
        number("held")
    );
    for (name, count) in report["punts"].as_object().into_iter().flatten() {
        println!("   to Linux: {name} {count}");
    }
    for (name, count) in report["drops"].as_object().into_iter().flatten() {
        println!("   dropped: {name} {count}");
    }
    println!(
        "   What the sender offered beyond that was refused by the full virtual link before it."
    );
    Ok(())
}

fn print_outage(what: &str, measured: &Measured) {
    let arrived = &measured.arrived;
    println!(
        "   {what}: sent {}, lost {}, out of order {}, longest silence {:.1} ms",
        measured.sent,
        measured.sent.saturating_sub(arrived.received),
        arrived.reordered,
        arrived.longest_gap as f64 / 1e6,
    );
}

fn progress(text: &str) {
    if std::io::stdout().is_terminal() {
        print!("{text}");
        let _ = std::io::stdout().flush();
    }
}

fn start_of_line() -> &'static str {
    if std::io::stdout().is_terminal() {
        "\r\x1b[K   "
    } else {
        "   "
    }
}
