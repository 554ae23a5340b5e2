//! What the tester's own work takes for a frame: `cargo run --release -p bora-tester --example
//! frames`. Frames are written to, and read from, 512 buffers of 2 KiB, as a port has them.

use std::time::Instant;

use bora_tester::analyse::Analyser;
use bora_tester::generate::Generator;
use bora_tester::link::Link;
use bora_tester::traffic::{FrameMix, Stream, Traffic, Values};
use bora_wire::MacAddr;

const BUFFERS: usize = 512;
const BUFFER: usize = 2048;
const BATCHES: u64 = 20_000;

fn main() -> anyhow::Result<()> {
    println!(
        "{:<34}{:>9}{:>9}{:>11}",
        "ns/frame, median of batches", "write", "receive", "unverified"
    );
    row("1 flow", &traffic("64", 1)?)?;
    row("8192 flows", &traffic("64", 8192)?)?;
    row("1 M flows", &traffic("64", 1 << 20)?)?;
    let mut churn = traffic("64", 8192)?;
    churn.streams[0].flow_length = Some(30);
    row("8192 flows of 30 frames", &churn)?;
    let mut random = traffic("64", 8192)?;
    random.streams[0].destinations = Values::Random {
        first: "198.19.0.0".parse()?,
        last: "198.19.255.255".parse()?,
        seed: 1,
    };
    row("8192 flows, random addresses", &random)?;
    let mut v6 = traffic("84", 8192)?;
    v6.streams[0].sources = Values::List(vec!["2001:2::1".parse()?]);
    v6.streams[0].destinations = Values::List(vec!["2001:2:0:1::1".parse()?]);
    row("IPv6, 84 octets, 8192 flows", &v6)?;
    row("imix, 1 flow", &traffic("imix", 1)?)?;
    row("1518 octets, 1 flow", &traffic("1518", 1)?)
}

fn traffic(frames: &str, flows: u32) -> anyhow::Result<Traffic> {
    let frames: FrameMix = frames.parse()?;
    let stream = Stream {
        from: 0,
        to: 1,
        weight: 1,
        flows,
        flow_length: None,
        sources: Values::List(vec!["198.18.0.2".parse()?]),
        destinations: Values::List(vec!["198.19.0.2".parse()?]),
        source_ports: match flows {
            1 => Values::List(vec![1024]),
            _ => Values::Random {
                first: 1024,
                last: u16::MAX,
                seed: 1,
            },
        },
        destination_ports: Values::List(vec![9]),
        dscp: 0,
        vlan: None,
    };
    Ok(Traffic {
        streams: vec![stream],
        frames,
    })
}

fn row(name: &str, traffic: &Traffic) -> anyhow::Result<()> {
    let [write, receive, unverified] = measure(traffic)?.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2] as f64 / BUFFERS as f64
    });
    println!("{name:<34}{write:>9.1}{receive:>9.1}{unverified:>11.1}");
    Ok(())
}

/// ns for each batch of frames: written, received, received without a look at the payload.
fn measure(traffic: &Traffic) -> anyhow::Result<[Vec<u128>; 3]> {
    let link = Link {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        next_hop: MacAddr([2, 0, 0, 0, 0, 2]),
    };
    let mut generator = Generator::new(traffic, 0, &[link])?;
    let mut checked = Analyser::new(traffic, 1, 0);
    let mut unchecked = Analyser::new(traffic, 1, 0);
    unchecked.set_verify(false);
    let mut buffers = vec![0u8; BUFFERS * BUFFER];
    let mut lengths = [0; BUFFERS];
    let mut times = [const { Vec::new() }; 3];
    for batch in 0..BATCHES {
        let before = Instant::now();
        for (buffer, length) in buffers.chunks_exact_mut(BUFFER).zip(&mut lengths) {
            *length = generator.write(buffer, batch);
        }
        times[0].push(before.elapsed().as_nanos());
        for (analyser, times) in [&mut checked, &mut unchecked]
            .into_iter()
            .zip(&mut times[1..])
        {
            let before = Instant::now();
            for (buffer, length) in buffers.chunks_exact(BUFFER).zip(lengths) {
                analyser.receive(&buffer[..length], batch + 1000);
            }
            times.push(before.elapsed().as_nanos());
        }
    }
    let received = checked.finish().streams[0].received;
    anyhow::ensure!(
        received == BATCHES * BUFFERS as u64,
        "{received} frames received"
    );
    Ok(times)
}
