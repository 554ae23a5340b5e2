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

    /// Adds a number in network order, as netfilter has them.
    pub(crate) fn u32_be(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Adds a string with its NUL.
    pub(crate) fn text(self, kind: u16, text: &str) -> Self {
        self.attribute(kind, &[text.as_bytes(), b"\0"].concat())
    }

    /// Adds attributes inside an attribute.
    pub(crate) fn nested(self, kind: u16, inside: Self) -> Self {
        self.attribute(kind | libc::NLA_F_NESTED as u16, &inside.0)
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.0
    }
}
