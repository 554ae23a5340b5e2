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
