//! Compiles the XDP programs with clang and generates their skeletons.

use std::path::PathBuf;
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let xdp = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"))
        .join("bpf")
        .canonicalize()
        .expect("the folder bpf of this crate");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    // Debian and Ubuntu keep asm/ headers in a folder named after the machine.
    let multiarch = format!("/usr/include/{}-linux-gnu", env::consts::ARCH);
    for name in ["bora", "generation", "inject", "multipath", "pppoe"] {
        SkeletonBuilder::new()
            .source(xdp.join(format!("{name}.bpf.c")))
            .clang_args(["-Wall", "-Werror", "-mcpu=v3", "-I", &multiarch])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .unwrap_or_else(|error| {
                panic!("router/xdp/bpf/{name}.bpf.c (needs clang, libelf-dev): {error:?}")
            });
    }
    for entry in fs::read_dir(&xdp).expect("bpf is readable").flatten() {
        println!("cargo:rerun-if-changed={}", entry.path().display());
    }
}
