//! The API for consumers: the users' own processes that take the messages of a destination whose delivery is
//! `pull`, in order.

pub(super) mod acknowledge;
pub(super) mod consume;
