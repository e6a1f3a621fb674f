//! Dead letters: messages set aside with their reason, their attempts and their place
//! (`lua/withdraw.lua` writes them, `lua/ingest.lua` and `lua/discard.lua` take them away).

use bytes::Bytes;

use super::{Known, Store, StoreError, attempts, record};
use crate::domain::{Sequence, Stage, Stamped};

/// A message set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// When it was set aside, in ms since 1970.
    pub at_ms: u64,
    /// How far it had come.
    pub stage: Stage,
    /// Why, in words.
    pub reason: String,
    /// The message, with its place and what attempts at it left.
    pub message: Stamped,
}

impl Store {
    /// Dead letters in the order of their sequences, from this one on; at most `max`.
    pub async fn dead_letters(
        &self,
        known: &Known,
        from: Sequence,
        max: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        Ok(self.dead_letters_from(known, from, max).await?.0)
    }

    /// The same, with the last sequence that was looked at; none at the end. There may be fewer
    /// letters, or none, where some were redriven or discarded just then.
    pub async fn dead_letters_from(
        &self,
        known: &Known,
        from: Sequence,
        max: usize,
    ) -> Result<(Vec<DeadLetter>, Option<Sequence>), StoreError> {
        let keys = self.keys().destination(&known.destination.name);
        let mut pipe = redis::pipe();
        pipe.zrangebyscore_limit(keys.dead(), from, "+inf", 0, max as isize);
        let (sequences,): (Vec<Sequence>,) = self.query(&pipe).await?;
        let last = sequences.last().copied();
        if sequences.is_empty() {
            return Ok((Vec::new(), last));
        }
        let mut pipe = redis::pipe();
        pipe.hmget(keys.letters(), &sequences);
        let (letters,): (Vec<Option<Bytes>>,) = self.query(&pipe).await?;
        let found = letters.into_iter().zip(sequences);
        // What was redriven or discarded in between is left out.
        let found = found.filter_map(|(letter, sequence)| Some((letter?, sequence)));
        let letters = found.map(|(letter, sequence)| read(known, sequence, letter));
        Ok((letters.collect::<Result<_, _>>()?, last))
    }

    /// The dead letter of this sequence.
    pub async fn dead_letter(
        &self,
        known: &Known,
        sequence: Sequence,
    ) -> Result<Option<DeadLetter>, StoreError> {
        let first = self.dead_letters(known, sequence, 1).await?.pop();
        Ok(first.filter(|letter| letter.message.place.sequence == sequence))
    }

    /// Throws dead letters away; at most 1,000. Tells how many there were.
    pub async fn discard(&self, known: &Known, letters: &[Sequence]) -> Result<u64, StoreError> {
        if letters.is_empty() {
            return Ok(0);
        }
        let keys = self.keys().destination(&known.destination.name);
        let (name, mut call) = self.script(|scripts| &scripts.discard);
        call.key(keys.hash()).key(keys.dead()).key(keys.letters()).key(keys.partition.epoch());
        call.arg(known.version).arg(letters);
        self.run(name, &call).await
    }
}

/// `<at, ms> <stage> <length of the reason> <length of the attempts>;<reason><attempts><record>`
fn read(known: &Known, sequence: Sequence, letter: Bytes) -> Result<DeadLetter, StoreError> {
    let unreadable = |what: &str| StoreError::Unreadable(format!("dead letter {sequence}: {what}"));
    let damaged = || unreadable("it has another shape than documented");
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
    let left = attempts::read(&letter[reason_end..left_end])?;
    let message = record::read(letter.slice(left_end..), &known.destination.name, sequence, left)
        .map_err(|error| unreadable(&error.to_string()))?;
    Ok(DeadLetter {
        at_ms: number(at)? as u64,
        stage: attempts::stage_of(stage).ok_or_else(damaged)?,
        reason: String::from_utf8_lossy(&letter[end + 1..reason_end]).into_owned(),
        message,
    })
}
