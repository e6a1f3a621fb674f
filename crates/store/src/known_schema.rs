//! The schemas that this version knows. `schema.rs` explains what a schema is.

/// The newest schema that this version knows.
pub const SCHEMA: u32 = 3;

/// The oldest schema that this version reads. A partition without a stored schema has this one. Older schemas were
/// never released.
pub(super) const FIRST: u32 = 3;

/// The newest schema that this process knows: [`SCHEMA`]. A test build can pretend to be the next
/// version.
pub fn known() -> u32 {
    #[cfg(feature = "next-schema")]
    {
        static IS_NEXT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        let is_next = IS_NEXT.get_or_init(|| std::env::var_os("RESEQ_NEXT_SCHEMA").is_some());
        if *is_next {
            return SCHEMA + 1;
        }
    }
    SCHEMA
}

/// Why this version cannot continue, and what to do.
pub(super) fn newer_sentence(stored: u32) -> String {
    let known = known();
    format!(
        "Redis holds schema {stored} of Reseq, and this version knows {known}: start a newer version"
    )
}

/// Why this version cannot read the data, and what to do.
pub(super) fn older_sentence(stored: u32) -> String {
    format!(
        "Redis holds schema {stored} of Reseq, and this version reads schema {FIRST} and later: use an \
         empty Redis, another redis.prefix, or the version that wrote it"
    )
}
