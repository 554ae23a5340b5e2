//! What carries an experiment out: a bench, a plan of the tester, or HERO's bench.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::{env, fs};

use anyhow::{Context, bail, ensure};
use bora_fib_bench::results::Row;
use bora_tester::result::Report;
use rustix::process::geteuid;
use serde::Deserialize;

use crate::row::{DEVICE, rows_of};

/// A piece of work. Several experiments may look at the results of one.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Work {
    /// What it runs on, for people: `memory ports`, `veth pairs`, `simulated cards`.
    pub(crate) on: String,
    /// CPUs that it needs.
    #[serde(default = "one")]
    cpus: usize,
    #[serde(flatten)]
    how: How,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum How {
    /// A program of `bench/`, beside `bora`.
    Bench {
        program: String,
        /// The NAME of `target/bench/NAME.json`, which it writes.
        results: String,
        #[serde(default)]
        arguments: Vec<String>,
        short: Vec<String>,
        #[serde(default)]
        full: Vec<String>,
    },
    /// A plan of the tester, once for each router of the lab.
    Plan {
        plan: String,
        labs: Vec<String>,
        /// Tests of the plan.
        tests: Vec<String>,
        /// Frame sizes of a short run.
        sizes: String,
    },
    /// Cases of HERO's bench, in the sources.
    Hero { only: String },
}

/// What works are carried out with, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Folder of `bora` and the benches.
    programs: PathBuf,
    /// The sources, if they are at hand.
    sources: Option<PathBuf>,
    /// Ports of the tester; without any, routers of the lab are tested.
    pub(crate) ports: Vec<String>,
    /// A minute for each work.
    pub(crate) short: bool,
}

impl Setup {
    /// The folder of this program, and the folder of sources around it or the one we are in.
    ///
    /// # Errors
    /// The system does not tell.
    pub(crate) fn new(ports: Vec<String>, short: bool) -> anyhow::Result<Self> {
        let program = env::current_exe().context("cannot find this program's file")?;
        let here = env::current_dir().context("cannot find the current folder")?;
        let is_sources = |folder: &&Path| folder.join("hero/bench/run.py").is_file();
        let around = program.ancestors().chain(here.ancestors());
        Ok(Self {
            sources: { around }.find(is_sources).map(Into::into),
            programs: program.parent().context("a program in a folder")?.into(),
            ports,
            short,
        })
    }
}

impl Work {
    /// What it runs on, for people.
    pub(crate) fn on(&self, setup: &Setup) -> String {
        match &self.how {
            How::Plan { .. } if !setup.ports.is_empty() => {
                format!("the router between {}", setup.ports.join(" and "))
            }
            _ => self.on.clone(),
        }
    }

    /// Whether it tests a router from outside.
    pub(crate) fn takes_ports(&self) -> bool {
        matches!(self.how, How::Plan { .. })
    }

