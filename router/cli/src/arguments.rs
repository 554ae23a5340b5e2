//! The command line: commands, options, help.

use std::ffi::OsString;
use std::path::PathBuf;

use bora_daemon::Mode;
use bora_terminal::Pages;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::show::ShowOptions;
use crate::top::TopOptions;
use crate::web::WebOptions;

/// Bora, a software router for Linux
///
/// Forwards IPv4 and IPv6 between the interfaces you name, with the addresses, routes and
/// neighbours of Linux. What it cannot forward by itself it leaves to Linux, and when it does
/// not run, Linux forwards.
#[derive(Debug, Parser)]
#[command(name = "bora", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Write more to the log
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Forward between interfaces, until SIGTERM or `bora stop`
    Run(RunOptions),
    /// Show what a running Bora does
    Show(ShowOptions),
    /// Watch a running Bora in the terminal
    Top(TopOptions),
    /// Watch a running Bora in a browser: serve a page that only shows
    ///
    /// The page has the same as `bora top`, with charts of the last ten minutes. It can change nothing.
    Web(WebOptions),
    /// Change a running Bora
    #[command(subcommand)]
    Set(SetCommand),
    /// Measure where the time of a running Bora's workers goes, stage by stage
    ///
    /// For so long the workers read the clock at each stage of each batch, which costs some
    /// nanoseconds a packet. `bora show profile` shows the last result again.
    Profile {
        /// How long to measure
        #[arg(default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
    },
    /// Write packets that Bora forwards to a capture file, with what became of each
    ///
    /// tcpdump sees only what goes to Linux; this sees what the ports receive, in both tiers. It is a pcapng
    /// file: each packet has a comment that says what became of it and why. `bora capture -w - | wireshark -k -i -`
    /// shows it at once. Packets beyond --rate are not captured, and counted.
    Capture(CaptureOptions),
    /// Show what Bora does with packets, and why: the next ones that match
    ///
    /// Which tier decided, what the FIB says, which class it got, what was changed, and where it left, or why Linux
    /// has it or why it was dropped.
    Trace(TraceOptions),
    /// Ask Linux itself whether it does what Bora does, for all addresses
    ///
    /// Between the borders of all prefixes, rules and local addresses the answers cannot change, so that the addresses at the
    /// borders, and one inside each interval, stand for all. The daemon asks, at the lowest priority; this shows how far it is.
    /// Ctrl-C ends only the showing: type it again to see more. The exit code is 1 if something differs.
    Prove(ProveOptions),
    /// Put a configuration file into force, without a restart
    ///
    /// Prints what differs from the configuration in force, and changes only that: all of it or
    /// nothing. A file with a change that needs a restart is refused, and the change is named.
    Apply(ApplyOptions),
    /// Keep what `bora apply --confirm` has changed
    Confirm,
    /// Print what a file, or an earlier configuration, would change in the configuration in force
    Diff {
        /// A file, or a number of `bora show history`
        what: String,
    },
    /// Put an earlier configuration into force again
    ///
    /// `bora show history` lists them. It is applied as a file is: only what differs changes, all of it or
    /// nothing.
    Rollback {
        /// A number of `bora show history`; the one before the configuration in force without
        number: Option<u64>,
        /// Go back after this many seconds unless `bora confirm` comes before
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
        confirm: Option<u64>,
    },
    /// Write everything for a report of a defect to one file, without secrets
    Support {
        /// Where to write it
        #[arg(default_value = "bora-support.tar.gz")]
        file: PathBuf,
    },
    /// Stop Bora; Linux goes on forwarding
    ///
    /// The XDP program stays on the interfaces and passes everything to Linux, as after SIGTERM or a
    /// crash, and the next Bora takes it over. Attaching and detaching it takes the link of some
    /// network cards down for seconds.
    Stop {
        /// Also take the program off all interfaces of this network namespace, and remove twins,
        /// including those of an earlier Bora
        #[arg(long)]
        detach: bool,
    },
    /// Put this binary into the place of the Bora that runs, with the configuration in force
    ///
    /// A service of systemd is restarted; otherwise the Bora that runs is stopped, and this process becomes the new one, in the
    /// foreground. Linux forwards meanwhile.
    Upgrade(UpgradeOptions),
    /// Say whether this machine can run Bora, what is missing, and what to type
    Check {
        /// Only check this configuration file, and whether this machine has what it needs
        config: Option<PathBuf>,
        /// The file is for another machine: do not look for its interfaces, CPUs and files here
        #[arg(long, requires = "config")]
        elsewhere: bool,
        /// Also try this interface as a port: attach the program, open sockets, and undo both
        #[arg(short, long = "port", value_name = "NAME", conflicts_with = "config")]
        ports: Vec<String>,
        /// Try it even if the driver takes the link down for some seconds
        #[arg(long, requires = "ports")]
        interrupt: bool,
    },
    /// Print the configuration in force, or write it to a file
    Save {
        /// Where to write it; the standard output without, and for `-`
        file: Option<PathBuf>,
    },
    /// Print the JSON schema of bora.toml, for editors
    Schema,
    /// Test a router from this machine's ports, RFC 2544 and others: executes `bora-test`
    #[command(disable_help_flag = true)]
    Test(Words),
    /// Show Bora in network namespaces, repeat experiments of papers: executes `bora-lab`
    #[command(disable_help_flag = true)]
    Lab(Words),
    #[command(flatten)]
    Pages(Pages),
}

