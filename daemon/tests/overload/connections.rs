//! More connections than hobd serves at a time: whose place a client gets, and which count.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

use hob_testkit::{Client, Process, Signal, wait};

use crate::{CLIENTS, descriptors, numbered, say, start};

/// Of hobd.
const MAX_CONNECTIONS: usize = 512;
/// For what must not come.
const BRIEFLY: Duration = Duration::from_secs(1);
/// Held by tests that open as many: the descriptors of this process are bounded, too.
static MANY_DESCRIPTORS: Mutex<()> = Mutex::new(());

#[test]
fn five_hundred_slow_connections_leave_room_for_a_request() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let slow: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut socket = TcpStream::connect(hobd.client.address).unwrap();
            socket.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0").unwrap();
            socket
        })
        .collect();
    for round in 0..20 {
        let text = numbered(round, 1);
        assert_eq!(say(&hobd.client, &text).as_ref(), Some(&text));
    }
    drop(slow);
    wait::until("the connections are gone", || (descriptors(&hobd) < 100).then_some(()));
}

#[test]
fn a_client_gets_the_place_of_the_connection_that_has_waited_longest_for_a_head() {
    let _one_at_a_time = MANY_DESCRIPTORS.lock();
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let half = "GET /health HTTP/1.1\r\nhost: 127.0";
    let whole = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", hobd.client.address);
    // The first head is never complete; the second one is, and another one may follow it.
    for (head, is_answered) in [(half, false), (whole.as_str(), true)] {
        let connect = |_| {
            let mut socket = TcpStream::connect(hobd.client.address).unwrap();
            socket.set_read_timeout(Some(wait::PATIENCE)).unwrap();
            socket.write_all(head.as_bytes()).unwrap();
            assert!(!is_answered || socket.read(&mut [0; 1024]).unwrap() > 0);
            socket
        };
        let mut waiting: Vec<TcpStream> = (0..MAX_CONNECTIONS).map(connect).collect();
        assert_eq!(say(&hobd.client, "and now").unwrap(), "and now");
        assert!(is_closed(&mut waiting[0]));
        // Neither has the limit of heads, 30 s, passed, nor were more closed than one client needs.
        waiting[MAX_CONNECTIONS - 1].set_read_timeout(Some(BRIEFLY)).unwrap();
        assert!(!is_closed(&mut waiting[MAX_CONNECTIONS - 1]));
        drop(waiting);
        wait::until("the connections are gone", || (descriptors(&hobd) < 100).then_some(()));
    }
}

/// Whether hobd has closed it, after what it has answered.
fn is_closed(socket: &mut TcpStream) -> bool {
    loop {
        match socket.read(&mut [0; 1024]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// The system answers a connection beyond hobd's backlog not at all, and its client tries again after a second.
#[test]
fn a_burst_of_connections_is_queued_while_hobd_is_busy() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let pid = hobd.process.id();
    Process::signal(pid, Signal::STOP);
    let connect = |number| {
        let patience = Duration::from_millis(500);
        TcpStream::connect_timeout(&hobd.client.address, patience)
            .unwrap_or_else(|error| panic!("number {number}: {error}"))
    };
    let burst: Vec<TcpStream> = (0..CLIENTS * 2).map(connect).collect();
    Process::signal(pid, Signal::CONT);
    assert_eq!(say(&hobd.client, "and now").unwrap(), "and now");
    drop(burst);
}

#[test]
fn web_sockets_count_as_connections() {
    let _one_at_a_time = MANY_DESCRIPTORS.lock();
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let mut open: Vec<TcpStream> = (0..MAX_CONNECTIONS)
        .map(|number| {
            let mut socket = web_socket(&hobd.client);
            assert!(is_accepted(&mut socket), "number {number}");
            socket
        })
        .collect();
    let mut one_more = web_socket(&hobd.client);
    one_more.set_read_timeout(Some(BRIEFLY)).unwrap();
    assert!(!is_accepted(&mut one_more), "its turn comes when another one closes");
    open.pop();
    one_more.set_read_timeout(Some(wait::PATIENCE)).unwrap();
    assert!(is_accepted(&mut one_more));
    drop((open, one_more));
    assert_eq!(say(&hobd.client, "and now").unwrap(), "and now");
}

/// A connection that asks for a WebSocket.
fn web_socket(client: &Client) -> TcpStream {
    let mut socket = TcpStream::connect(client.address).unwrap();
    socket.set_read_timeout(Some(wait::PATIENCE)).unwrap();
    let head = format!(
        "GET /v1/realtime/events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: \
         upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: \
         dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        client.address, client.token
    );
    socket.write_all(head.as_bytes()).unwrap();
    socket
}

/// Whether hobd answers before the socket's time is over.
fn is_accepted(socket: &mut TcpStream) -> bool {
    let mut status = [0; 12];
    match socket.read(&mut status) {
        Ok(count) => {
            assert_eq!(&status[..count], b"HTTP/1.1 101");
            true
        }
        Err(_) => false,
    }
}
