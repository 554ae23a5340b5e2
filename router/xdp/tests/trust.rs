//! Trust in Linux's hooks ends before their rules change, on this kernel.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use bora_linux::netns;
use bora_xdp::{Program, Trust};

fn nft(command: &str) {
    let done = Command::new("nft").arg(command).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command}: {said}");
}

/// Whether IPv4's forward hook holds, and whether it is trusted.
fn forward(program: &Program) -> (bool, bool) {
    let survey = program.survey().unwrap();
    (survey.hooks[0][1].holds, survey.hooks[0][1].trusted)
}

/// Trusts IPv4's forward hook as it is now.
fn trust_forward(program: &mut Program) {
    let survey = program.survey().unwrap();
    let mut trust = Trust {
        generation: survey.generation.unwrap(),
        ..Trust::default()
    };
    trust.hooks[0][1] = survey.hooks[0][1].identity;
    program.trust(&trust);
}

#[test]
fn trust_ends_with_each_change() {
    if !rustix::process::geteuid().is_root() {
        bora_testing::skip("loading BPF programs needs root");
        return;
    }
    let test = || {
        let inode = std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
        let mut program = Program::load(inode as u32, 0, false).unwrap();
        if program.survey().unwrap().generation.is_none() {
            return; // the program trusts nothing on this kernel
        }
        assert_eq!(forward(&program), (false, false), "no hook");
        nft("add table ip t; add chain ip t c { type filter hook forward priority 0; }");
        assert_eq!(forward(&program), (true, false));
        for change in [
            "add rule ip t c accept",
            "add set ip t s { type ipv4_addr; }",
            "add element ip t s { 192.0.2.1 }",
            "add chain ip t d { type filter hook forward priority 1; }",
            "delete chain ip t d",
            "flush chain ip t c",
        ] {
            trust_forward(&mut program);
            assert_eq!(forward(&program), (false, true), "before {change}");
            nft(change);
            assert_eq!(forward(&program), (true, false), "{change}");
        }
        trust_forward(&mut program);
        netns::in_new(|| nft("add table ip t; add chain ip t c")).unwrap();
        assert_eq!(forward(&program), (false, true), "another namespace");
        program.trust(&Trust::default());
        assert_eq!(forward(&program), (true, false), "no trust");
    };
    netns::in_new(test).unwrap();
}
