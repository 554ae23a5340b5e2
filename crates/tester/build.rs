//! Compiles the tester's BPF programs with clang and generates their skeletons.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

/// Files in `xdp`, without their `.bpf.c`.
const PROGRAMS: [&str; 3] = ["tester", "tester_send", "redirect"];

fn main() {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo");
    let xdp = PathBuf::from(manifest).join("../../xdp");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let multiarch = format!("/usr/include/{}-linux-gnu", env::consts::ARCH);
    for name in PROGRAMS {
        let source = xdp.join(format!("{name}.bpf.c"));
        SkeletonBuilder::new()
            .source(&source)
            .clang_args(["-Wall", "-Werror", "-mcpu=v3", "-I", &multiarch])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .unwrap_or_else(|error| {
                panic!("xdp/{name}.bpf.c (needs clang, libelf-dev): {error:?}")
            });
        println!("cargo:rerun-if-changed={}", source.display());
    }
    println!("cargo:rerun-if-changed={}", xdp.join("tester.h").display());
}
