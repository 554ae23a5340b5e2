//! Frames that Linux dropped in front of an interface's XDP program.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::Context;

/// The counter of one interface.
pub(crate) struct Drops {
    /// `/proc/net/dev`; it shows the namespace in which it was opened, whichever thread reads.
    file: File,
    interface: String,
}

impl Drops {
    /// Opens the counter of an interface of the calling thread's namespace.
    pub(crate) fn new(interface: &str) -> anyhow::Result<Self> {
        let path = "/proc/thread-self/net/dev";
        Ok(Self {
            file: File::open(path).with_context(|| format!("cannot read {path}"))?,
            interface: interface.into(),
        })
    }

    /// Received frames dropped so far.
    ///
    /// # Errors
    /// The interface is gone.
    pub(crate) fn read(&self) -> anyhow::Result<u64> {
        let mut text = Vec::new();
        let mut part = [0; 4096];
        loop {
            match self.file.read_at(&mut part, text.len() as u64) {
                Ok(0) => break,
                Ok(count) => text.extend_from_slice(&part[..count]),
                Err(error) => return Err(error).context("/proc/net/dev"),
            }
        }
        let interface = &self.interface;
        dropped(&String::from_utf8_lossy(&text), interface)
            .with_context(|| format!("{interface} is gone, and what it dropped is not known"))
    }
}

/// Received: bytes, packets, errs, drop, …
fn dropped(text: &str, interface: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, counters) = lines.find(|(name, _)| name.trim() == interface)?;
    counters.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_counter() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes    packets errs drop fifo\n    \
                    lo:     1 2 3 4 5 6\n  e0: 10 20 30 40 50 60 70 80 90\n";
        assert_eq!(dropped(text, "e0"), Some(40));
        assert_eq!(dropped(text, "e1"), None);
        assert_eq!(Drops::new("lo").unwrap().read().unwrap(), 0);
        let gone = Drops::new("gone0").unwrap().read().unwrap_err();
        assert!(gone.to_string().contains("gone0 is gone"), "{gone}");
    }
}
