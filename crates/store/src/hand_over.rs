//! Hand-overs: a wake-up of a destination that carries the message that may leave now (`lua/include/hand_over.lua`).
//! So the owner of the partition does not need to ask Redis for the message, and gets it one round trip earlier.
//!
//! A hand-over is true at the moment at which Redis publishes it, and may arrive late. So an owner may use it only if
//! it can tell that the message has not changed since (`sender::destination::handed_over`). All other processes treat
//! it as an ordinary wake-up.

use bytes::Bytes;

use super::{CatalogEntry, record};
use domain::{Attempts, DestinationName, Epoch, Sequence, Stamped};

/// The first message of a destination that is one lane, as it was when it became ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    /// The version of the destination's definition.
    pub version: u64,
    /// The epoch of the partition.
    pub epoch: Epoch,
    /// The sequence of the message.
    pub sequence: Sequence,
    /// The record of the message, as Redis stores it.
    pub record: Bytes,
}

impl HandOver {
    /// The message; `None` if its record cannot be read.
    pub fn message(&self, entry: &CatalogEntry) -> Option<Stamped> {
        if record::is_out_of_line(&self.record) {
            return None;
        }
        let (name, attempts) = (&entry.destination.name, Attempts::default());
        // Copied, because the record is a slice of a message that contains other records.
        let record = Bytes::copy_from_slice(&self.record);
        record::read(record, name, self.sequence, attempts).ok()
    }
}

/// Reads a message on a channel: the names of destinations, separated by spaces. A name may have a hand-over:
/// `<name>=<version>,<epoch>,<sequence>,<size of the record>:<record>`. Leaves out parts that it cannot read: any
/// wake-up may be lost.
pub(super) fn read_all(message: &Bytes) -> Vec<(DestinationName, Option<HandOver>)> {
    let (mut all, mut rest) = (Vec::new(), message.clone());
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| matches!(byte, b' ' | b'=')).unwrap_or(rest.len());
        let name = rest.split_to(end);
        let handed = rest.starts_with(b"=").then(|| split_hand_over(&mut rest));
        if let Some(None) = handed {
            return all;
        }
        if rest.starts_with(b" ") {
            let _ = rest.split_to(1);
        }
        let name = std::str::from_utf8(&name).ok().and_then(|name| name.parse().ok());
        all.extend(name.map(|name| (name, handed.flatten())));
    }
    all
}

/// Takes a hand-over from the front of the text.
fn split_hand_over(rest: &mut Bytes) -> Option<HandOver> {
    let end = rest.iter().position(|byte| *byte == b':')?;
    let header = rest.split_to(end + 1);
    let header = std::str::from_utf8(&header[1..end]).ok()?;
    let numbers: Vec<u64> = header.split(',').map_while(|number| number.parse().ok()).collect();
    let [version, epoch, sequence, size] = numbers[..] else { return None };
    let size = usize::try_from(size).ok().filter(|size| *size <= rest.len())?;
    Some(HandOver { version, epoch, sequence, record: rest.split_to(size) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &[u8]) -> Vec<(String, Option<HandOver>)> {
        let all = read_all(&Bytes::copy_from_slice(message)).into_iter();
        all.map(|(name, handed)| (name.to_string(), handed)).collect()
    }

    #[test]
    fn mixed_names_and_hand_overs_are_read_with_any_record() {
        let handed = |sequence, record: &'static [u8]| {
            Some(HandOver { version: 7, epoch: 2, sequence, record: Bytes::from_static(record) })
        };
        let message = b"a b=7,2,5,4: =:\xff c d=7,2,6,0: e=7,2,9,1:x";
        let expected = [
            ("a", None),
            ("b", handed(5, b" =:\xff")),
            ("c", None),
            ("d", handed(6, b"")),
            ("e", handed(9, b"x")),
        ];
        assert_eq!(read(message), expected.map(|(name, handed)| (name.to_owned(), handed)));
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        assert_eq!(read(b""), []);
        assert_eq!(read(b"NO! a"), [("a".to_owned(), None)]);
        for cut in ["a b=1,2,3,9:short", "a b=1,2,3:x", "a b=1,2,3,4,5:x", "a b=x:y", "a b="] {
            assert_eq!(read(cut.as_bytes()), [("a".to_owned(), None)], "{cut}");
        }
    }
}
