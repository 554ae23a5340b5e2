//! Errors of the XDP program, and why the kernel did not load it.

use std::path::PathBuf;
use std::sync::Mutex;
use std::{fs, io};

use bora_contract::{MAX_PORTS, MAX_QUEUES};
use bora_linux::lock;
use bora_linux::{in_user_namespace, no_rights};
use libbpf_rs::{ErrorKind, PrintLevel, set_print};

/// The folder of the verifier's log.
const FOLDER: &str = "/run/bora";

/// Why the program could not be loaded or told something.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Loading failed for want of rights.
    #[error("no permission to load BPF programs ({0} missing): {what}", what = no_rights())]
    Permission(String),
    /// This process has the rights, and yet the kernel forbids it.
    #[error("the kernel forbids loading BPF programs although the rights are there: {why}")]
    Forbidden {
        /// What may be the cause, and what to do.
        why: String,
    },
    /// The verifier of this kernel does not accept the program.
    #[error(
        "the BPF verifier of Linux {release} rejects Bora's program: {log}; this is a defect of Bora \
         on this kernel: please report it with that file, and try another kernel"
    )]
    Verifier {
        /// Release of the kernel.
        release: String,
        /// Where the verifier's log is.
        log: String,
    },
    /// libbpf or the kernel refused to load it.
    #[error("Linux {release} does not load the XDP program: {source} ({said})")]
    Load {
        /// Release of the kernel.
        release: String,
        /// The last line that libbpf printed.
        said: String,
        /// What failed.
        source: libbpf_rs::Error,
    },
    /// This process has no descriptor of itself.
    #[error("pidfd_open: {0}")]
    Process(#[from] std::io::Error),
    /// libbpf or the kernel refused.
    #[error("XDP program: {0}")]
    Bpf(#[from] libbpf_rs::Error),
    /// The program did not find the network namespace of the ports.
    #[error("the XDP program does not see the network namespace of its ports")]
    Survey,
    /// The filters of all captures and traces together make no program.
    #[error("the kernel takes no program of these filters: {0}")]
    Filters(String),
    /// A number is out of the range of the program's maps.
    #[error(
        "port {port} queue {queue}: the XDP program has room for {MAX_PORTS} ports of {MAX_QUEUES} queues"
    )]
    Range {
        /// Port index.
        port: u16,
        /// Queue.
        queue: u32,
    },
}

static SAID: Mutex<String> = Mutex::new(String::new());

fn note(_: PrintLevel, text: String) {
    lock(&SAID).push_str(&text);
}

/// Runs `load`; if it fails, finds the cause in what libbpf prints meanwhile, which does not go to the
/// terminal.
pub(super) fn explained<T>(
    load: impl FnOnce() -> Result<T, libbpf_rs::Error>,
) -> Result<T, ProgramError> {
    lock(&SAID).clear();
    let before = set_print(Some((PrintLevel::Warn, note)));
    let done = load();
    set_print(before);
    done.map_err(|error| {
        let said = std::mem::take(&mut *lock(&SAID));
        explain(error, &said)
    })
}

fn explain(error: libbpf_rs::Error, said: &str) -> ProgramError {
    log::debug!("libbpf: {said}");
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    if said.contains("BEGIN PROG LOAD LOG") {
        let log = match save(said, &release) {
            Ok(path) => format!("its words are in {}", path.display()),
            Err(e) => format!("its words could not be written to {FOLDER} ({e})"),
        };
        return ProgramError::Verifier { release, log };
    }
    if error.kind() == ErrorKind::PermissionDenied {
        return match missing_capabilities() {
            Ok(names) if names.is_empty() => ProgramError::Forbidden { why: forbidden() },
            Ok(names) => ProgramError::Permission(names.join(", ")),
            Err(error) => ProgramError::Permission(format!(
                "a capability that /proc/self/status does not tell: {error}; it is"
            )),
        };
    }
    let last = said.lines().last().unwrap_or_default().trim();
    ProgramError::Load {
        release,
        said: last.to_string(),
        source: error,
    }
}

fn save(said: &str, release: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(FOLDER)?;
    let path = PathBuf::from(format!("{FOLDER}/verifier-{release}.log"));
    fs::write(&path, said)?;
    Ok(path)
}

/// What loading needs and this process does not have (capabilities(7)).
fn missing_capabilities() -> io::Result<Vec<&'static str>> {
    const SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let line = line.ok_or_else(|| io::Error::other("it has no CapEff"))?;
    let held = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
    let held = |bit: u32| held >> bit & 1 == 1;
    let missing = [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)]
        .into_iter()
        .filter(|&(name, bit)| !held(bit) && (name == "CAP_NET_ADMIN" || !held(SYS_ADMIN)))
        .map(|(name, _)| name)
        .collect();
    Ok(missing)
}

/// Why rights that are there do not suffice, as far as it can be told.
fn forbidden() -> String {
    if in_user_namespace() {
        return format!("those of a user namespace do not count; {}", no_rights());
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "what cannot be read is not known to be the cause"
    )]
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    if let Some(mode) = lockdown(&read("/sys/kernel/security/lockdown")) {
        return format!(
            "kernel lockdown is in mode {mode} (kernel_lockdown(7)); it ends with Secure Boot, or with `lockdown=none` on \
             the kernel's command line"
        );
    }
    if is_filtered(&read("/proc/self/status")) {
        return "a seccomp filter is on, as in a container: it must let bpf(2) pass".into();
    }
    "look at `dmesg` and at the security modules (/sys/kernel/security/lsm)".into()
}

/// The mode of kernel_lockdown(7), if it restricts something.
fn lockdown(text: &str) -> Option<&str> {
    let mode = text.split(['[', ']']).nth(1)?;
    (mode != "none").then_some(mode)
}

fn is_filtered(status: &str) -> bool {
    let mut lines = status.lines();
    let mode = lines.find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> libbpf_rs::Error {
        libbpf_rs::Error::from_raw_os_error(libc::EACCES)
    }

    #[test]
    fn a_verifier_that_refuses_is_no_want_of_rights() {
        let said = "libbpf: prog 'bora': -- BEGIN PROG LOAD LOG --\nR3 unbounded memory access\n";
        let error = explain(refused(), said);
        assert!(matches!(error, ProgramError::Verifier { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("verifier") && !text.contains("permission"),
            "{text}"
        );
    }

    #[test]
    fn only_what_restricts_is_a_cause() {
        assert_eq!(
            lockdown("none [integrity] confidentiality\n"),
            Some("integrity")
        );
        assert_eq!(lockdown("[none] integrity confidentiality\n"), None);
        assert_eq!(lockdown(""), None, "a kernel without it");
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Seccomp:\t0\n"));
    }

    #[test]
    fn without_its_words_it_is_rights() {
        let error = explain(refused(), "");
        assert!(
            matches!(
                error,
                ProgramError::Permission(_) | ProgramError::Forbidden { .. }
            ),
            "{error}"
        );
    }
}
