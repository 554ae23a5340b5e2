//! Checks that subjects agree, before anything is timed.

use anyhow::ensure;

use crate::Prefix;
use crate::subject::{Fib, MAX_VECTOR, Reader};

/// The answers to all keys.
pub fn answers<K>(reader: &mut dyn Reader<K>, keys: &[K]) -> Vec<u32> {
    let mut answers = Vec::with_capacity(keys.len());
    for vector in keys.chunks(MAX_VECTOR) {
        reader.look_up(vector);
        answers.extend((0..vector.len()).map(|index| reader.answer(index)));
    }
    answers
}

/// Compares the answers of all look-up methods of all FIBs.
///
/// # Errors
/// If they do not agree on every key.
pub fn agree<P: Prefix>(fibs: &[Box<dyn Fib<P>>], keys: &[P::Key]) -> anyhow::Result<()> {
    let mut expected: Option<(&str, Vec<u32>)> = None;
    for fib in fibs {
        for (path, name) in fib.paths().into_iter().enumerate() {
            let found = answers(&mut *fib.reader(path)?, keys);
            let (first, expected) = expected.get_or_insert_with(|| (name, found.clone()));
            let differ = found.iter().zip(&*expected).filter(|(a, b)| a != b).count();
            ensure!(
                differ == 0,
                "{name} and {first} differ in {differ} of {} answers; nothing is reported",
                keys.len()
            );
        }
    }
    Ok(())
}
