//! Compiles the counting XDP program. With the feature `dpdk`, also finds DPDK and compiles dpdk.c.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo");
    let source = PathBuf::from(manifest).join("count.bpf.c");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let multiarch = format!("/usr/include/{}-linux-gnu", env::consts::ARCH);
    SkeletonBuilder::new()
        .source(&source)
        .clang_args(["-Wall", "-Werror", "-mcpu=v3", "-I", &multiarch])
        .build_and_generate(out.join("count.skel.rs"))
        .unwrap_or_else(|error| {
            panic!("lab/bench/count.bpf.c (needs clang, libelf-dev): {error:?}")
        });
    println!("cargo:rerun-if-changed={}", source.display());
    #[cfg(feature = "dpdk")]
    dpdk();
}

#[cfg(feature = "dpdk")]
fn dpdk() {
    println!("cargo:rerun-if-changed=src/dpdk.c");
    println!("cargo:rerun-if-changed=src/acl/dpdk.c");
    let mut build = cc::Build::new();
    // for this machine's CPU, so that DPDK's inline functions use its vector instructions
    build
        .file("src/dpdk.c")
        .file("src/acl/dpdk.c")
        .opt_level(3)
        .flag("-march=native")
        .warnings(true);
    for flag in pkg_config("--cflags")
        .iter()
        .filter(|flag| !flag.starts_with("-march"))
    {
        match flag.strip_prefix("-I") {
            // no warnings about headers of others
            Some(folder) => build.flag("-isystem").flag(folder),
            None => build.flag(flag),
        };
    }
    build.compile("bora_bench_dpdk");
    for folder in pkg_config("--libs-only-L") {
        println!(
            "cargo:rustc-link-search=native={}",
            folder.trim_start_matches("-L")
        );
    }
    for library in ["rte_acl", "rte_fib", "rte_lpm", "rte_eal"] {
        println!("cargo:rustc-link-lib={library}");
    }
}

#[cfg(feature = "dpdk")]
fn pkg_config(what: &str) -> Vec<String> {
    let output = std::process::Command::new("pkg-config")
        .args([what, "libdpdk"])
        .output();
    let output = output.expect("pkg-config runs");
    assert!(
        output.status.success(),
        "libdpdk is not installed; see scripts/deps-bench"
    );
    let text = String::from_utf8(output.stdout).expect("flags are text");
    text.split_whitespace().map(String::from).collect()
}
