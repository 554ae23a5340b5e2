//! Finds DPDK and compiles shim.c.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    let mut build = cc::Build::new();
    build.file("src/shim.c").opt_level(3).warnings(true);
    // fopencookie; rte_dev_dma_map, which DPDK 22.11 does not call stable yet
    build.define("_GNU_SOURCE", None);
    build.define("ALLOW_EXPERIMENTAL_API", None);
    for flag in pkg_config("--cflags") {
        match flag.strip_prefix("-I") {
            // no warnings about headers of others
            Some(folder) => build.flag("-isystem").flag(folder),
            None => build.flag(&flag),
        };
    }
    build.compile("bora_dpdk");
    for folder in pkg_config("--libs-only-L") {
        let folder = folder.trim_start_matches("-L");
        println!("cargo:rustc-link-search=native={folder}");
    }
    // all of them: which one has a function differs from version to version, and the linker leaves out
    // those that nothing needs
    for library in pkg_config("--libs-only-l") {
        if let Some(library) = library.strip_prefix("-lrte_") {
            println!("cargo:rustc-link-lib=rte_{library}");
        }
    }
}

fn pkg_config(what: &str) -> Vec<String> {
    let output = Command::new("pkg-config")
        .args([what, "libdpdk >= 22.11"])
        .output()
        .expect("pkg-config runs (Debian: pkg-config)");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the feature `dpdk` needs DPDK 22.11 or later (Debian: libdpdk-dev): {error}"
    );
    let text = String::from_utf8(output.stdout).expect("flags are text");
    text.split_whitespace().map(String::from).collect()
}
