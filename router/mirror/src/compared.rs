//! What a table that is read must be able to do, and what its comparison finds.

use crate::message::Message;
use crate::model::Model;

/// What has been found so far.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Entries that differed.
    pub(crate) differences: usize,
    /// A route appeared beside another of its metric, and a dump of one device does not show which
    /// comes first.
    pub(crate) unordered: bool,
    /// Changes interrupted a dump.
    pub(crate) overtaken: bool,
}

/// A table that is read, and then compared.
pub(crate) trait Table: Send {
    /// Takes a message of the dump.
    fn add(&mut self, model: &mut Model, message: Message);
    /// Forgets what was taken and not compared yet.
    fn clear(&mut self, model: &mut Model);
    /// Compares a part; returns whether that was the last. Only a whole dump shows what is not there.
    fn compare(&mut self, model: &mut Model, whole: bool, outcome: &mut Outcome) -> bool;
}
