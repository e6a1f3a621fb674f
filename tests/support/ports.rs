//! Ports of the servers that tests start and that must be told where to listen.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::atomic::{AtomicU32, Ordering},
};

/// Those that the system gives out by itself, for connections and to who asks for any, begin at 32768
/// on Linux: one of these could be somebody's before the server is there, or as soon as it is gone,
/// and what was meant for it would reach another.
const FIRST: u32 = 10_000;
const COUNT: u32 = 32_768 - FIRST;

/// A port of the loopback that nobody listens on. No other has it before all have been given out.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Processes that run at once begin far from each other.
    let start = std::process::id().wrapping_mul(2_654_435_761);
    for _ in 0..COUNT {
        let number = GIVEN.fetch_add(1, Ordering::Relaxed);
        let port = (FIRST + start.wrapping_add(number) % COUNT) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port of the loopback is free");
}

/// The same, as an address.
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}
