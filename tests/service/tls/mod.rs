//! TLS: to Redis, on the listeners, and to receivers.

mod listeners;
mod out;
mod redis;
