//! DPDK's environment (EAL): started once, and its log.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::Mutex;
use std::{fs, slice, thread};

use bora_linux::lock;

use crate::c;
use crate::error::{Error, Why};

/// Lines of DPDK's log that an error repeats.
const LINES: usize = 3;
/// Huge pages that must be free for DPDK to use them, MiB: mbufs and rings of some ports.
const HUGE: usize = 64;
/// Memory without huge pages, MiB; pages that are never touched cost nothing.
const ORDINARY: &str = "256";

/// What the configuration said, once it runs.
static STARTED: Mutex<Option<String>> = Mutex::new(None);
/// The latest errors in the log.
static ERRORS: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// DPDK's name and version.
pub fn version() -> String {
    // SAFETY: a constant string that ends with a zero.
    let version = unsafe { CStr::from_ptr(c::bora_dpdk_version()) };
    version.to_string_lossy().into_owned()
}

/// Starts DPDK if it does not run yet. `more` are arguments for it, with spaces between; `None` takes it as
/// it is.
pub(crate) fn start(more: Option<&str>) -> Result<(), Error> {
    let mut started = lock(&STARTED);
    match (&*started, more) {
        (Some(before), Some(more)) if before != more => {
            return Err(Error::OtherArguments(before.clone()));
        }
        (Some(_), _) => return Ok(()),
        (None, _) => {}
    }
    let more = more.unwrap_or_default();
    let arguments = arguments(more, free_huge_pages());
    let text = arguments.join(" ");
    lock(&ERRORS).clear();
    // DPDK binds the thread that starts it to a CPU
    let result = thread::scope(|scope| scope.spawn(|| init(arguments)).join());
    check(result.unwrap_or(Ok(-rustix::io::Errno::INVAL.raw_os_error()))?).map_err(|why| {
        Error::Start {
            arguments: text.clone(),
            why,
        }
    })?;
    log::info!("{} with {text}", version());
    *started = Some(more.into());
    Ok(())
}

/// The arguments of the environment: alone in its memory, without telemetry, and without any device until a
/// port asks for one. Those of the configuration come last and replace ours.
fn arguments(more: &str, huge_mib: usize) -> Vec<String> {
    let is_said = |options: &[&str]| {
        more.split_whitespace()
            .any(|word| options.iter().any(|option| word.starts_with(option)))
    };
    let mut all = vec!["bora".to_owned(), "--no-telemetry".into()];
    let mut add = |words: &[&str]| all.extend(words.iter().map(|&word| word.to_owned()));
    if !is_said(&["--log-level"]) {
        add(&["--log-level=warning"]);
    }
    if !is_said(&["-l", "-c", "--lcores"]) {
        // for the thread that starts it; its CPU must be one that we may use
        add(&[&format!("--lcores=0@{}", first_cpu())]);
    }
    if !is_said(&["--no-pci", "-a", "--allow", "-b", "--block"]) {
        add(&["-a", "0000:00:00.0"]);
    }
    if is_said(&["--no-huge"]) || huge_mib < HUGE && !is_said(&["--in-memory", "--huge", "-m"]) {
        add(&["--no-shconf"]);
        if !is_said(&["--no-huge"]) {
            add(&["--no-huge"]);
        }
        if !is_said(&["-m"]) {
            add(&["-m", ORDINARY]);
        }
    } else if !is_said(&["--in-memory", "--file-prefix"]) {
        add(&["--in-memory"]);
    }
    all.extend(more.split_whitespace().map(str::to_owned));
    all
}

fn first_cpu() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).ok();
    let first = |cpus: rustix::thread::CpuSet| {
        (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| cpus.is_set(cpu))
    };
    allowed.and_then(first).unwrap_or(0)
}

/// Free huge pages of 2 MiB, in MiB.
fn free_huge_pages() -> usize {
    let free = fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    let pages = free.ok().and_then(|text| text.trim().parse::<usize>().ok());
    pages.unwrap_or(0) * 2
}

fn init(arguments: Vec<String>) -> Result<c_int, Error> {
    let arguments = arguments.into_iter().map(c_string);
    let mut arguments: Vec<*mut c_char> = arguments
        .map(|text| text.map(CString::into_raw))
        .collect::<Result<_, _>>()?;
    let count = arguments.len() as c_int;
    arguments.push(std::ptr::null_mut());
    // SAFETY: as many strings as is said, and a null pointer after the last, as for main(). They are never
    // freed, because DPDK keeps pointers into them. DPDK is started only once: STARTED is locked.
    Ok(unsafe { c::bora_dpdk_start(count, arguments.leak().as_mut_ptr(), log_line) })
}

/// A string for C.
pub(crate) fn c_string(text: String) -> Result<CString, Error> {
    CString::new(text).map_err(|error| {
        let text = error.into_vec();
        Error::Zero(String::from_utf8_lossy(&text).replace('\0', "\\0"))
    })
}

/// What a call returned that gives a negative errno value for an error.
pub(crate) fn check(result: c_int) -> Result<(), Why> {
    let log = lock(&ERRORS).drain(..).collect();
    match result {
        0.. => Ok(()),
        errno => Err(Why { errno: -errno, log }),
    }
}

/// Takes a line of DPDK's log.
unsafe extern "C" fn log_line(level: u32, text: *const c_char, length: usize) {
    // SAFETY: the C library's stream calls with as many octets as it says.
    let octets = unsafe { slice::from_raw_parts(text.cast::<u8>(), length) };
    let text = String::from_utf8_lossy(octets);
    // rte_log.h: RTE_LOG_ERR is 4, RTE_LOG_WARNING 5, RTE_LOG_NOTICE 6
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match level {
            0..=5 => log::warn!("DPDK: {line}"),
            6 => log::info!("DPDK: {line}"),
            _ => log::debug!("DPDK: {line}"),
        }
        if level <= 4 {
            let mut errors = lock(&ERRORS);
            errors.push_back(line.into());
            if errors.len() > LINES {
                errors.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_configuration_says_replaces_our_arguments() {
        let plain = arguments("", 0).join(" ");
        assert!(plain.contains("--no-huge -m 256") && plain.contains("-a 0000:00:00.0"));
        assert!(!plain.contains("--in-memory"), "{plain}");
        let huge = arguments("", 1024).join(" ");
        assert!(huge.contains("--in-memory") && !huge.contains("--no-huge"));
        let own = arguments("--no-pci --no-huge -m 64 --log-level=debug", 1024).join(" ");
        assert_eq!(own.matches("--no-huge").count(), 1, "{own}");
        assert_eq!(own.matches("-m ").count(), 1, "{own}");
        assert!(
            !own.contains("0000:00:00.0")
                && !own.contains("warning")
                && !own.contains("--in-memory")
        );
        let cores = arguments("-l 1", 0).join(" ");
        assert!(!cores.contains("--lcores"), "{cores}");
    }
}