    /// Why it cannot be carried out here, if it cannot.
    pub(crate) fn obstacle(&self, setup: &Setup) -> Option<String> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if cpus < self.cpus {
            return Some(format!("it needs {} CPUs, and there are {cpus}", self.cpus));
        }
        match &self.how {
            How::Bench { program, .. } if !setup.programs.join(program).is_file() => Some(format!(
                "`{program}` is not in {}: `make papers` builds it",
                setup.programs.display()
            )),
            How::Hero { .. } => match &setup.sources {
                None => Some("HERO's bench needs Bora's sources: run it from there".into()),
                Some(sources) if !python(sources).is_file() => {
                    Some("HERO's simulator is not installed: `make papers` installs it".into())
                }
                Some(_) => None,
            },
            _ if !geteuid().is_root() => Some("it makes network namespaces: run it as root".into()),
            _ => None,
        }
    }

    /// What is typed to carry it out.
    pub(crate) fn commands(&self, setup: &Setup) -> Vec<String> {
        match &self.how {
            How::Bench { program, .. } => {
                let arguments = self.bench_arguments(Path::new("target/release"), setup);
                vec![format!("target/release/{program} {}", arguments.join(" "))]
            }
            How::Plan { labs, .. } => subjects(labs, setup)
                .iter()
                .map(|subject| format!("bora {}", self.plan_arguments(subject, setup).join(" ")))
                .collect(),
            How::Hero { .. } => vec![format!(
                "hero/bench/run.py {}",
                self.hero_arguments(setup).join(" ")
            )],
        }
    }

    /// Carries it out.
    ///
    /// # Errors
    /// A program fails; what it said is in the error.
    pub(crate) fn carry_out(&self, setup: &Setup) -> anyhow::Result<Vec<Row>> {
        let folder = tempfile::tempdir().context("cannot make a folder for results")?;
        match &self.how {
            How::Bench {
                program, results, ..
            } => {
                let mut command = Command::new(setup.programs.join(program));
                command.args(self.bench_arguments(&setup.programs, setup));
                output(command.current_dir(folder.path()))?;
                read(&folder.path().join(format!("target/bench/{results}.json")))
            }
            How::Plan { labs, .. } => {
                let mut rows = Vec::new();
                for subject in subjects(labs, setup) {
                    let mut command = Command::new(setup.programs.join("bora"));
                    command.args(self.plan_arguments(subject, setup));
                    let report = report(command.arg("--json").current_dir(folder.path()))?;
                    rows.extend(rows_of(&report, subject));
                }
                Ok(rows)
            }
            How::Hero { .. } => {
                let sources = setup.sources.as_ref().context("HERO's sources")?;
                let mut command = Command::new(python(sources));
                let script = sources.join("hero/bench/run.py");
                output(command.arg(script).args(self.hero_arguments(setup)))?;
                read(&sources.join("target/bench/hero.json"))
            }
        }
    }

    fn bench_arguments(&self, programs: &Path, setup: &Setup) -> Vec<String> {
        let How::Bench {
            arguments,
            short: rough,
            full,
            ..
        } = &self.how
        else {
            return Vec::new();
        };
        let length = if setup.short { rough } else { full };
        let bora = programs.join("bora").display().to_string();
        let all = arguments.iter().chain(length);
        all.map(|argument| argument.replace("{bora}", &bora))
            .collect()
    }

    fn plan_arguments(&self, subject: &str, setup: &Setup) -> Vec<String> {
        let How::Plan {
            plan, tests, sizes, ..
        } = &self.how
        else {
            return Vec::new();
        };
        let mut words = vec!["test", "run", plan, "--no-calibration"];
        if setup.ports.is_empty() {
            words.extend(["--lab", subject]);
        }
        for port in &setup.ports {
            words.extend(["--port", port]);
        }
        for test in tests {
            words.extend(["--only", test]);
        }
        if setup.short {
            words.extend(["--sizes", sizes]);
        } else {
            words.extend(["--duration", "full"]);
        }
        words.into_iter().map(Into::into).collect()
    }

    fn hero_arguments(&self, setup: &Setup) -> Vec<String> {
        let How::Hero { only } = &self.how else {
            return Vec::new();
        };
        let mut words = vec!["--only".to_string(), only.clone()];
        if setup.short {
            words.push("--quick".into());
        }
        words
    }
}

/// All works, by name.
///
/// # Errors
/// The file is wrong.
pub(crate) fn works() -> anyhow::Result<&'static BTreeMap<String, Work>> {
    type Works = Result<BTreeMap<String, Work>, toml::de::Error>;
    static WORKS: LazyLock<Works> =
        LazyLock::new(|| toml::from_str(include_str!("../papers/works.toml")));
    WORKS
        .as_ref()
        .map_err(Clone::clone)
        .context("papers/works.toml")
}

/// The routers that a plan tests.
fn subjects<'a>(labs: &'a [String], setup: &Setup) -> Vec<&'a str> {
    match setup.ports.is_empty() {
        true => labs.iter().map(String::as_str).collect(),
        false => vec![DEVICE],
    }
}

fn one() -> usize {
    1
}

/// The interpreter with the simulator's tools, as the Makefile finds it.
fn python(sources: &Path) -> PathBuf {
    let own = env::var_os("HERO_VENV").map(PathBuf::from);
    let venv = own.unwrap_or_else(|| sources.join("target/hero/venv"));
    venv.join("bin/python")
}

fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// What a command prints.
///
/// # Errors
/// It fails.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = name_of(command);
    let output = run(command)?;
    ensure!(output.status.success(), failure(&name, &output));
    let text = String::from_utf8(output.stdout);
    text.with_context(|| format!("{name} printed what is no text"))
}

/// The report that `bora test run --json` prints.
///
/// # Errors
/// There is none, or tests are missing: its notes say why.
fn report(command: &mut Command) -> anyhow::Result<Report> {
    let name = name_of(command);
    let output = run(command)?;
    let Ok(report) = serde_json::from_slice::<Report>(&output.stdout) else {
        bail!(failure(&name, &output));
    };
    ensure!(report.complete, report.notes.join("; "));
    Ok(report)
}

fn run(command: &mut Command) -> anyhow::Result<Output> {
    let output = command.stdin(Stdio::null()).output();
    output.with_context(|| format!("cannot run {}", name_of(command)))
}

fn name_of(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name();
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// The end of what a program said.
fn failure(name: &str, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    let own = format!("{name}: ");
    format!("{own}{}", last.strip_prefix(&own).unwrap_or(&last))
}
