//! Compiles the tester's BPF programs with clang and generates their skeletons.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

/// Files in `bpf`, without their `.bpf.c`.
const PROGRAMS: [&str; 3] = ["tester", "tester_send", "redirect"];

fn main() {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo");
    let xdp = PathBuf::from(manifest).join("bpf");
    // the contract with the router's program
    let contract = format!("{}/../../../router/xdp/bpf", xdp.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let multiarch = format!("/usr/include/{}-linux-gnu", env::consts::ARCH);
    for name in PROGRAMS {
        let source = xdp.join(format!("{name}.bpf.c"));
        SkeletonBuilder::new()
            .source(&source)
            .clang_args([
                "-Wall", "-Werror", "-mcpu=v3", "-I", &multiarch, "-I", &contract,
            ])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .unwrap_or_else(|error| {
                panic!("tester/engine/bpf/{name}.bpf.c (needs clang, libelf-dev): {error:?}")
            });
        println!("cargo:rerun-if-changed={}", source.display());
    }
    for header in [
        xdp.join("tester.h"),
        PathBuf::from(&contract).join("contract.h"),
    ] {
        println!("cargo:rerun-if-changed={}", header.display());
    }
}
