//! Dead letters, for display and for redrives.

use std::collections::HashSet;

use bytes::Bytes;

use crate::{Store, StoreError, attempts, entry::CatalogEntry, record};
use domain::{Sequence, Stage, Stamped};

/// One dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// When the message became a dead letter, in ms since 1970.
    pub at_ms: u64,
    /// The stage in which it failed.
    pub stage: Stage,
    /// The reason, as text.
    pub reason: String,
    /// The message, with its position and its attempts.
    pub message: Stamped,
}

impl Store {
    /// Dead letters in order of sequence, beginning at `from`; at most `max`. Without bodies that are stored out of
    /// line.
    pub async fn dead_letters(
        &self,
        entry: &CatalogEntry,
        from: Sequence,
        max: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        Ok(self.dead_letters_from(entry, from, max).await?.0)
    }

    /// Like `dead_letters`, and returns the last sequence that was read, or `None` at the end. May return fewer than
    /// `max`, even none, if some were redriven or discarded meanwhile.
    pub async fn dead_letters_from(
        &self,
        entry: &CatalogEntry,
        from: Sequence,
        max: usize,
    ) -> Result<(Vec<DeadLetter>, Option<Sequence>), StoreError> {
        let keys = self.keys_of(entry);
        let sequences: Vec<Sequence> = self
            .ask(&redis::Cmd::zrangebyscore_limit(
                keys.dead_letters(),
                from,
                "+inf",
                0,
                max as isize,
            ))
            .await?;
        let last = sequences.last().copied();
        if sequences.is_empty() {
            return Ok((Vec::new(), last));
        }
        let letters: Vec<Option<Bytes>> =
            self.ask(&redis::Cmd::hmget(keys.dead_letter_messages(), &sequences)).await?;
        // Skip dead letters that were redriven or discarded meanwhile. A dead letter without content that is still
        // listed is damaged.
        let gone = letters.iter().zip(&sequences).filter(|(letter, _)| letter.is_none());
        let gone: Vec<Sequence> = gone.map(|(_, sequence)| *sequence).collect();
        let listed = self.are_dead(entry, &gone).await?;
        let listed: HashSet<Sequence> = gone
            .into_iter()
            .zip(listed)
            .filter(|(_, is_dead)| *is_dead)
            .map(|(one, _)| one)
            .collect();
        let found = letters.into_iter().zip(sequences).filter_map(|(letter, sequence)| {
            let letter = letter.or_else(|| listed.contains(&sequence).then(Bytes::new))?;
            Some(read_or_damaged(entry, sequence, letter))
        });
        Ok((found.collect(), last))
    }

    /// The dead letters with these sequences, without bodies that are stored out of line.
    pub async fn dead_letters_of(
        &self,
        entry: &CatalogEntry,
        sequences: &[Sequence],
    ) -> Result<Vec<Option<DeadLetter>>, StoreError> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let letters: Vec<Option<Bytes>> = self
            .ask(&redis::Cmd::hmget(self.keys_of(entry).dead_letter_messages(), sequences))
            .await?;
        let found = letters.into_iter().zip(sequences);
        let read =
            |(letter, at): (Option<Bytes>, &Sequence)| Some(read_or_damaged(entry, *at, letter?));
        Ok(found.map(read).collect())
    }

    /// The dead letter with this sequence, without a body that is stored out of line.
    pub async fn dead_letter(
        &self,
        entry: &CatalogEntry,
        sequence: Sequence,
    ) -> Result<Option<DeadLetter>, StoreError> {
        Ok(self.dead_letters_of(entry, &[sequence]).await?.pop().flatten())
    }

    /// Loads the bodies that are stored out of line into dead letters.
    pub async fn fill_letters(
        &self,
        entry: &CatalogEntry,
        letters: &mut [DeadLetter],
    ) -> Result<(), StoreError> {
        let mut messages: Vec<_> = letters.iter_mut().map(|letter| &mut letter.message).collect();
        self.fill(entry, &mut messages).await
    }
}

/// Reads a dead letter. If it is unreadable, the result still has its sequence.
fn read_or_damaged(entry: &CatalogEntry, sequence: Sequence, letter: Bytes) -> DeadLetter {
    read(entry, sequence, letter).unwrap_or_else(|error| DeadLetter {
        at_ms: 0,
        stage: Stage::Transform,
        reason: "it cannot be read".to_owned(),
        message: Stamped::unreadable(entry.destination.name.clone(), sequence, error.to_string()),
    })
}

/// Parses `<at, ms> <stage> <length of the reason> <length of the attempts>;<reason><attempts><record>`.
fn read(entry: &CatalogEntry, sequence: Sequence, letter: Bytes) -> Result<DeadLetter, StoreError> {
    let unreadable = |what: &str| StoreError::Unreadable(format!("dead letter {sequence}: {what}"));
    let damaged = || unreadable("it does not have the documented shape");
    let end = letter.iter().position(|&byte| byte == b';').ok_or_else(damaged)?;
    let head = std::str::from_utf8(&letter[..end]).map_err(|_| damaged())?;
    let words: Vec<&str> = head.split(' ').collect();
    let &[at, stage, reason, left] = words.as_slice() else { return Err(damaged()) };
    let number = |text: &str| text.parse::<usize>().map_err(|_| damaged());
    let reason_end = end + 1 + number(reason)?;
    let left_end = reason_end + number(left)?;
    if left_end > letter.len() {
        return Err(damaged());
    }
    let left = attempts::read(&letter[reason_end..left_end]);
    let name = &entry.destination.name;
    let message = record::read_or_damaged(letter.slice(left_end..), name, sequence, left);
    Ok(DeadLetter {
        at_ms: number(at)? as u64,
        stage: attempts::stage_of(stage).ok_or_else(damaged)?,
        reason: String::from_utf8_lossy(&letter[end + 1..reason_end]).into_owned(),
        message,
    })
}
