//! The part of a record before its format. Scripts write it and read it.

use bytes::Bytes;

use super::{RecordError, damaged};
use domain::{Sequence, Tombstone, message::PRIORITY_DEFAULT};

/// The letter for a kind of tombstone in records and scripts.
pub(crate) fn letter(tombstone: Tombstone) -> char {
    match tombstone {
        Tombstone::Dropped => 'd',
        Tombstone::DeadLettered => 's',
        Tombstone::Cancelled => 'c',
    }
}

/// Converts a letter of [`letter`] back.
pub(crate) fn tombstone_of(letter: Option<u8>) -> Result<Tombstone, RecordError> {
    match letter {
        Some(b'd') => Ok(Tombstone::Dropped),
        Some(b's') => Ok(Tombstone::DeadLettered),
        Some(b'c') => Ok(Tombstone::Cancelled),
        other => Err(damaged(&format!("unknown tombstone {other:?}"))),
    }
}

/// The part of a record before its format.
pub(super) struct Prefix {
    pub tombstone: Option<Tombstone>,
    /// The length of a body that is stored out of line.
    pub out_of_line: Option<u64>,
    pub previous: Option<Sequence>,
    pub priority: u8,
}

pub(super) fn read_prefix(
    record: Bytes,
    sequence: Sequence,
) -> Result<(Prefix, Bytes), RecordError> {
    let mut prefix = Prefix {
        tombstone: None,
        out_of_line: None,
        previous: Some(sequence.saturating_sub(1)),
        priority: PRIORITY_DEFAULT,
    };
    let mut rest = record;
    if rest.first() == Some(&b'T') {
        prefix.tombstone = Some(tombstone_of(rest.get(1).copied())?);
        rest = rest.slice(2..);
    } else if rest.first() == Some(&b'B') {
        let (length, after) = number(&rest, 1, b';')?;
        prefix.out_of_line = Some(length);
        rest = rest.slice(after..);
    }
    match rest.first() {
        Some(b'P') => {
            let after = if rest.get(1) == Some(&b';') {
                prefix.previous = None;
                2
            } else {
                let (previous, after) = number(&rest, 1, b';')?;
                prefix.previous = Some(previous);
                after
            };
            rest = rest.slice(after..);
        }
        Some(b'N') => {
            let (priority, after) = number(&rest, 1, b';')?;
            prefix.previous = Some(0);
            prefix.priority = priority as u8;
            rest = rest.slice(after..);
        }
        _ => {}
    }
    Ok((prefix, rest))
}

/// Parses a number that ends before `end`. Returns the number and the index after `end`.
pub(super) fn number(bytes: &[u8], from: usize, end: u8) -> Result<(u64, usize), RecordError> {
    let rest = bytes.get(from..).unwrap_or_default();
    let length = rest.iter().take(20).position(|&b| b == end);
    let length = length.ok_or_else(|| damaged(&"a number has no end"))?;
    let text = std::str::from_utf8(&rest[..length]).map_err(|e| damaged(&e))?;
    Ok((text.parse().map_err(|e| damaged(&e))?, from + length + 1))
}

/// The accounted bytes of an unreadable tombstone, or 0 if it has none. Scripts replace a record that they cannot
/// read by `T<how>D<accounted_bytes>;`.
pub(super) fn accounted_bytes_of_damaged(record: &Bytes) -> u64 {
    if record.get(2) == Some(&b'D') {
        return number(record, 3, b';').map_or(0, |(accounted_bytes, _)| accounted_bytes);
    }
    let accounted_bytes = || {
        let (_, rest) = read_prefix(record.clone(), 1).ok()?;
        Some(number(&rest, 1, b',').ok()?.0)
    };
    accounted_bytes().unwrap_or_default()
}
