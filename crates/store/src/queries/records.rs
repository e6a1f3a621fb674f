//! Messages by their sequences.

use bytes::Bytes;

use crate::{Store, StoreError, attempts, entry::CatalogEntry, record};
use domain::{Sequence, Stamped};

/// How many messages one command reads, without bodies that are stored out of line. The attempts of each message may
/// take 75 kB.
const HEADERS_MAX: usize = 100;

impl Store {
    /// The messages with these sequences, with their bodies and attempts so far; `None` for a message that has left.
    pub async fn messages(
        &self,
        entry: &CatalogEntry,
        sequences: &[Sequence],
    ) -> Result<Vec<Option<Stamped>>, StoreError> {
        let read = async || {
            let mut found = self.headers(entry, sequences).await?;
            let mut present: Vec<&mut Stamped> = found.iter_mut().flatten().collect();
            self.fill(entry, &mut present).await?;
            Ok::<_, StoreError>(found)
        };
        let found = read().await?;
        // Between the two reads, a body may have been replaced or removed: read both once more.
        match found.iter().flatten().any(|message| message.damaged.is_some()) {
            true => read().await,
            false => Ok(found),
        }
    }

    /// Like `messages`, without the bodies that are stored out of line.
    pub async fn headers(
        &self,
        entry: &CatalogEntry,
        sequences: &[Sequence],
    ) -> Result<Vec<Option<Stamped>>, StoreError> {
        let name = &entry.destination.name;
        let keys = self.keys().destination(name);
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        for some in sequences.chunks(HEADERS_MAX) {
            pipe.hmget(keys.messages(), some).hmget(keys.attempts(), some);
        }
        let answers: Vec<Vec<Option<Bytes>>> = self.query(&pipe).await?;
        let pairs = answers.chunks_exact(2).zip(sequences.chunks(HEADERS_MAX));
        let all = pairs.flat_map(|(pair, some)| {
            pair[0].iter().cloned().zip(pair[1].iter().cloned()).zip(some)
        });
        let read = |((bytes, kept), sequence): ((Option<Bytes>, Option<Bytes>), &Sequence)| {
            let attempts = attempts::read(&kept.unwrap_or_default());
            Some(record::read_or_damaged(bytes?, name, *sequence, attempts))
        };
        Ok(all.map(read).collect())
    }
}
