//! What attempts at a message left behind, as the scripts keep it (`lua/include/attempts.lua`).

use super::StoreError;
use crate::domain::{Attempts, Stage, Trouble};

/// Failed attempts, crashes, checkpoint, stage in which it is halted, due time of a held message,
/// troubles.
type Kept = (u32, u32, String, String, String, Vec<String>);

/// Reads what was kept; nothing was where it is empty.
pub(super) fn read(kept: &[u8]) -> Result<Attempts, StoreError> {
    if kept.is_empty() {
        return Ok(Attempts::default());
    }
    let unreadable = |what: String| StoreError::Unreadable(format!("attempts: {what}"));
    let (failed, crashes, checkpoint, halted_in, _, troubles): Kept =
        rmp_serde::from_slice(kept).map_err(|error| unreadable(error.to_string()))?;
    let troubles = troubles.iter().map(|text| {
        let (at_ms, json) = text.split_once(' ')?;
        Some((at_ms.parse().ok()?, serde_json::from_str(json).ok()?))
    });
    Ok(Attempts {
        failed,
        crashes,
        checkpoint: Some(checkpoint).filter(|text| !text.is_empty()),
        halted_in: stage_of(&halted_in),
        troubles: troubles
            .collect::<Option<_>>()
            .ok_or_else(|| unreadable("a trouble has another shape than documented".into()))?,
    })
}

pub(super) fn stage_of(text: &str) -> Option<Stage> {
    match text {
        "transform" => Some(Stage::Transform),
        "delivery" => Some(Stage::Delivery),
        _ => None,
    }
}

/// A trouble, as it is kept.
pub(super) fn trouble_text(trouble: &Trouble) -> String {
    // Writing plain strings as JSON cannot fail.
    serde_json::to_string(trouble).unwrap_or_default()
}
