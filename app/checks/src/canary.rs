//! A server that must never receive a request.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Listens on loopback and records requests. Its thread ends with the process.
#[derive(Debug)]
pub struct Canary {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Canary {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let address = listener.local_addr().expect("it is bound");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let list = heard.clone();
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let line = first_line(caller);
                list.lock().expect("no thread panics with the lock").push(line);
            }
        });
        Self { address, heard }
    }

    /// `127.0.0.1:PORT`
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The first line of every request.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("no thread panics with the lock").clone()
    }
}

impl Default for Canary {
    fn default() -> Self {
        Self::new()
    }
}

fn first_line(mut caller: TcpStream) -> String {
    let mut line = String::new();
    // Errors: a connection without a request counts too.
    caller.set_read_timeout(Some(std::time::Duration::from_secs(1))).ok();
    BufReader::new(&caller).read_line(&mut line).ok();
    caller.write_all(b"HTTP/1.0 204 No Content\r\n\r\n").ok();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_recorded() {
        let canary = Canary::new();
        assert!(canary.heard().is_empty());
        let mut caller = TcpStream::connect(canary.address()).unwrap();
        caller.write_all(b"GET /stolen?token=1 HTTP/1.0\r\n\r\n").unwrap();
        hob_testkit::wait::until("the canary has the request", || {
            (canary.heard() == ["GET /stolen?token=1 HTTP/1.0"]).then_some(())
        });
    }
}
