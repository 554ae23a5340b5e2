//! What to do about a system call that has failed.

use std::{fs, io};

/// A hint for an operator, behind a semicolon; nothing if the error alone says it. `otherwise` is for a file or device that is
/// not there.
pub fn advice(error: &io::Error, otherwise: &str) -> String {
    let what = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => no_rights(),
        Some(libc::EMFILE) => {
            "this process has too many open files: raise `ulimit -n` (LimitNOFILE= in the unit)"
        }
        Some(libc::ENFILE) => "the machine has too many open files: raise fs.file-max with sysctl",
        Some(libc::EROFS) => "that file system is read-only: mount it writable",
        Some(libc::ENOSPC | libc::EDQUOT) => "that file system is full: make room",
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => otherwise,
        _ => "",
    };
    match what {
        "" => String::new(),
        what => format!("; {what}"),
    }
}

/// What to do for want of rights.
pub fn no_rights() -> &'static str {
    match in_user_namespace() {
        true => "root of a user namespace is not enough: run as the machine's root, outside of it",
        false => "run as root",
    }
}

/// Whether this process is in another user namespace than the machine's first one, which maps all users to themselves.
pub fn in_user_namespace() -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "without /proc nothing is known, and the plain advice is given"
    )]
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.is_empty() && map.split_whitespace().ne(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_fits_the_error() {
        let of = |code| advice(&io::Error::from_raw_os_error(code), "`modprobe tun`");
        assert!(of(libc::EMFILE).contains("ulimit -n"));
        assert!(of(libc::EROFS).contains("read-only"));
        assert!(of(libc::EPERM).contains("root"));
        assert_eq!(of(libc::ENOENT), "; `modprobe tun`");
        assert_eq!(of(libc::EBUSY), "");
    }
}
