//! What can be typed.

use std::path::PathBuf;

use bora_router::Mode;
use bora_tester::plan::{Mix, PortSection};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Bora, a software router for Linux
///
/// Forwards IPv4 and IPv6 between the interfaces you name, with the addresses, routes and
/// neighbours that Linux has. What it does not understand it leaves to Linux, and when it is
/// away Linux forwards.
#[derive(Debug, Parser)]
#[command(name = "bora", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Say more in the log
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
    /// Change a running Bora
    #[command(subcommand)]
    Set(SetCommand),
    /// Make a configuration file the one in force, without a restart
    ///
    /// Prints what differs from what runs, and changes only that, all of it or nothing. What cannot
    /// be changed while Bora runs is named and refused.
    Apply(ApplyOptions),
    /// Keep what `bora apply --confirm` has changed
    Confirm,
    /// Stop Bora; Linux goes on forwarding
    ///
    /// The XDP program stays on the interfaces and passes everything to Linux, as after SIGTERM or a
    /// crash, for the next Bora to take over: attaching and detaching it interrupts the link of
    /// some network cards for seconds.
    Stop {
        /// Take the program off all interfaces of this network namespace, and remove twins, also
        /// those that a Bora left that is gone
        #[arg(long)]
        detach: bool,
    },
    /// Say whether this machine can run Bora, what is missing, and what to type
    Check {
        /// Only check this configuration file
        config: Option<PathBuf>,
        /// Also try this interface as a port: attach the program, open sockets, take all away again
        #[arg(short, long = "port", value_name = "NAME", conflicts_with = "config")]
        ports: Vec<String>,
        /// Try it also where the driver takes the link away for some seconds by that
        #[arg(long, requires = "ports")]
        interrupt: bool,
    },
    /// Print the configuration in force, or write it to a file
    Save {
        /// Where to write it
        file: Option<PathBuf>,
    },
    /// Print the JSON schema of bora.toml, for editors
    Schema,
    /// The forwarding table by itself
    #[command(subcommand)]
    Fib(FibCommand),
    /// Networks on one machine
    #[command(subcommand)]
    Lab(LabCommand),
    /// Test a router: RFC 2544 and others, from this machine's ports
    #[command(subcommand)]
    Test(TestCommand),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write all pages to a folder
    Man {
        /// Where to write bora.1, bora-run.1, …
        directory: Option<PathBuf>,
    },
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
pub(crate) struct RunOptions {
    /// What to forward on: an interface, or another kind of port; repeat it
    ///
    /// memif:SOCKET[,role=client|server][,id=N][,queues=N][,ring=LOG2][,secret=TEXT][,memory=MIB]
    /// shares memory with another process, tap:NAME[,queues=N] makes a TAP interface for others to
    /// use, af_packet:INTERFACE[,queues=N] takes an interface through packet sockets,
    /// pcap:FILE[,repeat=yes][,out=FILE] plays and writes capture files,
    /// hero:CARD,wire=INTERFACE[,netns=NAME][,model=FILE][,offload=no] is one of four simulated HERO
    /// cards on a bus, its cable joined to an interface. Each has a twin in Linux
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
    /// This many workers, placed for you: on the ports' NUMA node, a physical core each, CPU 0 last
    #[arg(long, value_name = "COUNT", conflicts_with = "cores", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: Option<u16>,
    /// When workers look at their queues: poll, adaptive, interrupt, moderated or
    /// moderated:PACKETS:MICROSECONDS
    #[arg(long)]
    pub(crate) mode: Option<Mode>,
    /// Send each packet buffer through the common reserve; only to measure what recycling is worth
    #[arg(long)]
    pub(crate) no_recycling: bool,
    /// Which tier forwards
    #[arg(long, value_enum)]
    pub(crate) path: Option<PathArgument>,
    /// Forward even what Linux has rules for; repeat it
    #[arg(long, value_enum)]
    pub(crate) bypass: Vec<BypassArgument>,
    /// Most memory for the nodes of the FIB, IPv4 and IPv6 each, MiB
    ///
    /// A full Internet table needs 2. What finds no room is counted (`bora show sync`), and Linux
    /// forwards that family until there is room.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) fib_memory: Option<u16>,
    /// The engine's IPv4 table
    #[arg(long, value_enum)]
    pub(crate) fib: Option<FibArgument>,
    /// Exceptions a second and CPU that may go to Linux, for each reason
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

#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    #[command(subcommand)]
    pub(crate) what: ShowWhat,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show again every second
    #[arg(short, long, global = true)]
    pub(crate) watch: bool,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ShowWhat {
    /// Ports: path, mode, packets
    Ports,
    /// Where every packet went, by reason
    Drops,
    /// Workers
    Workers,
    /// Where the frames of the packet memory are
    Frames,
    /// Classes of each port: what their queues took, sent, dropped and hold
    Classes,
    /// What each rule has matched
    Rules,
    /// What HERO cards forward by themselves, and why not the rest
    Offload,
    /// Routes as Bora holds them
    Routes,
    /// The FIB: prefixes, memory, depth, updates
    Fib,
    /// The route an address takes
    Route {
        /// IPv4 or IPv6 address
        address: std::net::IpAddr,
    },
    /// Neighbours
    Neighbours,
    /// Whether kernel and FIB agree
    Sync {
        /// Dump the kernel's tables and compare every prefix
        #[arg(long)]
        verify: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum FibCommand {
    /// Measure look-ups, updates and memory on a table of your choice
    ///
    /// Without --table and --kernel, a made-up table in the shape of the Internet's.
    Bench(FibBenchOptions),
}

#[derive(Debug, Args)]
pub(crate) struct FibBenchOptions {
    /// A file of lines `PREFIX/LENGTH NEXTHOP`, also compressed (.xz); repeat it for IPv6
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    pub(crate) table: Vec<PathBuf>,
    /// The routes Linux has here
    #[arg(long)]
    pub(crate) kernel: bool,
    /// Seed of the made-up table
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Times everything is measured
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) rounds: u8,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SetCommand {
    /// When workers look at their queues
    ///
    /// poll never sleeps; adaptive sleeps while there is nothing to do; moderated wakes for a number
    /// of packets or after a time; interrupt moves every arrival to a backlog before it forwards
    /// anything, as routers did in 2005.
    Mode {
        /// poll, adaptive, interrupt, moderated or moderated:PACKETS:MICROSECONDS
        mode: Mode,
        /// Only this worker
        #[arg(long, value_name = "NUMBER")]
        worker: Option<usize>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TestCommand {
    /// Carry out a plan and write a report
    ///
    /// Without ports in the plan, name them here: the first is joined to one port of the router, the
    /// second to another. Ctrl-C keeps what was measured.
    Run(Box<TestRunOptions>),
    /// List the plans that come with Bora
    Plans,
    /// Print a plan, to be changed
    Show {
        /// A plan's name, or a file
        plan: String,
    },
    /// Read a plan and say what is wrong with it, with line and column
    Check {
        /// A plan's name, or a file
        plan: String,
    },
    /// Print the JSON schema of plans, for editors
    Schema,
    /// Show a report again: as a table, or as one HTML file
    Report {
        /// What `bora test run` wrote
        #[arg(value_name = "FILE.json")]
        file: PathBuf,
        /// Write this HTML file instead of a table
        #[arg(short, long, value_name = "FILE.html")]
        output: Option<PathBuf>,
    },
    /// Say whether two reports differ, with confidence intervals
    ///
    /// Exits with 0 if no difference was shown, 1 if there is one, 2 if something went wrong or the
    /// reports cannot be compared.
    Compare {
        /// The first
        #[arg(value_name = "A.json")]
        a: PathBuf,
        /// The second
        #[arg(value_name = "B.json")]
        b: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TestRunOptions {
    /// A plan's name (`bora test plans`), or a file
    pub(crate) plan: String,
    /// A port of the tester; repeat it
    ///
    /// NAME=[KIND:]INTERFACE[,netns=NAME][,address=A/LEN][,gateway=B][,address6=A/LEN][,gateway6=B]
    /// [,speed=RATE][,cpu=N]. KIND is xdp (live XDP frames; on virtual links the fastest, and used
    /// there without KIND), af_xdp (used on others), af_packet, or memif with the path of a socket
    /// and [,role=server]. The gateway is the router; without one frames go to the receiving port.
    #[arg(short, long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<PortSection>,
    /// Times of seconds, or those of the standard
    #[arg(short, long, value_enum, default_value = "short")]
    pub(crate) duration: LengthArgument,
    /// Frame sizes and mixes instead of the plan's, such as 64,1518,imix
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) sizes: Vec<Mix>,
    /// Where reports are written
    #[arg(short, long, value_name = "DIRECTORY", default_value = ".")]
    pub(crate) output: PathBuf,
    /// Do only this test of the plan; repeat it
    #[arg(long, value_name = "TEST")]
    pub(crate) only: Vec<String>,
    /// Seed of everything drawn at random
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) lab: LabOptions,
    /// Runs a shell on the router: `ip netns exec NAME`, `ssh root@ROUTER`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) shell: Option<String>,
    /// Restarts what forwards, through --shell
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restart: Option<String>,
    /// Do not find out first what the tester itself can do
    #[arg(long)]
    pub(crate) no_calibration: bool,
    /// Use interfaces, too, that carry the default route or an ssh session
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabOptions {
    /// Test a router on this machine, in network namespaces that are made for it and removed
    ///
    /// For a plan without ports of its own; those of the plan are not used.
    #[arg(long, value_enum, value_name = "WHO", conflicts_with_all = ["ports", "shell", "restart"])]
    pub(crate) lab: Option<LabSubject>,
    /// Ports of the lab's router
    #[arg(long, requires = "lab", value_name = "COUNT", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(2..=bora_lab::MOST_HOSTS as i64))]
    pub(crate) lab_ports: u8,
    /// How the tester sends and receives in the lab
    #[arg(long, requires = "lab", value_enum, default_value = "xdp")]
    pub(crate) lab_kind: LabKind,
    /// More options of `bora run` in the lab, such as '--mode poll'
    #[arg(
        long,
        requires = "lab",
        value_name = "OPTIONS",
        allow_hyphen_values = true
    )]
    pub(crate) lab_bora: Option<String>,
}

/// Who forwards in a lab.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LabSubject {
    /// Linux
    Kernel,
    /// Bora's XDP program
    Express,
    /// Bora's workers
    Engine,
}

/// Kinds of ports in a lab.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum LabKind {
    /// Live XDP frames out, an XDP program in: the fastest
    Xdp,
    /// AF_XDP sockets
    AfXdp,
    /// Packet sockets
    AfPacket,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LengthArgument {
    /// Seconds a test
    Short,
    /// As the standard or the paper has it: hours
    Full,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Three hosts' worth of network in namespaces: the kernel forwards, then Bora does
    Demo {
        /// Packets a second for the outage measurement
        #[arg(long, default_value_t = 20_000)]
        rate: u64,
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
