//! A port of loopback for a process that listens there later, or again.

use std::net::{SocketAddr, TcpStream};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Below the ports that a system gives to sockets that ask for any: from 32,768 on Linux, 49,152 elsewhere, and 16,000 in
/// gVisor. Browsers refuse none of these.
const FIRST: u32 = 11_500;
const COUNT: u32 = 4_500;
/// Loopback answers within it whether something listens; Windows repeats the question for two seconds.
const ANSWER: Duration = Duration::from_millis(200);

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
    ports.find(|port| !is_listened_on(*port)).expect("loopback has free ports")
}

/// Connects instead of binding: a socket may outlive its drop, because a process that another thread forks meanwhile
/// keeps it until its `exec`.
fn is_listened_on(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), ANSWER).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_port_is_taken_while_a_listener_has_it() {
        let (taken, free) = (free_port(), free_port());
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, taken)).unwrap();
        assert!(is_listened_on(taken));
        assert!(!is_listened_on(free));
    }

    #[test]
    fn a_port_is_returned_once_and_is_none_of_those_that_the_system_gives() {
        let (first, second) = (free_port(), free_port());
        assert_ne!(first, second);
        assert!([first, second].iter().all(|port| (11_500..16_000).contains(port)));
        TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
    }
}
