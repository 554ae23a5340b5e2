//! `bora top`: the live data in a terminal. `feed` reads them, `state` keeps what is shown, `draw` draws
//! it; only this file does input and output.

mod colors;
mod draw;
mod feed;
mod panels;
mod ports;
mod state;
mod words;

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::terminal;

use bora_terminal::say;
use feed::News;
use state::State;

/// Columns and lines of one frame for scripts.
const ONCE: (u16, u16) = (100, 60);
/// Longest wait for the first data of one frame.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct TopOptions {
    /// Print one frame as text, and end
    #[arg(long)]
    pub(crate) once: bool,
}

/// What the loop waits for.
enum Input {
    News(News),
    Key(KeyEvent),
    /// The terminal has another size.
    Resized,
    /// Nobody can type any more.
    Ended(io::Error),
}

pub(crate) fn top(options: &TopOptions) -> anyhow::Result<()> {
    let mut state = State::new(feed::reasons()?);
    let (inputs, input) = channel();
    let news = inputs.clone();
    std::thread::spawn(move || feed::follow(|one| news.send(Input::News(one)).is_ok()));
    if options.once {
        return once(&mut state, &input);
    }
    std::thread::spawn(move || read_keys(&inputs));
    // both put the terminal back also when something panics
    let mut terminal = ratatui::try_init().context("bora top needs a terminal; see --once")?;
    let ended = watch(&mut state, &input, &mut terminal);
    ratatui::restore();
    ended
}

/// Shows what comes until the user ends it.
fn watch(
    state: &mut State,
    input: &Receiver<Input>,
    terminal: &mut ratatui::DefaultTerminal,
) -> anyhow::Result<()> {
    loop {
        terminal.draw(|frame| draw::draw(frame, state))?;
        match input.recv()? {
            Input::News(news) => state.take(news),
            Input::Key(key) if state.press(key) => return Ok(()),
            Input::Key(_) | Input::Resized => {}
            Input::Ended(error) => return Err(error).context("cannot read keys"),
        }
    }
}

fn read_keys(inputs: &Sender<Input>) {
    loop {
        let input = match event::read() {
            Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => Input::Key(key),
            Ok(Event::Resize(..)) => Input::Resized,
            Ok(_) => continue,
            Err(error) => Input::Ended(error),
        };
        let is_last = matches!(input, Input::Ended(_));
        if inputs.send(input).is_err() || is_last {
            return;
        }
    }
}

/// Prints a frame with the first second's numbers.
fn once(state: &mut State, input: &Receiver<Input>) -> anyhow::Result<()> {
    while !state.has_rates() {
        match input.recv_timeout(PATIENCE) {
            Ok(Input::News(News::Lost(why))) => bail!("{why}"),
            Ok(Input::News(news)) => state.take(news),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => bail!("Bora sends nothing"),
            Err(error) => return Err(error.into()),
        }
    }
    let columns = terminal::size().map_or(ONCE.0, |(columns, _)| columns.max(60));
    say!("{}", text(state, (columns, ONCE.1))?)?;
    Ok(())
}

/// A frame as text, without spaces at the ends, and without lines that have only borders.
fn text(state: &State, (columns, lines): (u16, u16)) -> anyhow::Result<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines))?;
    terminal.draw(|frame| draw::draw(frame, state))?;
    let cells = terminal.backend().buffer().content();
    let rows = cells.chunks(usize::from(columns)).map(|row| {
        let text: String = row.iter().map(|cell| cell.symbol()).collect();
        text.trim_end().to_owned()
    });
    let has_text = |row: &String| row.chars().any(|c| !c.is_whitespace() && c != '│');
    let rows: Vec<String> = rows.filter(has_text).collect();
    Ok(rows.join("\n"))
}

#[cfg(test)]
mod tests;
