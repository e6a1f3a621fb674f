//! How each route treats the shards of its destination.

use axum::http::Method;

/// How a route treats the shards of its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// The first shard alone, which has the definition; or the route reads the shards itself.
    First,
    /// A list: the pages of one shard after the other.
    Pages,
    /// All shards together. Shards that do not know the operation do not count.
    All,
    /// One message, in whichever shard it is.
    Message,
    /// The lane that has waited longest.
    Oldest,
    /// One lane or consumer of one shard.
    One,
}

impl How {
    pub(super) fn of(method: &Method, path: &str) -> How {
        let Some(path) = path.strip_prefix("/v1/destinations/{destination}") else {
            return How::First;
        };
        let is_get = method == Method::GET || method == Method::HEAD;
        match path {
            "/messages" | "/dead-letters" | "/log" | "/lanes" | "/operations" if is_get => {
                How::Pages
            }
            "/why" => How::Oldest,
            "/messages" | "/messages/by-id/{id}" => How::Message,
            "/operations/{id}"
            | "/operations/{id}/cancel"
            | "/run-now"
            | "/purge"
            | "/repair"
            | "/retry-head" => How::All,
            "/dead-letters/redrive" | "/dead-letters/discard" | "/replay" => How::All,
            "/skip-head" | "/consume" => How::One,
            // With a sequence, the name of a destination is that of its first shard, as in answers and deliveries.
            _ => How::First,
        }
    }
}

/// True if a request changes the definition of a destination, or pauses it.
pub(super) fn changes_definition(method: &Method, path: &str) -> bool {
    let path = path.strip_prefix("/v1/destinations/{destination}");
    let is_read = method == Method::GET || method == Method::HEAD;
    !is_read && matches!(path, Some("" | "/pause" | "/resume" | "/restore" | "/rollback"))
}
