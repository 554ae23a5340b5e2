//! The command line: commands, options, help.

use std::path::PathBuf;

use bora_terminal::Pages;
use bora_tester::plan::PortSection;
use bora_tester::traffic::FrameMix;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Test a router from this machine's ports: RFC 2544 and others
#[derive(Debug, Parser)]
#[command(name = "bora-test", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Write more to the log
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: TestCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TestCommand {
    /// Carry out a plan and write a report
    ///
    /// If the plan has no ports, name them here: the first is connected to one port of the router,
    /// the second to another one. Ctrl-C keeps what was measured.
    Run(Box<TestRunOptions>),
    /// List the plans that come with Bora
    Plans,
    /// Print a plan, as a start for your own
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
    /// Show a report again, as a table or as one HTML file
    Report {
        /// What `bora-test run` wrote: the JSON, or the page
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Write this HTML file instead of a table
        #[arg(short, long, value_name = "FILE.html")]
        output: Option<PathBuf>,
    },
    /// Say whether two reports differ, with confidence intervals
    ///
    /// Exits with 0 if no difference is shown, 1 if there is one, 2 if something went wrong or the
    /// reports cannot be compared.
    Compare {
        /// The first: its JSON, or its page
        #[arg(value_name = "A")]
        a: PathBuf,
        /// The second
        #[arg(value_name = "B")]
        b: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    #[command(flatten)]
    Pages(Pages),
}

#[derive(Debug, Args)]
pub(crate) struct TestRunOptions {
    /// A plan's name (`bora-test plans`), or a file
    pub(crate) plan: String,
    /// A port of the tester; repeat it
    ///
    /// NAME=[KIND:]INTERFACE[,netns=NAME][,address=A/LEN][,gateway=B][,address6=A/LEN][,gateway6=B]
    /// [,speed=RATE][,cpu=N]. KIND is xdp (live XDP frames; on virtual links the fastest, and used
    /// there without KIND), af_xdp (used on others), af_packet, or memif with the path of a socket
    /// and [,role=server]. The gateway is the router; without one frames go to the receiving port.
    #[arg(short, long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<PortSection>,
    /// Trials of seconds, or as long as the standard wants
    #[arg(short, long, value_enum, default_value = "short")]
    pub(crate) duration: LengthArgument,
    /// Frame sizes and mixes instead of the plan's, such as 64,1518,imix
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) sizes: Vec<FrameMix>,
    /// Where to write reports
    #[arg(short, long, value_name = "DIRECTORY", default_value = ".")]
    pub(crate) output: PathBuf,
    /// Do only this test of the plan; repeat it
    #[arg(long, value_name = "TEST")]
    pub(crate) only: Vec<String>,
    /// Seed of everything that is random
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) lab: LabOptions,
    /// What runs a command on the router, such as `ip netns exec NAME` or `ssh root@ROUTER`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) shell: Option<String>,
    /// What restarts the router's forwarding; run through --shell
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restart: Option<String>,
    /// Do not measure first what the tester itself can do
    #[arg(long)]
    pub(crate) no_calibration: bool,
    /// Use interfaces even if they have the default route or an ssh session
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
    /// The ports of the plan are not used.
    #[arg(long, value_enum, value_name = "WHO", conflicts_with_all = ["ports", "shell", "restart"])]
    pub(crate) lab: Option<LabSubject>,
    /// Ports of the lab's router
    #[arg(long, requires = "lab", value_name = "COUNT", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(2..=bora_network::MOST_HOSTS as i64))]
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

/// What forwards in a lab.
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
    /// Seconds for each test
    Short,
    /// As long as the standard or the paper wants: hours
    Full,
}
