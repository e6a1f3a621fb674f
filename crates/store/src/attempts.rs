//! The stored results of earlier attempts at a message (`lua/include/attempts.lua`).

use domain::{AttemptError, Attempts, Stage};

/// Failed attempts, stalls, checkpoint, stage in which the message halted, due time of a delayed message that awaits
/// its turn, errors, how many suspects may be processed together with the message, stalls while the message was
/// processed alone, when the checkpoint was stored, how often a worker asked to get the message later, 1 if the last
/// attempt ended with such a request.
type Kept = (u32, u32, String, String, String, Vec<String>, u32, u32, u64, u32, u8);

/// Reads the stored attempts; empty input means no attempts. Unreadable input also counts as no attempts, as in the
/// scripts, so that it does not block the message.
pub(super) fn read(kept: &[u8]) -> Attempts {
    if kept.is_empty() {
        return Attempts::default();
    }
    let Ok(kept) = rmp_serde::from_slice::<Kept>(kept) else { return Attempts::default() };
    let (failed, stalls, checkpoint, halted_in, _, errors, together, stalls_alone, ..) = kept;
    let (.., checkpoint_ms, asked_later, waits_for_later) = kept;
    let error = |text: &String| {
        let (at_ms, json) = text.split_once(' ')?;
        Some((at_ms.parse().ok()?, serde_json::from_str(json).ok()?))
    };
    Attempts {
        failed,
        stalls,
        checkpoint: Some(checkpoint).filter(|text| !text.is_empty()),
        halted_in: stage_of(&halted_in),
        errors: errors.iter().filter_map(error).collect(),
        together,
        stalls_alone,
        checkpoint_ms,
        asked_later,
        waits_for_later: waits_for_later > 0,
    }
}

pub(super) fn stage_of(text: &str) -> Option<Stage> {
    match text {
        "transform" => Some(Stage::Transform),
        "delivery" => Some(Stage::Delivery),
        _ => None,
    }
}

/// The text in which an error is stored.
pub(super) fn error_text(error: &AttemptError) -> String {
    // Writing plain strings as JSON cannot fail.
    serde_json::to_string(error).unwrap_or_default()
}
