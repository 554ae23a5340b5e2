//! Capture files (draft-ietf-opsawg-pcapng): what came in, and what became of it as a comment.

use std::borrow::Cow;
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};

use crate::SNAP;

/// The direction in the flags of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came in.
    In = 1,
    /// It left.
    Out = 2,
}

/// Writes a file into memory, piece by piece.
#[allow(missing_debug_implementations)]
pub struct Writer {
    writer: PcapNgWriter<Vec<u8>>,
    interfaces: Vec<String>,
}

impl Writer {
    /// A file without packets.
    ///
    /// # Errors
    /// None is known, but the library has them.
    pub fn new() -> Result<Self, PcapError> {
        Ok(Self {
            writer: PcapNgWriter::new(Vec::new())?,
            interfaces: Vec::new(),
        })
    }

    /// Adds a packet. `time`: since 1970; `length`: what it had on the wire, octets.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn packet(
        &mut self,
        interface: &str,
        direction: Direction,
        time: Duration,
        (octets, length): (&[u8], u32),
        comment: &str,
    ) -> Result<(), PcapError> {
        let interface_id = self.interface(interface)?;
        let options = vec![
            EnhancedPacketOption::Comment(Cow::Borrowed(comment)),
            EnhancedPacketOption::Flags(direction as u32),
        ];
        self.writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id,
            timestamp: time,
            original_len: length.max(octets.len() as u32),
            data: Cow::Borrowed(octets),
            options,
        })?;
        Ok(())
    }

    fn interface(&mut self, name: &str) -> Result<u32, PcapError> {
        if let Some(known) = self.interfaces.iter().position(|known| known == name) {
            return Ok(known as u32);
        }
        self.writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: SNAP as u32,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                InterfaceDescriptionOption::IfTsResol(9),
            ],
        })?;
        self.interfaces.push(name.into());
        Ok(self.interfaces.len() as u32 - 1)
    }

    /// What has been written since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.writer.get_mut())
    }
}

#[cfg(test)]
mod tests {
    use pcap_file::pcapng::PcapNgReader;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut writer = Writer::new().unwrap();
        let time = Duration::from_nanos(1_700_000_000_123_456_789);
        let frame = [7u8; 61];
        for port in ["eth0", "eth1", "eth0"] {
            writer
                .packet(
                    port,
                    Direction::In,
                    time,
                    (&frame, 99),
                    "express: sent by eth1",
                )
                .unwrap();
        }
        let octets = writer.take();
        assert!(writer.take().is_empty());
        let mut reader = PcapNgReader::new(&octets[..]).unwrap();
        let mut packets = 0;
        while let Some(block) = reader.next_block() {
            let block = block.unwrap().into_owned();
            if let Some(packet) = block.into_enhanced_packet() {
                assert_eq!((&*packet.data, packet.original_len), (&frame[..], 99));
                packets += 1;
            }
        }
        assert_eq!((packets, reader.interfaces().len()), (3, 2));
        assert_eq!(
            reader.interfaces()[1].options[0],
            InterfaceDescriptionOption::IfName("eth1".into())
        );
    }
}
