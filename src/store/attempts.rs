//! What attempts at a message left behind, as the scripts keep it (`lua/include/attempts.lua`).

use crate::domain::{AttemptError, Attempts, Stage};

/// Failed attempts, stalls, checkpoint, stage in which it is halted, due time of a held message,
/// errors.
type Kept = (u32, u32, String, String, String, Vec<String>);

/// Reads what was kept; nothing was where it is empty. What cannot be read counts as nothing, as in the
/// scripts: it holds up no message.
pub(super) fn read(kept: &[u8]) -> Attempts {
    if kept.is_empty() {
        return Attempts::default();
    }
    let Ok(kept) = rmp_serde::from_slice::<Kept>(kept) else { return Attempts::default() };
    let (failed, stalls, checkpoint, halted_in, _, errors) = kept;
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
    }
}

pub(super) fn stage_of(text: &str) -> Option<Stage> {
    match text {
        "transform" => Some(Stage::Transform),
        "delivery" => Some(Stage::Delivery),
        _ => None,
    }
}

/// An error, as it is kept.
pub(super) fn error_text(error: &AttemptError) -> String {
    // Writing plain strings as JSON cannot fail.
    serde_json::to_string(error).unwrap_or_default()
}
