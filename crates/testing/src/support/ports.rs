//! Ports for servers that tests start with a given address.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::atomic::{AtomicU32, Ordering},
};

/// Linux assigns ports from 32768 on to connections, and to programs that ask for any port. Another
/// process could take such a port before the server starts or after it ends, and get its traffic.
const FIRST: u32 = 10_000;
const COUNT: u32 = 32_768 - FIRST;

/// A free loopback port. This function returns it again only after all others.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Processes that run at the same time start far apart.
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

/// A free port as an address.
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}
