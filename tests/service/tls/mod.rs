//! Tests TLS: to Redis, on the listeners, and to receivers.

mod grants;
mod listeners;
mod out;
mod redis;
