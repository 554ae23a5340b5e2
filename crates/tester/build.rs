//! Compiles the tester's BPF programs with clang and generates their skeleton.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let source = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"))
        .join("../../xdp/tester.bpf.c");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("tester.skel.rs");
    let multiarch = format!("/usr/include/{}-linux-gnu", env::consts::ARCH);
    SkeletonBuilder::new()
        .source(&source)
        .clang_args(["-Wall", "-Werror", "-mcpu=v3", "-I", &multiarch])
        .build_and_generate(&out)
        .unwrap_or_else(|error| panic!("xdp/tester.bpf.c (needs clang, libelf-dev): {error:?}"));
    println!("cargo:rerun-if-changed={}", source.display());
}
