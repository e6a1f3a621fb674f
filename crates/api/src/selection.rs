//! Selects dead letters for a call, and iterates over them.

use std::num::NonZeroU32;

use serde::Deserialize;
use utoipa::ToSchema;

use super::request::{Range, Target};
use domain::{Sequence, Stage};
use http_server::{invalid::Location, problem::Problem};
use store::DeadLetter;

/// The most sequences that one call may name.
const NAMED_MAX: usize = 10_000;
/// The most dead letters that one call to Redis reads, without long bodies.
const AT_ONCE: usize = 500;

/// The dead letters of a redrive or a discard. Give exactly one of `sequences`, `all` and `filter`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Selection {
    /// The dead letters with these sequences.
    #[schema(min_items = 1, max_items = 10_000)]
    sequences: Option<Vec<Sequence>>,
    /// True: all dead letters of the destination.
    #[serde(default)]
    all: bool,
    filter: Option<Filter>,
    /// True: only counts the dead letters.
    #[serde(default)]
    pub(super) dry_run: bool,
    /// Redrive: the most dead letters per second; as fast as possible if absent.
    #[schema(value_type = Option<u32>, minimum = 1)]
    pub(super) rate_per_second: Option<NonZeroU32>,
}

/// A filter for dead letters. Omitted fields match everything.
#[derive(Debug, Default, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    /// Only dead letters with this ordering key; `""`: dead letters without a key.
    key: Option<String>,
    /// Only dead letters of this stage.
    stage: Option<Stage>,
    /// Only dead letters from this sequence on.
    from_sequence: Option<Sequence>,
    /// Only dead letters up to this sequence.
    to_sequence: Option<Sequence>,
    /// Only messages that became dead letters since this time (RFC 3339).
    from_time: Option<String>,
    /// Only messages that became dead letters until this time (RFC 3339).
    to_time: Option<String>,
    /// Only dead letters with this text in the reason, or in the detail of one of the errors.
    error: Option<String>,
}

/// A parsed filter.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) key: Option<String>,
    pub(super) stage: Option<Stage>,
    pub(super) range: Range,
    pub(super) error: Option<String>,
}

impl Filter {
    fn parse(self) -> Result<Wanted, Problem> {
        let Filter { key, stage, from_sequence, to_sequence, from_time, to_time, error } = self;
        let (from_time, to_time) = (from_time.as_deref(), to_time.as_deref());
        let range = Range::parse(Location::Body, from_sequence, to_sequence, from_time, to_time);
        let range = range
            .map_err(|problem| Problem::invalid_field(format!("filter.{}", problem.detail)))?;
        Ok(Wanted { key, stage, range, error })
    }
}

impl Wanted {
    pub(super) fn takes(&self, letter: &DeadLetter) -> bool {
        let says = |text: &String| {
            let errors = &letter.message.attempts.errors;
            letter.reason.contains(text)
                || errors.iter().any(|(_, error)| error.detail.contains(text))
        };
        self.range.holds(letter.message.position.sequence, Some(letter.at_ms))
            && self.stage.is_none_or(|stage| stage == letter.stage)
            // "" is the lane of messages without a key.
            && self.key.as_deref().is_none_or(|key| {
                key == letter.message.message.key.as_deref().unwrap_or_default()
            })
            && self.error.as_ref().is_none_or(says)
    }
}

/// Iterates over dead letters in ascending order of sequence.
pub(super) enum Walk {
    /// The sequences that the request names; the last element comes next.
    Named(Vec<Sequence>),
    /// The dead letters between two sequences that match a filter.
    Filtered { wanted: Wanted, from: Sequence, to: Sequence },
}

/// Some dead letters of an iteration.
pub(super) struct Step {
    pub(super) letters: Vec<DeadLetter>,
    /// How many of the named dead letters do not exist.
    pub(super) missing: u64,
}

impl Walk {
    /// Starts an iteration, which leaves out dead letters that are created later.
    pub(super) async fn begin(target: &Target, selection: Selection) -> Result<Walk, Problem> {
        let Selection { sequences, all, filter, .. } = selection;
        let filter = match (sequences, all, filter) {
            (Some(mut named), false, None) => {
                if named.is_empty() || named.len() > NAMED_MAX {
                    let detail = format!("sequences: name 1 to {NAMED_MAX} of them");
                    return Err(Problem::invalid_field(detail));
                }
                named.sort_unstable_by(|a, b| b.cmp(a));
                named.dedup();
                return Ok(Walk::Named(named));
            }
            (None, true, None) => Filter::default(),
            (None, false, Some(filter)) => filter,
            _ => {
                let detail = "sequences: give exactly one of sequences, all (true) and filter";
                return Err(Problem::invalid_field(detail));
            }
        };
        let store = target.api.store.clone();
        let last = store.counts(target.entry()).await?.last_sequence;
        let wanted = filter.parse()?;
        let (from, to) = (wanted.range.from_sequence, wanted.range.to_sequence.min(last));
        Ok(Walk::Filtered { wanted, from, to })
    }

    /// The next dead letters; `None` at the end.
    pub(super) async fn next(&mut self, target: &Target) -> Result<Option<Step>, Problem> {
        let store = target.api.store.clone();
        match self {
            Walk::Named(named) => {
                let some: Vec<Sequence> = named.split_off(named.len().saturating_sub(AT_ONCE));
                if some.is_empty() {
                    return Ok(None);
                }
                let mut step = Step { letters: Vec::with_capacity(some.len()), missing: 0 };
                let some: Vec<Sequence> = some.into_iter().rev().collect();
                for letter in store.dead_letters_of(target.entry(), &some).await? {
                    match letter {
                        Some(letter) => step.letters.push(letter),
                        None => step.missing += 1,
                    }
                }
                Ok(Some(step))
            }
            Walk::Filtered { wanted, from, to } => {
                let start = *from;
                if start > *to {
                    return Ok(None);
                }
                let looked_at = store.dead_letters_from(target.entry(), start, AT_ONCE).await?;
                let (mut letters, Some(last)) = looked_at else { return Ok(None) };
                *from = last + 1;
                letters.retain(|letter| {
                    wanted.takes(letter) && letter.message.position.sequence <= *to
                });
                Ok(Some(Step { letters, missing: 0 }))
            }
        }
    }
}
