//! System calls that a thread does without (seccomp(2)).
//!
//! The lists say what is denied, not what is allowed: which calls libc makes for the same function changes with its version, and a
//! router must not end over an update of libc. What is denied is what turns a fault in a thread into control of the machine.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// What nothing in the daemon needs once it has started.
pub(crate) const EVERYWHERE: &[i64] = &[
    // other programs and processes
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // the file system's shape
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // the machine
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    // what faults of kernels have been reached by; io_uring also goes around these filters
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_personality,
    // other users
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
];

/// What only the control loop needs.
pub(crate) const IN_THREADS: &[i64] = &[
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_perf_event_open,
];

/// In the other ABI of x86-64 that a kernel may have, calls have this bit, and some have other numbers
/// (arch/x86/entry/syscalls/syscall_64.tbl): execve, ptrace, process_vm_readv, process_vm_writev, execveat, kexec_load.
#[cfg(target_arch = "x86_64")]
const X32: (i64, [i64; 6]) = (0x4000_0000, [520, 521, 539, 540, 545, 528]);

/// Denies the calling thread, and those that it will start, these calls, with EPERM; with `bpf` also bpf(2), and with setns
/// in the list new user namespaces by clone(2), in which a thread would have all capabilities again.
///
/// It also sets "no new privileges". Most calls cost nothing more: from Linux 5.11 on the kernel keeps a table of those that a filter always allows.
pub(crate) fn deny(calls: &[i64], bpf: bool) -> Result<(), seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let more = if bpf { &[libc::SYS_bpf][..] } else { &[] };
    for &call in calls.iter().chain(more) {
        rules.insert(call, Vec::new());
        #[cfg(target_arch = "x86_64")]
        rules.insert(call | X32.0, Vec::new());
    }
    #[cfg(target_arch = "x86_64")]
    if calls.contains(&libc::SYS_execve) {
        rules.extend(X32.1.map(|call| (call | X32.0, Vec::new())));
    }
    if calls.contains(&libc::SYS_unshare) {
        let flag = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
        let made = SeccompCondition::new(
            0,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(flag),
            flag,
        )?;
        rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![made])?]);
        // its flags are in memory, where a filter cannot look; libc then takes clone
        apply(
            BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
            libc::ENOSYS,
        )?;
    }
    apply(rules, libc::EPERM)
}

fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Result<(), seccompiler::Error> {
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    apply_filter(&BpfProgram::try_from(filter)?)
}
