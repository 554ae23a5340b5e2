//! The machine that measures.

use std::fs;

use crate::result::Environment;

/// What reports tell of this machine.
pub fn environment() -> Environment {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Environment {
        host: text(uname.nodename()),
        processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| text(uname.machine())),
        cpus: cpus as u32,
        memory: memory(),
        kernel: format!("{} {}", text(uname.sysname()), text(uname.release())),
        clock: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        hypervisor: hypervisor(),
    }
}

/// What readers of a result must know about the machine.
pub fn notes(environment: &Environment) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(hypervisor) = &environment.hypervisor {
        notes.push(format!(
            "The tester ran on a virtual machine ({hypervisor}): others share its processor, and \
             times are less exact."
        ));
    }
    if environment.clock != "tsc" && environment.clock != "arch_sys_counter" {
        notes.push(format!(
            "Linux's clock source is {} and not the processor's counter: time stamps cost more and \
             are less exact.",
            environment.clock
        ));
    }
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    if !governor.is_empty() && governor != "performance" {
        notes.push(format!(
            "The processor changes its frequency (governor {governor}); `performance` repeats better."
        ));
    }
    notes
}

/// CPU time of the whole machine since it started, in the kernel's ticks.
pub(crate) struct CpuTimes {
    /// All, and what a hypervisor took away; `None`: Linux does not say.
    ticks: Option<(u64, u64)>,
}

impl CpuTimes {
    /// The times until now.
    pub(crate) fn now() -> Self {
        let ticks = fs::read_to_string("/proc/stat")
            .ok() // then it is not known, which reports say
            .and_then(|text| ticks(text.lines().next()?));
        Self { ticks }
    }

    /// The share that was stolen since an earlier time, 0 to 1; `None`: not known.
    pub(crate) fn stolen_since(&self, earlier: &Self) -> Option<f64> {
        let ((all, stolen), (all_before, stolen_before)) = self.ticks.zip(earlier.ticks)?;
        let all = all.checked_sub(all_before).filter(|&all| all > 0)?;
        Some(stolen.saturating_sub(stolen_before) as f64 / all as f64)
    }
}

/// user, nice, system, idle, iowait, irq, softirq, steal; what follows is in user and nice already.
fn ticks(line: &str) -> Option<(u64, u64)> {
    let numbers = line.strip_prefix("cpu ")?.split_whitespace();
    let numbers: Result<Vec<u64>, _> = numbers.take(8).map(str::parse).collect();
    let numbers = numbers.ok()?;
    Some((numbers.iter().sum(), *numbers.get(7)?))
}

fn read(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().to_string()
}

/// What stands behind a name and a colon.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_string())
    })
}

/// Octets.
fn memory() -> u64 {
    let total = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kib = total.split(' ').next().and_then(|text| text.parse().ok());
    kib.unwrap_or(0_u64) * 1024
}

/// Its name, if the processor says that there is one.
fn hypervisor() -> Option<String> {
    let flags = field("/proc/cpuinfo", "flags").unwrap_or_default();
    let product = || {
        let vendor = read("/sys/class/dmi/id/sys_vendor");
        let product = read("/sys/class/dmi/id/product_name");
        let name = format!("{vendor} {product}").trim().to_string();
        if name.is_empty() {
            "unknown".into()
        } else {
            name
        }
    };
    flags
        .split(' ')
        .any(|flag| flag == "hypervisor")
        .then(product)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all() {
        let times = |line| CpuTimes { ticks: ticks(line) };
        let before = times("cpu  100 0 50 800 10 0 5 35 77 0");
        let after = times("cpu  150 0 60 820 10 0 5 55 99 0");
        assert_eq!(after.stolen_since(&before), Some(0.2));
        assert_eq!(before.stolen_since(&before), None, "no time has passed");
        assert_eq!(times("cpu  1 2").stolen_since(&before), None);
        assert!(CpuTimes::now().ticks.is_some());
    }

    #[test]
    fn this_machine_is_described() {
        let environment = environment();
        assert!(environment.kernel.starts_with("Linux "));
        assert!(environment.cpus > 0 && environment.memory > 1 << 20);
        assert!(!environment.processor.is_empty());
        let slow = Environment {
            clock: "hpet".into(),
            hypervisor: Some("KVM".into()),
            ..environment
        };
        let notes = notes(&slow).join("\n");
        assert!(notes.contains("hpet") && notes.contains("(KVM)"), "{notes}");
    }
}
