//! Reading a whole capture file, so that no error is left for later.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError};

/// First octets of a pcapng file: its section header block.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Why a file cannot be a port.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not there, or not to be read or written.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a capture file, or a damaged one.
    #[error("{file}, packet {packet}: {source}")]
    Format {
        /// The file.
        file: String,
        /// The number of the packet, from 1; 0 for the file's header.
        packet: usize,
        /// What is wrong.
        source: PcapError,
    },
    /// Packets of something else.
    #[error("{file} holds packets of link type {found:?}, not of Ethernet")]
    LinkType {
        /// The file.
        file: String,
        /// What it holds.
        found: DataLink,
    },
    /// Nothing to receive.
    #[error("{0} holds no packets")]
    Empty(String),
}

/// The packets of a capture file, one after the other in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Capture {
    octets: Vec<u8>,
    /// Where each packet ends, and whether the file has all of it.
    ends: Vec<(usize, bool)>,
}

impl Capture {
    /// Reads a pcap or pcapng file.
    pub(super) fn read(path: &Path) -> Result<Self, FileError> {
        let name = || path.display().to_string();
        let io = |source| FileError::Io {
            file: name(),
            source,
        };
        let mut file = BufReader::new(File::open(path).map_err(io)?);
        let mut magic = [0; 4];
        file.read_exact(&mut magic).map_err(io)?;
        file.rewind().map_err(io)?;
        let mut capture = Self::default();
        let result = match magic {
            PCAPNG => capture.read_pcapng(file),
            _ => capture.read_pcap(file),
        };
        match result {
            Err(Wrong::Format(source)) => Err(FileError::Format {
                file: name(),
                packet: capture.ends.len(),
                source,
            }),
            Err(Wrong::Link(found)) => Err(FileError::LinkType {
                file: name(),
                found,
            }),
            Ok(()) if capture.ends.is_empty() => Err(FileError::Empty(name())),
            Ok(()) => Ok(capture),
        }
    }

    /// Packets.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A packet, and whether the file has all of it.
    pub(super) fn packet(&self, index: usize) -> (&[u8], bool) {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, whole) = self.ends[index];
        (&self.octets[start..end], whole)
    }

    fn push(&mut self, octets: &[u8], length: u32) {
        self.octets.extend_from_slice(octets);
        let whole = octets.len() == length as usize;
        self.ends.push((self.octets.len(), whole));
    }

    fn read_pcap(&mut self, file: impl Read) -> Result<(), Wrong> {
        let mut reader = PcapReader::new(file)?;
        ethernet(reader.header().datalink)?;
        while let Some(packet) = reader.next_packet() {
            let packet = packet?;
            self.push(&packet.data, packet.orig_len);
        }
        Ok(())
    }

    fn read_pcapng(&mut self, file: impl Read) -> Result<(), Wrong> {
        let mut reader = PcapNgReader::new(file)?;
        while let Some(block) = reader.next_block() {
            match block? {
                Block::InterfaceDescription(interface) => ethernet(interface.linktype)?,
                Block::EnhancedPacket(packet) => self.push(&packet.data, packet.original_len),
                Block::SimplePacket(packet) => self.push(&packet.data, packet.original_len),
                Block::Packet(packet) => self.push(&packet.data, packet.original_len),
                _ => {}
            }
        }
        Ok(())
    }
}

enum Wrong {
    Format(PcapError),
    Link(DataLink),
}

impl From<PcapError> for Wrong {
    fn from(error: PcapError) -> Self {
        Self::Format(error)
    }
}

fn ethernet(found: DataLink) -> Result<(), Wrong> {
    match found {
        DataLink::ETHERNET => Ok(()),
        other => Err(Wrong::Link(other)),
    }
}
