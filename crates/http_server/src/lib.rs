//! What every listener of Reseq needs: connections and how long they may take ([`client_connection`], [`min_rate`],
//! [`socket`]), who calls ([`principal`]) and how much of what is shared ([`concurrency_limit`], [`shares`]), and the [`problem`]
//! that refuses a request, with the parts of it that are [`invalid`].

pub mod client_connection;
pub mod concurrency_limit;
pub mod idempotency_key;
pub mod invalid;
pub mod min_rate;
pub mod openapi_responses;
pub mod principal;
pub mod problem;
pub mod shares;
pub mod socket;

/// The headers that tell the rates of a client, and what is left of them (draft-ietf-httpapi-ratelimit-headers-10).
pub const RATE_LIMIT_POLICY: &str = "ratelimit-policy";
/// See [`RATE_LIMIT_POLICY`].
pub const RATE_LIMIT: &str = "ratelimit";
