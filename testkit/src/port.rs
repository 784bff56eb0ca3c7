//! A port of loopback for a process that listens there later, or again.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that a system gives to sockets that ask for any: from 32,768 on Linux, 49,152 elsewhere, and 16,000 in
/// gVisor. Browsers refuse none of these.
const FIRST: u32 = 11_500;
const COUNT: u32 = 4_500;

/// A port on which nothing listens. No socket that asks the system for any port gets it, and no two of 4,500 calls in a
/// row in this process return it.
///
/// # Panics
/// When something listens on all of them.
pub fn free_port() -> u16 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Tests of another process begin elsewhere.
    let begin = process::id().wrapping_mul(97);
    let numbers = (0..COUNT).map(|_| begin.wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed)));
    let mut ports = numbers.filter_map(|number| u16::try_from(FIRST + number % COUNT).ok());
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(is_free).expect("loopback has free ports")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_returned_once_and_is_none_of_those_that_the_system_gives() {
        let (first, second) = (free_port(), free_port());
        assert_ne!(first, second);
        assert!([first, second].iter().all(|port| (11_500..16_000).contains(port)));
        TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
    }
}