/// Words for another program.
#[derive(Debug, Args)]
pub(crate) struct Words {
    /// `--help` says what it takes
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "WORD"
    )]
    pub(crate) words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Only packets that match, as for tcpdump (pcap-filter(7)), such as `udp port 53 and net 10.0.0.0/8`
    ///
    /// They are looked at as they came in.
    pub(crate) filter: Vec<String>,
    /// Only what comes in by this port
    #[arg(short, long, value_name = "NAME")]
    pub(crate) port: Option<String>,
    /// End after this many packets
    #[arg(short = 'n', long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// One packet in this many, by chance
    #[arg(long, value_name = "PACKETS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) one_in: u32,
}

#[derive(Debug, Args)]
pub(crate) struct CaptureOptions {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Where to write it; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: PathBuf,
    /// Also write each packet as it leaves
    #[arg(long)]
    pub(crate) out: bool,
    /// Octets to keep of each packet
    #[arg(short, long, value_name = "OCTETS", default_value_t = 1536, value_parser = clap::value_parser!(u32).range(64..=1536))]
    pub(crate) snap: u32,
    /// Most packets a second; more cost more
    #[arg(long, value_name = "PACKETS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,
}

#[derive(Debug, Args)]
pub(crate) struct TraceOptions {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Put this packet in at --port, and trace it: `udp SOURCE[:PORT] DESTINATION[:PORT]`, or a frame in hexadecimal
    ///
    /// It is treated as if it had come by the wire: it is really forwarded.
    #[arg(long, value_name = "PACKET", requires = "port", conflicts_with_all = ["filter", "count", "one_in"])]
    pub(crate) packet: Option<String>,
    /// Print JSON, one line a packet
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Default, Args, Serialize)]
pub(crate) struct ProveOptions {
    /// Only packets that come in by this port, or device on one
    #[arg(short, long, value_name = "NAME")]
    pub(crate) input: Option<String>,
    /// Begin anew, also where a proof runs or was paused
    #[arg(long)]
    pub(crate) anew: bool,
    /// Pause the proof that runs; without this option it goes on
    #[arg(long, conflicts_with_all = ["input", "anew"])]
    pub(crate) pause: bool,
    /// Print JSON
    #[arg(long)]
    #[serde(skip)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyOptions {
    /// The configuration file
    pub(crate) file: PathBuf,
    /// Go back after this many seconds unless `bora confirm` comes before
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) confirm: Option<u64>,
    /// Print what would be changed, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpgradeOptions {
    /// Before that, decide about the packets that come in, beside the Bora that runs and without sending, and compare
    ///
    /// What differs is printed as packet and both verdicts; then nothing is replaced, and the exit code is 1. This process reads
    /// Linux's tables for itself, and needs as much memory for them as the Bora that runs.
    #[arg(long)]
    pub(crate) canary: bool,
    /// Packets on which both must agree
    #[arg(long, value_name = "PACKETS", default_value_t = 1_000_000, requires = "canary", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) packets: u64,
    /// Longest time to compare; if fewer packets come, nothing is replaced
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "canary", value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) seconds: u64,
    /// Only compare, and replace nothing
    #[arg(long, requires = "canary")]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// What to forward on: an interface, or another kind of port; repeat it
    ///
    /// memif:SOCKET[,role=client|server][,id=N][,queue_pairs=N][,ring=LOG2][,secret=TEXT][,memory=MIB]
    /// shares memory with another process, tap:NAME[,queue_pairs=N] makes a TAP interface for others to
    /// use, af_packet:INTERFACE[,queue_pairs=N] takes an interface through packet sockets,
    /// pcap:FILE[,repeat=yes][,out=FILE] plays and writes capture files. Each has a twin in Linux
    /// ([,name=NAME][,mac=ADDRESS]) for addresses and routes.
    #[arg(
        short,
        long = "port",
        value_name = "PORT",
        required_unless_present = "config"
    )]
    pub(crate) ports: Vec<String>,
    /// A configuration file; what is typed here as well replaces what it says
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// CPUs for the engine's workers, such as 1-3,5
    #[arg(long, value_name = "LIST", value_parser = cores, default_value = "", hide_default_value = true)]
    pub(crate) cores: Cores,
    /// This many workers; Bora chooses CPUs on the ports' NUMA node, a physical core each, CPU 0 last
    #[arg(long, value_name = "COUNT", conflicts_with = "cores", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: Option<u16>,
    /// When workers look at their queues: poll, adaptive, moderated or
    /// moderated:PACKETS:MICROSECONDS
    #[arg(long)]
    pub(crate) mode: Option<Mode>,
    /// Which tier forwards
    #[arg(long, value_enum)]
    pub(crate) path: Option<PathArgument>,
    /// Forward even traffic that Linux has rules for; repeat it
    #[arg(long, value_enum)]
    pub(crate) bypass: Vec<BypassArgument>,
    /// Most memory for the nodes of the FIB, for each IP version, MiB
    ///
    /// A full Internet table needs 3 for IPv4. If a route finds no room, it is counted (`bora show
    /// sync`), and Linux forwards that IP version until there is room.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) fib_memory: Option<u16>,
    /// The engine's IPv4 table
    #[arg(long, value_enum)]
    pub(crate) fib: Option<FibArgument>,
    /// Exceptions that may go to Linux in a second, for each reason and CPU
    #[arg(long, value_name = "PACKETS")]
    pub(crate) punt_budget: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PathArgument {
    /// The engine where the driver does zero-copy, express where it does not
    Auto,
    /// The XDP program, in the driver
    Express,
    /// Worker threads over AF_XDP
    Engine,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FibArgument {
    /// A compressed tree: small, fastest for many destinations
    Tree,
    /// DIR-24-8 in front of the tree, 32 MiB more: fastest for a few thousand destinations
    Dir24,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BypassArgument {
    /// Firewall rules, tc filters and IPsec policies of Linux
    Netfilter,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SetCommand {
    /// When workers look at their queues
    ///
    /// poll never sleeps; adaptive sleeps while there is nothing to do; moderated wakes for a number
    /// of packets or after a time.
    Mode {
        /// poll, adaptive, moderated or moderated:PACKETS:MICROSECONDS
        mode: Mode,
        /// Only this worker
        #[arg(long, value_name = "NUMBER")]
        worker: Option<usize>,
    },
}

/// CPU numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cores(pub(crate) Vec<usize>);

/// Parses `1-3,5`.
fn cores(text: &str) -> Result<Cores, String> {
    let mut found = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            text.trim()
                .parse::<usize>()
                .map_err(|_| format!("`{text}` is not a CPU number"))
        };
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(format!("`{part}` runs backwards"));
        }
        found.extend(first..=last);
    }
    Ok(Cores(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists() {
        assert_eq!(cores("").unwrap().0, Vec::<usize>::new());
        assert_eq!(cores("0").unwrap().0, [0]);
        assert_eq!(cores("0-0,0").unwrap().0, [0, 0]);
        for wrong in ["x", "1-", "3-1"] {
            assert!(cores(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
