//! Ends attempts that have no output: they failed, took too long, or the worker asks to get the message later.

use std::time::Duration;

use super::{
    ATTEMPTS_BYTES_MAX, Group, Results, bytes_left, count_results, messages_of, note_span,
    unless_damaged,
};
use crate::Api;
use domain::{
    AttemptError, Disposition, ErrorKind, Finality, LeaseToken, RetryPolicy, Stage, Stamped,
    attempts::LATER_MAX, excerpt::excerpt,
};
use http_server::problem::Problem;
use store::{CatalogEntry, FAIL_MAX, Failed, chunks_by_size};

/// How an attempt without an output ended.
#[derive(Clone, Copy)]
pub(super) enum End<'a> {
    /// The attempt failed.
    Failed { kind: ErrorKind, error: &'a str, is_final: bool, retry_ms: Option<u64> },
    /// The worker asks to get the message later.
    Later { delay_ms: u64 },
}

/// Ends attempts that last too long.
pub(super) async fn end_overdue(
    api: &Api,
    overdue: Group,
    results: &mut Results,
) -> Result<(), Problem> {
    let error = format!(
        "it neither ended nor saved a checkpoint within {} ms (transform.attempt_ms_max); save checkpoints with \
         extend, or raise the limit (0: none)",
        overdue.entry.destination.transform.attempt_ms_max
    );
    let kind = ErrorKind::Timeout;
    let end = End::Failed { kind, error: &error, is_final: false, retry_ms: None };
    let (at, ends) = (overdue.at.clone(), vec![end; overdue.at.len()]);
    end_attempts(api, overdue, &ends, "failed", results).await?;
    results.timed_out(&at, &format!("the attempt has failed, so stop working on it: {error}"));
    Ok(())
}

/// Ends the attempts of a group, each as its entry in `ends` says, and sets the results of the items.
pub(super) async fn end_attempts(
    api: &Api,
    group: Group,
    ends: &[End<'_>],
    outcome: &'static str,
    results: &mut Results,
) -> Result<(), Problem> {
    if ends.is_empty() {
        return Ok(());
    }
    let Some(held) = messages_of(api, &group).await? else {
        results.damaged(&group.at);
        return Ok(());
    };
    let Group { entry, at, tokens } = group;
    let of_each = ends.iter().zip(tokens).zip(held).map(|((end, token), message)| {
        let left = message.as_ref().map_or(0, bytes_left);
        let ended = end.of(&entry, token, message);
        let size = left + ended.error.detail.len();
        (ended, size)
    });
    let (ended, sizes): (Vec<Failed>, Vec<usize>) = of_each.unzip();
    let mut begin = 0;
    for some in chunks_by_size(&sizes, FAIL_MAX, ATTEMPTS_BYTES_MAX, |size| *size) {
        let end = begin + some.len();
        let (at, ended) = (&at[begin..end], &ended[begin..end]);
        begin = end;
        let name = &entry.destination.name;
        let call_sequence = api.workers.take(api, name);
        let answer = api.store.fail(&call_sequence, &entry, ended).await;
        api.workers.put_back(name, call_sequence);
        let Some(statuses) = unless_damaged(answer)? else {
            results.damaged(at);
            continue;
        };
        api.due.note_failed(entry.partition, ended, &statuses);
        count_results(name, outcome, &statuses);
        results.fill(at, &statuses);
        results.exhausted(at, ended);
    }
    Ok(())
}

impl End<'_> {
    fn of(self, entry: &CatalogEntry, token: LeaseToken, message: Option<Stamped>) -> Failed {
        let known = message.as_ref();
        let attempts = known.map(|message| message.attempts.clone()).unwrap_or_default();
        let options = known.map(|message| message.options).unwrap_or_default();
        let ids = known.map(|message| message.message.ids()).unwrap_or_default();
        let policy = RetryPolicy::of_transform(&entry.destination, &options);
        let (kind, error, is_final, retry_ms) = match self {
            End::Failed { kind, error, is_final, retry_ms } => (kind, error, is_final, retry_ms),
            End::Later { delay_ms } => {
                let detail = format!(
                    "its workers asked to have it later more than {LATER_MAX} times (requeue with delay_ms)"
                );
                let error = AttemptError::new(Stage::Transform, ErrorKind::Failed, detail);
                let asked = attempts.asked_later.saturating_add(1);
                let disposition = policy.after_request(asked, Duration::from_millis(delay_ms));
                return Failed { token, disposition, is_later: true, error, ids };
            }
        };
        let failed = attempts.failed.saturating_add(1);
        let finality = if is_final { Finality::Permanent } else { Finality::Retryable };
        let mut disposition = policy.after(failed, finality, None, rand::random());
        if let (Disposition::Postpone(wait), Some(wait_ms)) = (&mut disposition, retry_ms) {
            *wait = Duration::from_millis(wait_ms);
        }
        let shown = excerpt(error.as_bytes());
        if let Some(message) = known {
            note_span(&token, message, "fail", Some(&shown));
        }
        telemetry::WORKERS.failed(&telemetry::Failed {
            destination: token.destination.as_str(),
            sequence: token.sequence,
            id: Some(ids.id.as_str()).filter(|id| !id.is_empty()),
            trace: ids.trace_id().as_deref(),
            attempt: attempts.number(),
            reason: &shown,
            wait: disposition.wait(),
        });
        let error = AttemptError::new(Stage::Transform, kind, error);
        Failed { token, disposition, is_later: false, error, ids }
    }
}
