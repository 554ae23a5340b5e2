//! Least privilege: what the daemon's threads give up once they have what they need.
//!
//! Capabilities belong to threads (capabilities(7)), and a thread inherits those of the one that starts it. So [`process`]
//! comes before the first other thread, and each thread begins with [`thread`].
#![forbid(unsafe_code)]

mod calls;
mod capabilities;

pub use capabilities::Capabilities;

/// What the control loop needs while Bora runs.
///
/// `NET_ADMIN`: XDP programs, neighbours, TAPs, offloads. `NET_RAW`: AF_XDP and packet sockets. `BPF`, `PERFMON`: programs that
/// read the kernel's structures. `SYSLOG`: addresses in `/proc/kallsyms`. `IPC_LOCK`: packet memory beyond `ulimit -l`.
/// `SYS_ADMIN`: network namespaces, to try multipath routes in and for ports.
pub const CONTROL: Capabilities = KERNEL
    .union(Capabilities::SYSLOG)
    .union(Capabilities::IPC_LOCK)
    .union(Capabilities::SYS_ADMIN);

/// What a thread needs that gives the kernel packets, maps or questions.
pub const KERNEL: Capabilities = Capabilities::NET_ADMIN
    .union(Capabilities::NET_RAW)
    .union(Capabilities::BPF)
    .union(Capabilities::PERFMON);

/// What is needed beside [`CONTROL`] until the API listens: other people's files, a port below 1024, the socket's group.
pub const START: Capabilities = CONTROL
    .union(Capabilities::DAC_OVERRIDE)
    .union(Capabilities::NET_BIND_SERVICE)
    .union(Capabilities::CHOWN);

/// Nothing.
pub const NONE: Capabilities = Capabilities::empty();

/// Leaves the calling thread, and all that it will start, these capabilities at most, and none to programs that it might run. From now on
/// it cannot run any, nor trace, mount or load modules.
///
/// What the kernel or a supervisor's own filter refuses is said in the log, and Bora goes on with the rights it has.
pub fn process(keep: Capabilities) {
    tell("capabilities stay", capabilities::forget_for_programs());
    reduce(keep);
    tell("system calls stay", calls::deny(calls::EVERYWHERE, false));
}

/// Leaves the calling thread these capabilities at most.
pub fn reduce(keep: Capabilities) {
    tell("capabilities stay", capabilities::keep(keep));
}

/// Leaves the calling thread, which does one thing, these capabilities at most. It cannot enter or make
/// namespaces either, nor load BPF programs without the capability.
pub fn thread(keep: Capabilities) {
    reduce(keep);
    let bpf = keep.contains(Capabilities::BPF);
    tell("system calls stay", calls::deny(calls::IN_THREADS, !bpf));
}

/// The capabilities of the calling thread, such as `NET_ADMIN, BPF`.
#[must_use]
pub fn held() -> String {
    capabilities::held().map_or_else(|error| error.to_string(), capabilities::names)
}

fn tell<E: std::fmt::Display>(what: &str, done: Result<(), E>) {
    if let Err(error) = done {
        let name = std::thread::current()
            .name()
            .unwrap_or("a thread")
            .to_owned();
        log::warn!("{what} as they are in {name}: {error}");
    }
}

#[cfg(test)]
mod tests;
