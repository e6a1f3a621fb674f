//! The values of fields that a definition leaves out.

pub(super) fn weight() -> u32 {
    1
}

pub(super) fn log_max() -> u64 {
    10_000
}

pub(super) fn dead_letters_max() -> u64 {
    100_000
}

pub(super) fn dead_letters_max_age_ms() -> u64 {
    90 * 24 * 3600 * 1000
}

pub(super) fn previous_keys_max() -> u64 {
    10_000
}

pub(super) fn ids_max() -> u64 {
    super::IDS_SEARCHED_MAX
}

pub(super) fn backlog_max() -> u64 {
    1_000_000
}

pub(super) fn idempotency_window_ms() -> u64 {
    24 * 3600 * 1000
}

pub(super) fn sources_max() -> u64 {
    1024
}

pub(super) fn idempotency_keys_max() -> u64 {
    10_000_000
}
