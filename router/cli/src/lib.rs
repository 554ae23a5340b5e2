//! The command line of Bora, without the kinds of ports that others bring (hero/bora).
#![forbid(unsafe_code)]

mod apply;
mod arguments;
mod check;
mod client;
mod notify;
mod prove;
mod run;
mod save;
mod show;
mod support;
mod top;
mod upgrade;
mod watch;
mod web;

use std::process::ExitCode;

use bora_terminal::{execute, say};

use arguments::{Arguments, Command, SetCommand};

/// Carries out what was typed.
pub fn main() -> ExitCode {
    bora_terminal::main(|typed: &Arguments| typed.verbose, dispatch)
}

fn dispatch(typed: Arguments) -> anyhow::Result<ExitCode> {
    let verbose = typed.verbose;
    match typed.command {
        Command::Run(options) => run::run(options).map(|()| ExitCode::SUCCESS),
        Command::Show(options) => show::show(options).map(|()| ExitCode::SUCCESS),
        Command::Top(options) => top::top(&options).map(|()| ExitCode::SUCCESS),
        Command::Web(options) => web::web(options).map(|()| ExitCode::SUCCESS),
        Command::Set(SetCommand::Mode { mode, worker }) => {
            let worker = worker.map(|n| format!("&worker={n}")).unwrap_or_default();
            client::post(&format!("/v1/workers?mode={mode}{worker}")).map(|_| ExitCode::SUCCESS)
        }
        Command::Profile { seconds } => show::profile(seconds).map(|()| ExitCode::SUCCESS),
        Command::Capture(options) => watch::capture(&options).map(|()| ExitCode::SUCCESS),
        Command::Trace(options) => watch::trace(&options).map(|()| ExitCode::SUCCESS),
        Command::Prove(options) => prove::prove(&options),
        Command::Apply(options) => apply::apply(&options).map(|()| ExitCode::SUCCESS),
        Command::Diff { what } => apply::diff(&what).map(|()| ExitCode::SUCCESS),
        Command::Rollback { number, confirm } => {
            apply::rollback(number, confirm).map(|()| ExitCode::SUCCESS)
        }
        Command::Support { file } => support::support(&file).map(|()| ExitCode::SUCCESS),
        Command::Confirm => apply::confirm().map(|()| ExitCode::SUCCESS),
        Command::Stop { detach } => run::stop(detach).map(|()| ExitCode::SUCCESS),
        Command::Upgrade(options) => upgrade::upgrade(&options),
        Command::Check {
            config: None,
            ports,
            interrupt,
            ..
        } => check::check(&ports, interrupt),
        Command::Check {
            config: Some(path),
            elsewhere,
            ..
        } => check::file(&path, elsewhere).map(|()| ExitCode::SUCCESS),
        Command::Save { file } => save::save(file.as_deref()).map(|()| ExitCode::SUCCESS),
        Command::Schema => {
            say!("{:#}", bora_daemon::schema())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Test(it) => Err(execute("bora-test", "bora test", it.words, verbose)),
        Command::Lab(it) => Err(execute("bora-lab", "bora lab", it.words, verbose)),
        Command::Pages(pages) => Ok(pages.write::<Arguments>().map(|()| ExitCode::SUCCESS)?),
    }
}
