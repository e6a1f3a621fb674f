//! Decodes the messages of the output plugin `pgoutput` (protocol version 1).

use bytes::{Buf, Bytes};
use pgwire_replication::Lsn;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A transaction begins. Its commit is at this position.
    Begin(Lsn),
    Commit,
    /// The definition of a table, before its first row.
    Relation(Relation),
    /// A new row.
    Insert {
        relation: u32,
        row: Vec<Option<Bytes>>,
    },
    /// A text of `pg_logical_emit_message`.
    Message {
        is_transactional: bool,
        at: Lsn,
        prefix: String,
        content: Bytes,
    },
    /// An update, a delete or a truncate.
    Other,
    /// Types and origins, which are ignored.
    Nothing,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    pub id: u32,
    pub schema: String,
    pub name: String,
    /// The names of the columns, with the numbers of their types.
    pub columns: Vec<(String, u32)>,
}

/// Decodes a message. `None`: it is cut short, or does not follow this version of the protocol.
pub fn decode(mut data: Bytes) -> Option<Change> {
    Some(match data.try_get_u8().ok()? {
        b'B' => Change::Begin(Lsn(data.try_get_u64().ok()?)),
        b'C' => Change::Commit,
        b'R' => Change::Relation(relation(&mut data)?),
        b'I' => {
            let relation = data.try_get_u32().ok()?;
            match data.try_get_u8().ok()? {
                b'N' => Change::Insert { relation, row: row(&mut data)? },
                _ => return None,
            }
        }
        b'M' => {
            let is_transactional = data.try_get_u8().ok()? & 1 == 1;
            let at = Lsn(data.try_get_u64().ok()?);
            let prefix = text(&mut data)?;
            let length = data.try_get_u32().ok()? as usize;
            Change::Message { is_transactional, at, prefix, content: bytes(&mut data, length)? }
        }
        b'U' | b'D' | b'T' => Change::Other,
        b'O' | b'Y' => Change::Nothing,
        _ => return None,
    })
}

fn relation(data: &mut Bytes) -> Option<Relation> {
    let id = data.try_get_u32().ok()?;
    let (schema, name) = (text(data)?, text(data)?);
    let _replica_identity = data.try_get_u8().ok()?;
    let count = data.try_get_u16().ok()?;
    let column = |_| {
        let _flags = data.try_get_u8().ok()?;
        let column = (text(data)?, data.try_get_u32().ok()?);
        let _modifier = data.try_get_i32().ok()?;
        Some(column)
    };
    let columns = (0..count).map(column).collect::<Option<_>>()?;
    Some(Relation { id, schema, name, columns })
}

fn row(data: &mut Bytes) -> Option<Vec<Option<Bytes>>> {
    let count = data.try_get_u16().ok()?;
    let column = |_| match data.try_get_u8().ok()? {
        b'n' => Some(None),
        b't' => {
            let length = data.try_get_u32().ok()? as usize;
            bytes(data, length).map(Some)
        }
        // A long value that did not change. New rows have no such values.
        _ => None,
    };
    (0..count).map(column).collect()
}

fn bytes(data: &mut Bytes, length: usize) -> Option<Bytes> {
    (data.remaining() >= length).then(|| data.split_to(length))
}

/// A text that ends with a zero byte.
fn text(data: &mut Bytes) -> Option<String> {
    let end = data.iter().position(|byte| *byte == 0)?;
    let text = data.split_to(end);
    data.advance(1);
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELATION: &[u8] =
        b"R\0\0\x40\x01public\0outbox\0d\0\x02\x01id\0\0\0\0\x14\xff\xff\xff\xff\0body\0\0\0\x0e\xda\xff\xff\xff\xff";
    const INSERT: &[u8] = b"I\0\0\x40\x01N\0\x03t\0\0\0\x017nt\0\0\0\x02{}";
    const MESSAGE: &[u8] = b"M\x01\0\0\0\0\0\0\0\x09reseq\0\0\0\0\x02{}";

    #[test]
    fn messages_are_read_as_the_manual_says() {
        let read = |data: &'static [u8]| decode(Bytes::from_static(data)).unwrap();
        assert_eq!(read(b"B\0\0\0\x01\0\0\0\x02rest"), Change::Begin(Lsn(0x1_0000_0002)));
        let columns = vec![("id".to_owned(), 20), ("body".to_owned(), 3802)];
        let (schema, name) = ("public".to_owned(), "outbox".to_owned());
        let relation = Relation { id: 0x4001, schema, name, columns };
        assert_eq!(read(RELATION), Change::Relation(relation));
        let row = vec![Some(Bytes::from("7")), None, Some(Bytes::from("{}"))];
        assert_eq!(read(INSERT), Change::Insert { relation: 0x4001, row });
        let (prefix, content) = ("reseq".to_owned(), Bytes::from("{}"));
        let message = Change::Message { is_transactional: true, at: Lsn(9), prefix, content };
        assert_eq!(read(MESSAGE), message);
        assert_eq!((read(b"D"), read(b"Y")), (Change::Other, Change::Nothing));
    }

    #[test]
    fn messages_that_are_cut_short_are_refused() {
        for whole in [RELATION, INSERT, MESSAGE] {
            for end in 0..whole.len() {
                assert_eq!(decode(Bytes::from_static(&whole[..end])), None, "{whole:?} to {end}");
            }
        }
        assert_eq!(decode(Bytes::from_static(b"?")), None);
    }
}
