//! Bugs planted on purpose, one at a time, to see which tests find each. The code asks [`is`] whether a bug is planted.
//! The table in `tests/faults/planted_bugs/mod.rs` describes the effect of each bug.

/// True if this bug is planted in this process.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn is(_: &str) -> bool {
    false
}

/// True if this bug is planted in this process: `RESEQ_PLANTED_BUG` names it.
#[cfg(feature = "planted-bugs")]
pub fn is(name: &str) -> bool {
    static PLANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let planted = PLANTED.get_or_init(|| std::env::var("RESEQ_PLANTED_BUG").ok());
    planted.as_deref() == Some(name)
}
