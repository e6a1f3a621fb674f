//! Reads the audit log.

use std::{collections::HashMap, fmt, str::FromStr};

use redis::Pipeline;

use crate::{Store, StoreError};

/// The id of an entry of the audit log: the time of Redis in ms since 1970, and a number that distinguishes entries
/// of one millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditId {
    /// When Redis stored the entry.
    pub at_ms: u64,
    number: u64,
}

impl AuditId {
    /// The last id of this millisecond.
    pub fn last_of(at_ms: u64) -> AuditId {
        AuditId { at_ms, number: u64::MAX }
    }

    /// The id before this one, or `None` if this is the first.
    pub fn before(self) -> Option<AuditId> {
        match (self.at_ms, self.number) {
            (0, 0) => None,
            (at_ms, 0) => Some(AuditId::last_of(at_ms - 1)),
            (at_ms, number) => Some(AuditId { at_ms, number: number - 1 }),
        }
    }
}

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.at_ms, self.number)
    }
}

impl FromStr for AuditId {
    type Err = ();

    fn from_str(text: &str) -> Result<AuditId, ()> {
        let (at_ms, number) = text.split_once('-').ok_or(())?;
        let read = |text: &str| text.parse::<u64>().map_err(drop);
        Ok(AuditId { at_ms: read(at_ms)?, number: read(number)? })
    }
}

impl Store {
    /// At most `max` entries of the audit log, newest first: from the entry `last` back to the time `from_ms`.
    pub async fn audit_entries(
        &self,
        last: AuditId,
        from_ms: u64,
        max: usize,
    ) -> Result<Vec<(AuditId, String)>, StoreError> {
        let mut pipe = Pipeline::new();
        pipe.cmd("XREVRANGE").arg(self.keys().audit()).arg(last.to_string()).arg(from_ms);
        pipe.arg("COUNT").arg(max);
        let (found,): (Vec<(String, HashMap<String, String>)>,) = self.query(&pipe).await?;
        let read = |(id, mut fields): (String, HashMap<String, String>)| {
            Some((id.parse().ok()?, fields.remove("entry").unwrap_or_default()))
        };
        Ok(found.into_iter().filter_map(read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written_and_counted_down() {
        let id: AuditId = "1700000000000-2".parse().unwrap();
        assert_eq!((id.at_ms, id.to_string().as_str()), (1_700_000_000_000, "1700000000000-2"));
        let before = id.before().unwrap();
        assert_eq!(before.to_string(), "1700000000000-1");
        let first = before.before().unwrap();
        assert_eq!(first.before(), Some(AuditId::last_of(1_699_999_999_999)));
        assert_eq!("0-0".parse::<AuditId>().unwrap().before(), None);
        for bad in ["", "7", "-", "7-", "-7", "a-1", "1-a", "1-2-3", "18446744073709551616-0"] {
            assert_eq!(bad.parse::<AuditId>(), Err(()), "{bad}");
        }
    }
}
