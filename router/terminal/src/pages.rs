//! Completions and manual pages, made from the command line itself.

use std::io::Write;
use std::path::PathBuf;

use clap::{CommandFactory, Subcommand};

use crate::Output;

/// Commands that every one of the programs has.
#[derive(Debug, Subcommand)]
pub enum Pages {
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write all pages to a folder
    Man {
        /// Where to write them, a file for each command
        directory: Option<PathBuf>,
    },
}

impl Pages {
    /// Prints or writes them for the program with the command line `A`.
    ///
    /// # Errors
    /// The output or a file cannot be written.
    pub fn write<A: CommandFactory>(self) -> std::io::Result<()> {
        let mut command = A::command();
        match self {
            Self::Completions { shell } => {
                // into memory: it panics where it cannot write
                let mut script = Vec::new();
                let name = command.get_name().to_owned();
                clap_complete::generate(shell, &mut command, name, &mut script);
                Output.write_all(&script)
            }
            Self::Man { directory: None } => clap_mangen::Man::new(command).render(&mut Output),
            Self::Man {
                directory: Some(directory),
            } => clap_mangen::generate_to(command, directory),
        }
    }
}
