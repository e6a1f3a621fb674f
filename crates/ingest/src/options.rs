//! The processing options that producers can set: how many attempts, how long the waits, and whether to keep the
//! output.

use domain::{Destination, ProcessingOptions, TransformKind};

/// The most attempts that a message may ask for.
const ATTEMPTS_MAX: u64 = 1_000_000;
/// The allowed form of a number of attempts.
pub(super) const ATTEMPTS_FORM: &str = "it is a number from 1 to 1000000";
/// The longest wait after the first failed attempt, in milliseconds.
const BACKOFF_MS_MAX: u64 = 24 * 3_600_000;

/// Checks the ranges of the options. `names` are the names of the second and the third option.
pub(super) fn check(
    (keep_result, attempts_max, backoff_ms): (Option<bool>, Option<u64>, Option<u64>),
    names: [&str; 2],
) -> Result<ProcessingOptions, String> {
    if attempts_max.is_some_and(|most| !(1..=ATTEMPTS_MAX).contains(&most)) {
        return Err(format!("{}: {ATTEMPTS_FORM}", names[0]));
    }
    if backoff_ms.is_some_and(|ms| !(1..=BACKOFF_MS_MAX).contains(&ms)) {
        return Err(format!("{}: a first wait lasts from 1 ms to 24 h", names[1]));
    }
    Ok(ProcessingOptions {
        keep_result: keep_result.unwrap_or_default(),
        // The number is at most a million.
        attempts_max: attempts_max.unwrap_or_default() as u32,
        backoff_ms,
    })
}

/// The reason why this destination cannot fulfil these options, if there is one.
pub(super) fn problem(options: &ProcessingOptions, destination: &Destination) -> Option<String> {
    if options.are_none() {
        return None;
    }
    let (transform, name) = (&destination.transform, &destination.name);
    if transform.kind == TransformKind::None {
        return Some(format!(
            "keep_result, attempts_max, backoff_ms (Reseq-Keep-Result, Reseq-Attempts-Max, Reseq-Backoff): {name} has \
             no transform, so nothing processes its messages; leave them out"
        ));
    }
    let most = transform.attempts_max;
    if most > 0 && options.attempts_max > most {
        return Some(format!(
            "attempts_max (Reseq-Attempts-Max): {name} allows at most {most} (transform.attempts_max)"
        ));
    }
    let longest = transform.backoff_max_ms;
    options.backoff_ms.filter(|ms| *ms > longest).map(|_| {
        format!(
            "backoff_ms (Reseq-Backoff): {name} allows at most {longest} (transform.backoff_max_ms)"
        )
    })
}
