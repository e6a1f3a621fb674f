//! The common parts of Reseq's listeners: connections and their time limits ([`client_connection`],
//! [`min_rate`], [`socket`]), callers ([`principal`]) and their limits ([`concurrency_limit`],
//! [`shares`]), the [`routes`], and the [`problem`] that refuses a request, with its [`invalid`] parts.

pub mod client_connection;
pub mod concurrency_limit;
pub mod idempotency_key;
pub mod invalid;
pub mod min_rate;
pub mod openapi_responses;
pub mod principal;
pub mod problem;
pub mod routes;
pub mod shares;
pub mod socket;

// For the macro `routes`.
#[doc(hidden)]
pub use pastey;

/// The headers with the rate limits of a client, and the remaining requests
/// (draft-ietf-httpapi-ratelimit-headers-10).
pub const RATE_LIMIT_POLICY: &str = "ratelimit-policy";
/// See [`RATE_LIMIT_POLICY`].
pub const RATE_LIMIT: &str = "ratelimit";
