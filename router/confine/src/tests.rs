//! Each test confines a thread of its own, which ends with it.

use std::process::Command;
use std::{fs, io, thread};

use super::*;

/// A line of the calling thread's status.
fn status(name: &str) -> String {
    let text = fs::read_to_string("/proc/thread-self/status").unwrap();
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix(name))
        .unwrap()
        .trim()
        .into()
}

fn in_thread(what: impl FnOnce() + Send + 'static) {
    thread::spawn(what).join().unwrap();
}

fn refused<T: std::fmt::Debug>(done: io::Result<T>) {
    assert_eq!(done.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_confined_thread_runs_no_program() {
    in_thread(|| {
        assert!(Command::new("true").status().unwrap().success());
        process(START);
        assert_eq!(status("Seccomp:"), "2");
        assert_eq!(status("NoNewPrivs:"), "1");
        refused(Command::new("true").status());
    });
}

#[test]
fn threads_inherit_it_and_give_up_more() {
    in_thread(|| {
        process(CONTROL);
        in_thread(|| {
            thread(NONE);
            assert_eq!(held(), "none");
            for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
                assert_eq!(u64::from_str_radix(&status(set), 16), Ok(0), "{set}");
            }
            refused(Command::new("true").status());
            #[expect(deprecated, reason = "the other form is unsafe, and this is refused")]
            let made = rustix::thread::unshare(rustix::thread::UnshareFlags::NEWUSER);
            refused(made.map_err(io::Error::from));
            thread::spawn(|| ()).join().unwrap(); // by clone instead of clone3
        });
    });
}

#[test]
fn nothing_comes_back() {
    in_thread(|| {
        thread(KERNEL);
        assert!(!held().contains("SYS_ADMIN"));
        reduce(START);
        assert!(!held().contains("SYS_ADMIN"));
    });
}

#[test]
fn others_keep_what_they_have() {
    let before = held();
    in_thread(|| thread(NONE));
    assert_eq!(held(), before);
    assert_ne!(status("CapBnd:"), "0");
}
