//! Compiles the part in C and finds DPDK, only with the feature `dpdk`.

fn main() {
    #[cfg(feature = "dpdk")]
    dpdk();
}

#[cfg(feature = "dpdk")]
fn dpdk() {
    println!("cargo:rerun-if-changed=src/dpdk.c");
    let mut build = cc::Build::new();
    // for the machine it runs on, as DPDK's inline functions deserve
    build
        .file("src/dpdk.c")
        .opt_level(3)
        .flag("-march=native")
        .warnings(true);
    for flag in pkg_config("--cflags")
        .iter()
        .filter(|flag| !flag.starts_with("-march"))
    {
        match flag.strip_prefix("-I") {
            // headers of others: not for our warnings
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
    for library in ["rte_fib", "rte_lpm", "rte_eal"] {
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
