//! The command line of Bora, a software router for Linux.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    bora::main()
}
