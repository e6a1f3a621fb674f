//! The API for consumers: processes of the user that take messages, in order, from a destination with `pull` delivery.

pub(super) mod acknowledge;
pub(super) mod consume;
