//! Bugs planted on purpose, one at a time, to see which tests catch each. A place asks [`is`] for the
//! bug by its name; the table in `tests/faults/planted_bugs/mod.rs` says what each breaks.

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
