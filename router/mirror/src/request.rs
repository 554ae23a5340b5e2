//! Netlink requests that change something.

/// A message body: a fixed header and attributes.
#[derive(Clone, Debug)]
pub(crate) struct Body(Vec<u8>);

impl Body {
    /// Starts with the fixed header of the message.
    pub(crate) fn new(head: &[u8]) -> Self {
        Self(head.to_vec())
    }

    /// Adds an attribute (struct nlattr).
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = 4 + value.len();
        self.0.extend((length as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.0
    }
}
