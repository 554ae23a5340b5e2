//! `bora check`: can this machine run Bora, what is missing, what to type.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use bora_daemon::{File, Probe, Probed};

use bora_terminal::say;

const NO_PROC: &str = "Bora reads the kernel's settings there; `mount -t proc proc /proc`";

enum Finding {
    Good(String),
    Advice(String, &'static str),
    Missing(String, &'static str),
    /// That says itself what to do.
    Note(String),
}

/// Prints one line a finding; fails if something needed is missing.
pub(crate) fn check(names: &[String], interrupt: bool) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    let mut findings = vec![kernel(), privileges(), btf()];
    findings.extend(program());
    findings.extend([memory(), forwarding("ipv4"), forwarding("ipv6")]);
    findings.extend(flows(names));
    findings.extend(ports(names, interrupt));
    for finding in findings {
        match finding {
            Finding::Good(text) => say!("ok       {text}")?,
            Finding::Advice(text, advice) => say!("advice   {text}: {advice}")?,
            Finding::Note(text) => say!("firewall {text}")?,
            Finding::Missing(text, advice) => {
                say!("missing  {text}: {advice}")?;
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

/// Checks a configuration file as `bora run` does before it touches an interface.
pub(crate) fn file(path: &Path, elsewhere: bool) -> anyhow::Result<()> {
    let file = File::read(path)?;
    if !elsewhere {
        let here = || format!("{} cannot be run here", path.display());
        bora_daemon::check_all(&file).with_context(here)?;
    }
    say!("{}: good", path.display())?;
    for warning in file.warnings() {
        say!("warning: {warning}")?;
    }
    for (rule, name) in file.other_inputs() {
        say!("rule {rule} matches nothing until there is a device {name} on the ports")?;
    }
    Ok(())
}

fn kernel() -> Finding {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    match (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) {
        version if version >= (6, 1) => Finding::Good(format!("Linux {release}")),
        version if version >= (5, 18) => Finding::Advice(
            format!("Linux {release}"),
            "it may work, but is tested with 6.1 and later only",
        ),
        _ => Finding::Missing(format!("Linux {release}"), "Bora needs 6.1 or later"),
    }
}

fn privileges() -> Finding {
    if rustix::process::geteuid().is_root() {
        Finding::Good("running as root".into())
    } else {
        Finding::Missing("root".into(), "`bora run` needs it; type `sudo bora check`")
    }
}

fn btf() -> Finding {
    let what = "kernel type information (BTF)";
    match fs::exists("/sys/kernel/btf/vmlinux") {
        Ok(true) => Finding::Good(what.into()),
        Ok(false) if !Path::new("/sys/kernel").exists() => Finding::Missing(
            "/sys".into(),
            "Bora reads what the kernel and the cards can do there; `mount -t sysfs sysfs /sys`",
        ),
        Ok(false) => Finding::Missing(
            what.into(),
            "use a kernel built with CONFIG_DEBUG_INFO_BTF, as Debian's and Ubuntu's are",
        ),
        Err(error) => Finding::Missing(
            format!("{what}: /sys/kernel/btf: {error}"),
            "it must be readable",
        ),
    }
}

/// Loads the program, which says more than any version number.
fn program() -> Vec<Finding> {
    const LOST: &str = "Bora runs, with that loss";
    match bora_daemon::try_program() {
        Ok(lacks) => {
            let lacks = lacks.into_iter();
            let lacks = lacks.map(|lack| Finding::Advice(lack.into(), LOST));
            std::iter::once(Finding::Good("the XDP program loads".into()))
                .chain(lacks)
                .collect()
        }
        Err(error) => vec![Finding::Missing(
            format!("the XDP program: {error}"),
            "nothing can be forwarded without it",
        )],
    }
}

/// What keeps traffic behind Linux's firewall with Linux.
fn flows(names: &[String]) -> Vec<Finding> {
    let names: Vec<&str> = match names {
        [] => vec!["PORT", "PORT"],
        names => names.iter().map(String::as_str).collect(),
    };
    match bora_daemon::try_flows(&names) {
        Ok(lines) => lines.into_iter().map(Finding::Note).collect(),
        Err(error) => vec![Finding::Note(format!(
            "the firewall was not looked at: {error:#}"
        ))],
    }
}

/// Tries each interface as a port.
fn ports(names: &[String], interrupt: bool) -> Vec<Finding> {
    const NO_PORT: &str = "it cannot be a port";
    if names.is_empty() {
        return Vec::new();
    }
    let probe = match Probe::open() {
        Ok(probe) => probe,
        Err(error) => {
            let text = format!("{}: {error:#}", names.join(", "));
            return vec![Finding::Missing(text, "not tried")];
        }
    };
    let try_one = |name: &String| match probe.port(name, interrupt) {
        Ok(Probed::Tried(says)) => Finding::Good(format!("{name}: {}", says.join("; "))),
        Ok(Probed::Deaf(why)) => Finding::Advice(name.clone(), why),
        Ok(Probed::NotTried(says)) => Finding::Advice(
            format!("{name}: {says}"),
            "not tried, its link would go for some seconds; `--interrupt` tries it all the same",
        ),
        Err(error) => Finding::Missing(format!("{name}: {error:#}"), NO_PORT),
    };
    names.iter().map(try_one).collect()
}

fn memory() -> Finding {
    let info = match fs::read_to_string("/proc/meminfo") {
        Ok(info) => info,
        Err(error) => return Finding::Missing(format!("/proc/meminfo: {error}"), NO_PROC),
    };
    let mut lines = info.lines();
    let line = lines.find_map(|line| line.strip_prefix("HugePages_Free:"));
    // a kernel without huge pages has no such line
    let free: u64 = line.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    if free >= 32 {
        Finding::Good(format!("{free} free huge pages"))
    } else {
        Finding::Advice(
            format!("{free} free huge pages"),
            "the engine works without, a little slower; `sysctl vm.nr_hugepages=64` gives it some",
        )
    }
}

fn forwarding(family: &'static str) -> Finding {
    let (file, advice) = match family {
        "ipv4" => (
            "ipv4/ip_forward",
            "nothing is forwarded; `sysctl net.ipv4.ip_forward=1`",
        ),
        _ => (
            "ipv6/conf/all/forwarding",
            "nothing is forwarded; `sysctl net.ipv6.conf.all.forwarding=1`",
        ),
    };
    match fs::read_to_string(format!("/proc/sys/net/{file}")) {
        Ok(value) if value.trim() == "1" => Finding::Good(format!("{family} forwarding is on")),
        Ok(_) => Finding::Advice(format!("{family} forwarding is off"), advice),
        Err(error) if family == "ipv6" && Path::new("/proc/sys/net").exists() => Finding::Advice(
            format!("no {family}: /proc/sys/net/{file}: {error}"),
            "IPv6 is switched off in this kernel (`ipv6.disable=1`)",
        ),
        Err(error) => Finding::Missing(format!("/proc/sys/net/{file}: {error}"), NO_PROC),
    }
}
