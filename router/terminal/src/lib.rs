//! What Bora's command lines share: output, logs, completions and manual pages.
//!
//! Standard output may be a full disk, or a pipe that nobody reads any more: that is an error of the command like
//! any other, where `println!` would panic.

#![forbid(unsafe_code)]

mod log_target;
mod pages;
mod program;

use std::fmt::{self, Arguments};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

pub use pages::Pages;
pub use program::{beside, execute};

/// What a shell says of a program that a closed pipe has ended: 128 and the number of SIGPIPE.
const CLOSED_PIPE: u8 = 141;

/// Prints a line.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a text as it is.
///
/// # Errors
/// Standard output takes no more.
pub fn print(text: Arguments<'_>) -> io::Result<()> {
    Output.write_fmt(text)
}

/// Standard output, whose errors say that they are its own.
#[derive(Debug)]
pub struct Output;

impl Write for Output {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        io::stdout().write(octets).map_err(own)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(own)
    }
}

/// Why standard output takes no more.
#[derive(Debug)]
struct Refused(io::Error);

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write to standard output: {}", self.0)
    }
}

fn own(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, Refused(error)),
    }
}

/// A program: reads its command line, carries out what was typed, and says why it failed if it did.
pub fn main<A: Parser>(
    is_verbose: fn(&A) -> bool,
    carry_out: fn(A) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    log_target::log_to_the_right_place(is_verbose(&arguments));
    let done = carry_out(arguments).and_then(|code| Ok(Output.flush().map(|()| code)?));
    done.unwrap_or_else(|error| complain(&error, 1))
}

/// Prints help, the version, or what is wrong with what was typed.
fn usage(error: &clap::Error) -> ExitCode {
    let code = u8::try_from(error.exit_code()).unwrap_or(u8::MAX);
    match error.print() {
        Err(refused) if !error.use_stderr() => complain(&own(refused).into(), 1),
        // what is wrong cannot be said, but the code says that something is
        _ => ExitCode::from(code),
    }
}

/// Says why a command failed, and how it ends. Nothing is said about a closed pipe (`| head`): its reader has had enough.
pub fn complain(error: &anyhow::Error, code: u8) -> ExitCode {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    let is_own = |cause: &io::Error| cause.get_ref().is_some_and(|inner| inner.is::<Refused>());
    if causes.any(|cause| is_own(cause) && cause.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::from(CLOSED_PIPE);
    }
    remark(format_args!("{error:#}"));
    ExitCode::from(code)
}

/// Tells the user something beside the output. There is nobody left to tell it to if standard error is closed or full.
pub fn remark(text: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "bora: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_output_is_passed_over_in_silence() {
        let broken = || io::Error::from(ErrorKind::BrokenPipe);
        let code = |error: io::Error| complain(&anyhow::Error::new(error).context("it failed"), 7);
        assert_eq!(code(own(broken())), ExitCode::from(CLOSED_PIPE));
        assert_eq!(
            code(broken()),
            ExitCode::from(7),
            "another pipe, such as the API's socket"
        );
        assert_eq!(code(own(ErrorKind::StorageFull.into())), ExitCode::from(7));
    }
}
