//! The values of fields that a definition leaves out.

macro_rules! defaults {
    ($($field:ident: $kind:ty = $value:expr,)*) => {
        $(pub(super) fn $field() -> $kind {
            $value
        })*
    };
}

defaults! {
    weight: u32 = 1,
    shards: u16 = 1,
    log_max: u64 = 10_000,
    dead_letters_max: u64 = 100_000,
    dead_letters_max_age_ms: u64 = 90 * 24 * 3600 * 1000,
    previous_keys_max: u64 = 10_000,
    ids_max: u64 = super::IDS_SEARCHED_MAX,
    backlog_max: u64 = 1_000_000,
    idempotency_window_ms: u64 = 24 * 3600 * 1000,
    sources_max: u64 = 1024,
    idempotency_keys_max: u64 = 10_000_000,
}
