//! Bodies that are stored out of line: separate from the records of their messages.

use bytes::Bytes;

use super::{RecordError, damaged, read};
use domain::{Attempts, DestinationName, Sequence, Stamped};

/// The longest body that is stored in its record, in bytes. Longer bodies are stored out of line.
pub const INLINE_MAX: usize = 2048;

/// One of the two bodies of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The current body.
    Body,
    /// The body as it arrived.
    Input,
}

impl Part {
    /// The suffix of the field name in `bodies`.
    pub fn suffix(self) -> &'static str {
        match self {
            Part::Body => "",
            Part::Input => "i",
        }
    }

    /// The body's field in the hash `bodies`.
    pub fn field(self, sequence: Sequence) -> String {
        format!("{sequence}{}", self.suffix())
    }
}

pub(super) fn is_long(bytes: &Bytes) -> bool {
    bytes.len() > INLINE_MAX
}

/// Writes the mark for a body that is stored out of line.
pub(super) fn write_out_of_line(out: &mut Vec<u8>, body: &Bytes) {
    if is_long(body) {
        out.extend_from_slice(format!("B{};", body.len()).as_bytes());
    }
}

/// True if a script that returns this record also returns its body (`bytes_out_of_line` in
/// `lua/include/out_of_line.lua`).
pub fn is_out_of_line(record: &[u8]) -> bool {
    let Some(rest) = record.strip_prefix(b"B") else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest.get(digits) == Some(&b';') && rest[..digits].iter().any(|digit| *digit != b'0')
}

/// Reads a record, together with the body that a script has returned for it, if any.
pub fn read_with(
    record: Bytes,
    body: Option<Bytes>,
    destination: &DestinationName,
    sequence: Sequence,
    attempts: Attempts,
) -> Result<Stamped, RecordError> {
    let mut message = read(record, destination, sequence, attempts)?;
    if let Some(body) = body {
        fill(&mut message, Part::Body, Some(body).filter(|body| !body.is_empty()))?;
    }
    Ok(message)
}

/// Loads a body that is stored out of line into its message.
pub fn fill(stamped: &mut Stamped, part: Part, found: Option<Bytes>) -> Result<(), RecordError> {
    let found = found.ok_or_else(|| damaged(&"its body is missing"))?;
    let (length, body) = match part {
        Part::Body => (stamped.out_of_line.body, Some(&mut stamped.message.body)),
        Part::Input => (stamped.out_of_line.input, stamped.input.as_mut()),
    };
    if length != Some(found.len() as u64) {
        return Err(damaged(&"its body has another length than its record says"));
    }
    if let Some(body) = body {
        body.bytes = found;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            of_stamped,
            tests::{JSON, stamped},
        },
        *,
    };
    use crate::{known_schema::FIRST, record::Written};
    use domain::{Body, Ordering, OutOfLine, Tombstone};

    #[test]
    fn long_bodies_stand_apart_and_are_put_in_again() {
        let long: &'static [u8] = &[b'x'; INLINE_MAX + 1];
        let mut whole = Stamped { accounted_bytes: 5, ..stamped("a", JSON, long) };
        whole.input = Some(Body { content_type: JSON.into(), bytes: vec![b'i'; 3000].into() });
        let Written { record, bodies } = of_stamped(&whole, Ordering::Key, FIRST);
        assert!(record.starts_with(b"B2049;P41;3") && record.len() < 200, "{record:?}");
        let input = whole.input.as_ref().unwrap().bytes.clone();
        let out_of_line = [(Part::Body, Some(long.into())), (Part::Input, Some(input.clone()))];
        assert_eq!(bodies, out_of_line);

        let record = Bytes::from(record);
        let attempts = whole.attempts.clone();
        let mut found = read(record.clone(), &whole.destination, 42, attempts).unwrap();
        assert_eq!(found.out_of_line, OutOfLine { body: Some(2049), input: Some(3000) });
        assert_eq!(found.message.body.bytes, "");
        // A message that was read without bodies can be written again; the input stays where it is.
        let again = Stamped { tombstone: Some(Tombstone::Dropped), ..found.clone() };
        let again = of_stamped(&again, Ordering::Key, FIRST);
        assert_eq!(again.bodies, [(Part::Body, None)]);
        assert!(fill(&mut found, Part::Body, None).is_err());
        assert!(fill(&mut found, Part::Body, Some("short".into())).is_err());
        fill(&mut found, Part::Body, Some(long.into())).unwrap();
        fill(&mut found, Part::Input, Some(input)).unwrap();
        assert_eq!(Stamped { out_of_line: OutOfLine::default(), ..found }, whole);

        // A shorter output removes the longer one.
        let shorter = Stamped {
            out_of_line: OutOfLine { body: Some(2049), input: None },
            ..stamped("a", JSON, b"{}")
        };
        assert_eq!(of_stamped(&shorter, Ordering::Key, FIRST).bodies, [(Part::Body, None)]);
    }
}
